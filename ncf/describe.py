"""What a data folder holds, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def describe(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a data folder holds, as short (label, text) lines."""
    source, rule, facts = manifest["source"], manifest["split"], manifest["summary"]
    drawn, tied = manifest["candidates"], rule["tied_last_timestamp_share"]
    name = manifest["name"]
    if source.get("known_as"):
        how = {"md5": "its MD5", "counts": "its counts and last timestamp"}[source["known_by"]]
        name += f" (recognised by {how})"
    elif source.get("file"):
        name += " (not a known archive)"
    given = facts.get("given")
    dropped = [f"{facts['dropped_repeats']:,} repeats"]
    if given:
        dropped += _dropped_from_given(given)
    else:
        dropped.append(
            f"{facts['dropped_short_users']:,} users below {rule['min_interactions']} "
            f"interactions ({facts['dropped_short_rows']:,} rows)"
        )
    if facts["dropped_single_users"]:
        some = ", ".join(facts["dropped_single_users_named"])
        dropped.append(
            f"{facts['dropped_single_users']:,} users with a single interaction (such as {some}): "
            "nothing would be left to train on"
        )
    held_out = "the latest, and with no timestamps the last in the file"
    if given:
        held_out = f"as given; {given['users_without_test']:,} users have no test row"
    elif tied is not None:
        held_out = f"the latest; of the {tied:.1%} of users with a tie, the last in the file"
    history = "{min:,} to {max:,} items a user, median {median:,.0f}".format(**facts["history"])
    size = f"{manifest['users']:,} x {manifest['items']:,}, density {facts['density']:.3%}"
    count = f"{drawn['effective_mean']:.1f} count (at least {drawn['effective_min']})"
    if drawn.get("padded"):
        count += f"; {drawn['padded_users']:,} users are padded"
    if drawn["protocol"].startswith("given-") and given["candidates_in_training"]:
        count += f"; {given['candidates_in_training']:,} given ones are training items"
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
    if facts["items_only_in_test"]:
        text = f"{facts['items_only_in_test']:,} items have no training row"
        lines.insert(6, ("test only", text))
    columns = source.get("columns")
    if columns:
        said = ", ".join(f"{use} = {column or 'none'}" for use, column in columns.items())
        lines.insert(1, ("format", f"{source['format']}; {said}"))
    return lines


def _dropped_from_given(given: Mapping[str, Any]) -> list[str]:
    texts = []
    if lost := given["test_users_without_training"]:
        some = ", ".join(given["test_users_without_training_named"])
        texts.append(f"{lost:,} test users without training rows (such as {some})")
    if leaks := given["training_rows_equal_to_test"]:
        texts.append(f"{leaks:,} training rows that are their user's test row")
    return texts
