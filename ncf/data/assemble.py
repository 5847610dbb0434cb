"""From a split to everything a data folder holds: candidates, baselines, facts for the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf import metrics
from ncf.data import candidates, given_split
from ncf.data import split as splitting
from ncf.data.writer import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncf.data.split import Split
    from ncf.data.synthetic import Structure
    from ncf.readers.ids import Ids

TOPK: Final = 10
_NAMED: Final = 5
"""Users named in a message about many."""


class RoomError(ValueError):
    """Test users with too few items left to draw their candidates from, and what would help."""


@dataclass(frozen=True)
class Drawing:
    """How candidates are made: drawn by a protocol, or kept as they came (`given`)."""

    protocol: str
    per_user: int
    seed: int
    pad: bool = False
    threads: int = 1

    @property
    def name(self) -> str:
        """The protocol as data and records name it."""
        return candidates.given_name(self.per_user) if self.protocol == "given" else self.protocol


def assemble(
    split: Split,
    user_ids: Ids,
    item_ids: Ids,
    drawing: Drawing,
    about: Mapping[str, Any],
    structure: Structure | None = None,
) -> Prepared:
    """Draw the candidates and compute what the manifest tells.

    Args:
        split: what `leave_one_out` or `given.split` made.
        user_ids: ids of all users before the split dropped any, likewise `item_ids`.
        item_ids: see `user_ids`.
        drawing: how candidates are made.
        about: name and source, for the manifest.
        structure: what was planted in generated data; adds the oracle's HR@10.

    Raises:
        RoomError: users have seen nearly everything.
    """
    drawn = _candidates(split, user_ids, drawing)
    counts = candidates.duplicate_mask(drawn, split.test_items, threads=drawing.threads)
    effective = counts.sum(axis=1)
    popularity = metrics.popularity(split.train_items, split.n_items)
    test = (split.test_items, drawn, counts, TOPK)
    levels = {
        "chance": metrics.chance_hr(effective, TOPK),
        "popularity": metrics.item_score_totals(popularity, *test).hr,
    }
    if structure is not None:
        users, planted = split.kept_users, structure
        levels["oracle"] = metrics.candidate_totals(
            lambda rows, items: planted.scores(users[rows], split.kept_items[items]), *test
        ).hr
    kept_users, kept_items = user_ids.take(split.kept_users), item_ids.take(split.kept_items)
    arrays: dict[str, npt.NDArray[Any]] = {
        "train_items": split.train_items,
        "train_offsets": split.train_offsets,
        "test_users": split.test_users,
        "test_items": split.test_items,
        "candidates": drawn,
        "user_ids": kept_users.text,
        "user_id_offsets": kept_users.offsets,
        "item_ids": kept_items.text,
        "item_id_offsets": kept_items.offsets,
    }
    history = np.diff(split.train_offsets)
    history[split.test_users] += 1
    facts = {
        **about,
        "split": split_facts(split),
        "summary": {
            **dropped(split, user_ids),
            **history_facts(history, split.n_items),
            "items_only_in_test": int(np.count_nonzero(popularity == 0)),
        },
        "candidates": candidate_facts(drawing, effective, _short_of(split, drawing)),
        "hr_at_10": levels,
    }
    return Prepared(arrays, facts)


def split_facts(split: Split) -> dict[str, Any]:
    """The rules that made the split, for the manifest."""
    given = bool(split.given)
    return {
        "rule": given_split.RULE if given else splitting.RULE,
        "tie_rule": given_split.TIE_RULE if given else splitting.TIE_RULE,
        "repeat_rule": given_split.REPEAT_RULE if given else splitting.REPEAT_RULE,
        "min_interactions": None if given else split.min_interactions,
        "tied_last_timestamp_share": split.tied_last_time_share,
    }


def dropped(split: Split, user_ids: Ids) -> dict[str, Any]:
    """Rows read, and what was dropped and why."""
    return {
        "rows_read": split.rows,
        "dropped_repeats": split.dropped_repeats,
        "dropped_short_users": len(split.short_users),
        "dropped_short_rows": split.dropped_short_rows,
        "dropped_single_users": len(split.single_users),
        "dropped_single_users_named": _named(split.single_users, user_ids),
        **({"given": dict(split.given)} if split.given else {}),
    }


def history_facts(history: npt.NDArray[np.int64], n_items: int) -> dict[str, Any]:
    """The shape of the data, from how many items each user has, training and test together."""
    low, median, high = np.quantile(history, [0.1, 0.5, 0.9]).tolist()
    return {
        "interactions": int(history.sum()),
        "density": float(history.sum() / len(history) / n_items),
        "history": {
            "min": int(history.min()),
            "p10": low,
            "median": median,
            "p90": high,
            "max": int(history.max()),
        },
    }


def candidate_facts(
    drawing: Drawing, effective: npt.NDArray[np.integer[Any]], short_users: int
) -> dict[str, Any]:
    """What the manifest tells about candidates; `effective` [n_test] counts those that count."""
    return {
        "protocol": drawing.name,
        "per_user": drawing.per_user,
        "seed": None if drawing.protocol == "given" else drawing.seed,
        "padded": drawing.pad,
        "padded_users": short_users if drawing.pad else 0,
        "effective_mean": float(effective.mean()),
        "effective_min": int(effective.min()),
    }


def _candidates(split: Split, user_ids: Ids, drawing: Drawing) -> npt.NDArray[np.int32]:
    if drawing.protocol == "given":
        assert split.candidates is not None, "prepare asks for given candidates where there are"
        return split.candidates
    try:
        return candidates.draw(
            drawing.protocol,
            drawing.per_user,
            drawing.seed,
            split.train_offsets,
            split.train_items,
            split.test_users,
            split.test_items,
            split.n_items,
            pad=drawing.pad,
            threads=drawing.threads,
        )
    except candidates.ShortOfItemsError as error:
        names = ", ".join(_named(split.kept_users[split.test_users[error.rows]], user_ids))
        way_out = "or pad the rest with --pad_candidates"
        if error.least:
            way_out = f"use --valid_negative {error.least}, {way_out}"
        else:
            way_out = f"remove these users, {way_out}"
        raise RoomError(f"{error} (such as {names}); {way_out}") from None


def _short_of(split: Split, drawing: Drawing) -> int:
    """Test users whose catalogue cannot offer what the protocol asks for."""
    if drawing.protocol == "given":
        return 0
    room = candidates.admissible(split.train_offsets, split.test_users, split.n_items)
    needed = candidates.required(drawing.protocol, drawing.per_user)
    return int(np.count_nonzero(room < needed))


def _named(users: Any, user_ids: Ids) -> list[str]:
    return [user_ids.text_of(int(user)) for user in users[:_NAMED]]
