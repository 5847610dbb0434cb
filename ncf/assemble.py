"""From a split to everything a data folder holds: candidates, baselines, facts for the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf import candidates, metrics
from ncf import split as splitting
from ncf.dataset import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncf.ids import Ids
    from ncf.split import Split
    from ncf.synthetic import Structure

TOPK: Final = 10
_NAMED: Final = 5
"""Users named in a message about many."""


class RoomError(ValueError):
    """Test users with too few items left to draw their candidates from, and what would help."""


def assemble(
    split: Split,
    user_ids: Ids,
    item_ids: Ids,
    protocol: str,
    per_user: int,
    seed: int,
    about: Mapping[str, Any],
    structure: Structure | None = None,
) -> Prepared:
    """Draw the candidates and compute what the manifest tells.

    Args:
        split: what `leave_one_out` made.
        user_ids: ids of all users before the split dropped any, likewise `item_ids`.
        item_ids: see `user_ids`.
        protocol: how candidates are drawn.
        per_user: candidates per test user.
        seed: seed of the candidates.
        about: name and source, for the manifest.
        structure: what was planted in generated data; adds the oracle's HR@10.

    Raises:
        RoomError: users have seen nearly everything.
    """
    _check_room(split, user_ids, protocol, per_user)
    drawn = candidates.draw(
        protocol,
        per_user,
        seed,
        split.train_offsets,
        split.train_items,
        split.test_users,
        split.test_items,
        split.n_items,
    )
    counts = candidates.duplicate_mask(drawn, split.test_items)
    effective = counts.sum(axis=1)
    popularity = np.bincount(split.train_items, minlength=split.n_items)
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
    facts = {
        **about,
        "split": {
            "rule": splitting.RULE,
            "tie_rule": splitting.TIE_RULE,
            "repeat_rule": splitting.REPEAT_RULE,
            "min_interactions": split.min_interactions,
            "tied_last_timestamp_share": split.tied_last_time_share,
        },
        "summary": {
            **_counts(split, user_ids),
            "items_only_in_test": int(np.count_nonzero(popularity == 0)),
        },
        "candidates": {
            "protocol": protocol,
            "per_user": per_user,
            "seed": seed,
            "effective_mean": float(effective.mean()),
            "effective_min": int(effective.min()),
        },
        "hr_at_10": levels,
    }
    return Prepared(arrays, facts)


def _counts(split: Split, user_ids: Ids) -> dict[str, Any]:
    """Rows read, dropped and why, and the shape of what is left."""
    history = np.diff(split.train_offsets) + 1
    low, median, high = np.quantile(history, [0.1, 0.5, 0.9]).tolist()
    return {
        "rows_read": split.rows,
        "dropped_repeats": split.dropped_repeats,
        "dropped_short_users": len(split.short_users),
        "dropped_short_rows": split.dropped_short_rows,
        "dropped_single_users": len(split.single_users),
        "dropped_single_users_named": _named(split.single_users, user_ids),
        "interactions": int(history.sum()),
        "density": float(history.sum() / split.n_users / split.n_items),
        "history": {
            "min": int(history.min()),
            "p10": low,
            "median": median,
            "p90": high,
            "max": int(history.max()),
        },
    }


def _check_room(split: Split, user_ids: Ids, protocol: str, per_user: int) -> None:
    room = candidates.admissible(split.train_offsets, split.test_users, split.n_items)
    short = np.flatnonzero(room < candidates.required(protocol, per_user))
    if not short.size:
        return
    names = ", ".join(_named(split.kept_users[split.test_users[short]], user_ids))
    who = f"{len(short):,} of {len(room):,} users (such as {names})"
    least = int(room.min())
    if least == 0:
        raise RoomError(f"{who} have every item, so nothing is left to sample; remove these users")
    raise RoomError(
        f"{who} have fewer than {per_user} items left to sample; --valid_negative {least} is the "
        "most that works for all"
    )


def _named(users: Any, user_ids: Ids) -> list[str]:
    return [user_ids.text_of(int(user)) for user in users[:_NAMED]]


def describe(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a data folder holds, as short (label, text) lines."""
    source, rule, facts = manifest["source"], manifest["split"], manifest["summary"]
    drawn, tied = manifest["candidates"], rule["tied_last_timestamp_share"]
    name = manifest["name"]
    if source.get("known_as"):
        how = {"md5": "its MD5", "counts": "its counts and last timestamp"}[source["known_by"]]
        name += f" (recognised by {how})"
    dropped = [f"{facts['dropped_repeats']:,} repeats"]
    dropped.append(
        f"{facts['dropped_short_users']:,} users below {rule['min_interactions']} interactions "
        f"({facts['dropped_short_rows']:,} rows)"
    )
    if facts["dropped_single_users"]:
        some = ", ".join(facts["dropped_single_users_named"])
        dropped.append(
            f"{facts['dropped_single_users']:,} users with a single interaction (such as {some}): "
            "nothing would be left to train on"
        )
    held_out = "the latest, and with no timestamps the last in the file"
    if tied is not None:
        held_out = f"the latest; of the {tied:.1%} of users with a tie, the last in the file"
    history = "{min:,} to {max:,} items a user, median {median:,.0f}".format(**facts["history"])
    size = f"{manifest['users']:,} x {manifest['items']:,}, density {facts['density']:.3%}"
    count = f"{drawn['effective_mean']:.1f} count (at least {drawn['effective_min']})"
    rows = f"{manifest['train_interactions']:,} rows, {manifest['test_users']:,} users"
    lines = [
        ("data", name),
        ("rows read", f"{facts['rows_read']:,}"),
        ("dropped", "; ".join(dropped)),
        ("users, items", size),
        ("history", history),
        ("train, test", rows),
        ("held out", held_out),
        ("candidates", f"{drawn['per_user']} by protocol {drawn['protocol']}, of which {count}"),
        ("HR@10", ", ".join(f"{key} {value:.4f}" for key, value in manifest["hr_at_10"].items())),
        ("hash", f"{manifest['hash']}, candidates {drawn['hash'][:16]}"),
    ]
    columns = source.get("columns")
    if columns:
        said = ", ".join(f"{use} = {column or 'none'}" for use, column in columns.items())
        lines.insert(1, ("format", f"{source['format']}; {said}"))
    return lines
