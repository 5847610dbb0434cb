"""The descriptive parts of a data folder's manifest, and their summary for people. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ncf.data import given_split
from ncf.data import split as leave_one_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncf.data.candidates import Drawing
    from ncf.data.split import Split
    from ncf.data.synthetic import Structure
    from ncf.readers.ids import Ids


@dataclass(frozen=True)
class SplitData:
    """A split, the ids of all users and items before any were dropped, and where it is from.

    `structure` is the planted preference of generated data.
    """

    split: Split
    user_ids: Ids
    item_ids: Ids
    name: str
    source: Mapping[str, Any]
    structure: Structure | None = None


@dataclass(frozen=True)
class Facts:
    """Counts and baselines of the data that are written.

    `history` [n_users] counts each user's items, training and test together; `effective` [n_test]
    the candidates that count. `short_users` have too few items for the protocol. `hr_at_10` is
    HR@10 of chance and other baselines.
    """

    n_items: int
    history: npt.NDArray[np.int64]
    effective: npt.NDArray[np.integer[Any]]
    short_users: int
    items_only_in_test: int
    hr_at_10: Mapping[str, float]


def describe(
    data: SplitData,
    drawing: Drawing,
    facts: Facts,
    cost: Mapping[str, Any],
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest apart from the arrays; `base` describes what expanded data are made from."""
    split, history = data.split, facts.history
    given = bool(split.given)
    rules = given_split if given else leave_one_out
    low, median, high = np.quantile(history, [0.1, 0.5, 0.9]).tolist()
    return {
        "name": data.name,
        "source": data.source,
        "split": {
            "rule": rules.RULE,
            "tie_rule": rules.TIE_RULE,
            "repeat_rule": rules.REPEAT_RULE,
            "min_interactions": None if given else split.min_interactions,
            "tied_last_timestamp_share": split.tied_last_time_share,
        },
        "summary": {
            **({"base": base} if base else {}),
            "rows_read": split.rows,
            "dropped_repeats": split.dropped_repeats,
            "dropped_short_users": len(split.short_users),
            "dropped_short_rows": split.dropped_short_rows,
            "dropped_single_users": len(split.single_users),
            "dropped_single_users_named": data.user_ids.examples(split.single_users),
            **({"given": dict(split.given)} if given else {}),
            "interactions": int(history.sum()),
            "density": float(history.sum() / len(history) / facts.n_items),
            "history": {
                "min": int(history.min()),
                "p10": low,
                "median": median,
                "p90": high,
                "max": int(history.max()),
            },
            "items_only_in_test": facts.items_only_in_test,
            **cost,
        },
        "candidates": {
            "protocol": drawing.name,
            "per_user": drawing.per_user,
            "seed": drawing.seed,
            "padded": drawing.pad,
            "padded_users": facts.short_users if drawing.pad else 0,
            "effective_mean": float(facts.effective.mean()),
            "effective_min": int(facts.effective.min()),
        },
        "hr_at_10": facts.hr_at_10,
    }


def summary_lines(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The contents of a data folder, as short (label, text) lines."""
    source, rule, facts = manifest["source"], manifest["split"], manifest["summary"]
    drawn, tied = manifest["candidates"], rule["tied_last_timestamp_share"]
    name = manifest["name"]
    if source.get("known_as"):
        how = {"md5": "its MD5", "counts": "its counts and last timestamp"}[source["known_by"]]
        name += f" (recognised by {how})"
    elif source.get("file"):
        name += " (not a known archive)"
    given = facts.get("given")
    held_out = "the latest, and with no timestamps the last in the file"
    if given:
        held_out = f"as given; {given['users_without_test']:,} users have no test row"
    elif tied is not None:
        held_out = f"the latest; of the {tied:.1%} of users with a tie, the last in the file"
    count = f"{drawn['effective_mean']:.1f} count (at least {drawn['effective_min']})"
    if drawn.get("padded"):
        count += f"; {drawn['padded_users']:,} users are padded"
    if drawn["protocol"].startswith("given-") and given["candidates_in_training"]:
        count += f"; {given['candidates_in_training']:,} given ones are training items"
    size = f"{manifest['users']:,} x {manifest['items']:,}, density {facts['density']:.3%}"
    history = "{min:,} to {max:,} items a user, median {median:,.0f}".format(**facts["history"])
    rows = f"{manifest['train_interactions']:,} rows, {manifest['test_users']:,} users"
    only_in_test = f"{facts['items_only_in_test']:,} items have no training row"
    columns = source.get("columns") or {}
    used = ", ".join(f"{use} = {column or 'none'}" for use, column in columns.items())
    return [
        ("data", name),
        *([("format", f"{source['format']}; {used}")] if columns else []),
        ("rows read", f"{facts['rows_read']:,}"),
        ("dropped", "; ".join(_dropped(facts, rule["min_interactions"]))),
        ("users, items", size),
        ("history", history),
        ("train, test", rows),
        *([("test only", only_in_test)] if facts["items_only_in_test"] else []),
        ("held out", held_out),
        ("candidates", f"{drawn['per_user']} by protocol {drawn['protocol']}, of which {count}"),
        ("HR@10", ", ".join(f"{key} {value:.4f}" for key, value in manifest["hr_at_10"].items())),
        ("hash", f"{manifest['hash']}, candidates {drawn['hash'][:16]}"),
    ]


def _dropped(facts: Mapping[str, Any], least: int | None) -> list[str]:
    """The rows and users that were dropped, as texts."""
    texts = [f"{facts['dropped_repeats']:,} repeats"]
    given = facts.get("given")
    if given is None:
        texts.append(
            f"{facts['dropped_short_users']:,} users below {least} interactions "
            f"({facts['dropped_short_rows']:,} rows)"
        )
    elif lost := given["test_users_without_training"]:
        some = ", ".join(given["test_users_without_training_named"])
        texts.append(f"{lost:,} test users without training rows (such as {some})")
    if given and (leaks := given["training_rows_equal_to_test"]):
        texts.append(f"{leaks:,} training rows that are their user's test row")
    if facts["dropped_single_users"]:
        some = ", ".join(facts["dropped_single_users_named"])
        texts.append(
            f"{facts['dropped_single_users']:,} users with a single interaction (such as {some}): "
            "nothing would be left to train on"
        )
    return texts
