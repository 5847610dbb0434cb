"""The way from ratings, or a seed, to a data folder: split, candidates, files.

The heavy modules are imported where they are needed, so that mistakes in options show at once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ncf.data.progress import Stages, Told
from ncf.data.progress import cost as cost_of
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ncf.data.assemble import Drawing
    from ncf.data.dataset import Data
    from ncf.data.split import Split
    from ncf.data.synthetic import Structure
    from ncf.readers.ids import Ids
    from ncf.readers.inputs import Loaded

GIVEN: Final = "given"
"""Asks for the candidates that came with the data."""

_LEAST: Final = 20


def from_ratings(
    args: argparse.Namespace, stages: Stages
) -> tuple[Split, Ids, Ids, dict[str, Any]]:
    """Read and split; also the ids of all users and items, and name and source.

    Raises:
        UserError: one line with file, place and what is wrong.
    """
    from ncf.readers import inputs, sources
    from ncf.readers.rows import Parts

    path = Path(args.input)
    detected = inputs.detect(path, args.format)
    files = detected.files
    with ThreadPoolExecutor(1) as pool:
        hashing = pool.submit(lambda: [sources.digests(file) for file in files])
        loaded = detected.read(args.threads)
        digests = hashing.result()
    rows = loaded.rows
    archive = None
    if isinstance(rows, Parts):
        n_rows = len(rows.train_users) + len(rows.test_users)
    else:
        n_rows = len(rows.users)
        last = None if rows.times is None else rows.times.max().item()
        sizes = len(rows.user_ids), len(rows.item_ids), len(rows.users)
        archive = inputs.recognise_archive(digests[0][0], *sizes, last)
    stages.done("read", f"read {n_rows:,} rows of {loaded.label}: {loaded.format}")
    by_file = {file.name: sha256 for file, (_, sha256) in zip(files, digests, strict=True)}
    about = {
        "name": archive[0] if archive else loaded.name,
        "source": {
            "file": path.name,
            "member": loaded.member,
            "sha256": digests[0][1] if len(files) == 1 else None,
            **({"files": by_file} if len(files) > 1 else {}),
            "format": loaded.format,
            "columns": loaded.columns,
            "known_as": archive[0] if archive else None,
            "known_by": archive[1] if archive else None,
        },
    }
    split = _split(args, loaded)
    stages.done("split", f"split {split.n_users:,} users, {split.n_items:,} items")
    return split, rows.user_ids, rows.item_ids, about


def _split(args: argparse.Namespace, loaded: Loaded) -> Split:
    from ncf.data import given_split as given
    from ncf.data.split import NothingLeftError, leave_one_out
    from ncf.readers.rows import Parts

    rows = loaded.rows
    if isinstance(rows, Parts):
        if args.min_interactions is not None:
            raise UserError(
                f"--min_interactions {args.min_interactions}: {loaded.label} has a split of its "
                "own, which is kept as it is"
            )
        try:
            return given.split(rows)
        except given.GivenSplitError as error:
            row = error.test_row
            place = loaded.label if row is None else loaded.place_of_test_row(row)
            raise UserError(f"{place}: {error}") from None
    least = _LEAST if args.min_interactions is None else args.min_interactions
    sizes = len(rows.user_ids), len(rows.item_ids)
    try:
        return leave_one_out(
            rows.users, rows.items, rows.times, *sizes, least, threads=args.threads
        )
    except NothingLeftError as error:
        most = error.largest
        way_out = f"use --min_interactions {most} or less"
        if most < 2:  # one to train on, one to test
            way_out = "each user needs at least 2 to train on one and test on the other"
        raise UserError(
            f"{loaded.label}: no user has {max(2, least)} distinct items (the most is {most}); "
            f"{way_out}"
        ) from None


def from_seed(
    args: argparse.Namespace, stages: Stages
) -> tuple[Split, Ids, Ids, dict[str, Any], Structure]:
    """Generate and split; also what was planted."""
    from ncf.data import synthetic
    from ncf.data.split import leave_one_out
    from ncf.readers.ids import Ids

    shape = synthetic.PRESETS[args.preset]
    told = Told(stages.now)

    def progress(rows: int) -> None:
        told.say(f"generated {rows:,} of {shape.interactions:,} interactions")

    made = synthetic.generate(shape, args.seed, progress)
    stages.done("generate", f"generated {shape.interactions:,} interactions")
    split = leave_one_out(
        *(made.users, made.items, None, shape.users, shape.items, shape.least),
        threads=args.threads,
    )
    stages.done("split", f"split {split.n_users:,} users, {split.n_items:,} items")
    source = {
        "file": None,
        "sha256": None,
        "format": "generated",
        "preset": args.preset,
        "seed": args.seed,
        "known_as": None,
    }
    about = {"name": f"synthetic-{args.preset}", "source": source}
    return split, Ids.numbered(shape.users), Ids.numbered(shape.items), about, made.structure


def finish(
    args: argparse.Namespace,
    stages: Stages,
    split: Split,
    user_ids: Ids,
    item_ids: Ids,
    about: dict[str, Any],
    structure: Structure | None = None,
) -> Data:
    """Draw candidates and write the folder."""
    from ncf.data import writer as writing
    from ncf.data.assemble import RoomError, assemble

    drawing = _drawing(args, split)
    if args.scale:
        return _scaled(args, stages, split, user_ids, drawing, about)
    try:
        data = assemble(split, user_ids, item_ids, drawing, about, structure)
    except RoomError as error:
        raise UserError(f"{drawing.protocol} candidates: {error}") from None
    n, how = drawing.per_user, "kept" if drawing.protocol == GIVEN else "drew"
    stages.done("candidates", f"{how} {n} candidates for each of {len(split.test_users):,} users")
    about = {**data.about, "summary": {**data.about["summary"], **cost_of(stages)}}
    saved = writing.save(
        Path(args.output),
        writing.Prepared(data.arrays, about),
        force=args.force,
        threads=args.threads,
    )
    stages.done("write", f"wrote {args.output}")
    return saved


def _drawing(args: argparse.Namespace, split: Split) -> Drawing:
    """How candidates are made, once it is known whether some came with the data."""
    from ncf.data import candidates
    from ncf.data.assemble import Drawing

    came = split.candidates
    protocol = args.protocol or ("nvidia" if came is None else GIVEN)
    if protocol != GIVEN:
        n = args.valid_negative or candidates.PROTOCOLS[protocol]
        return Drawing(protocol, n, args.seed, args.pad_candidates, args.threads)
    if came is None:
        raise UserError(f"--protocol {GIVEN}: no candidates came with these data; drop it")
    n = came.shape[1]
    if args.valid_negative not in (None, n) or args.pad_candidates:
        flag = "--pad_candidates" if args.pad_candidates else "--valid_negative"
        raise UserError(
            f"{flag}: {n} candidates a user came with the data and are kept; name a --protocol "
            "to draw others"
        )
    return Drawing(GIVEN, n, args.seed, pad=False, threads=args.threads)


def _scaled(
    args: argparse.Namespace,
    stages: Stages,
    split: Split,
    user_ids: Ids,
    drawing: Drawing,
    about: dict[str, Any],
) -> Data:
    """Expand the split while writing it."""
    from ncf.data import kronecker as scaling

    scale = "x".join(map(str, args.scale))
    if split.given:
        raise UserError(f"--scale {scale}: works on data without a split of their own")
    told = Told(stages.now)
    about["source"] = {**about["source"], "scale": scale, "known_as": None, "known_by": None}
    about["name"] += f"-x{scale}"

    def cost() -> dict[str, Any]:
        stages.done("expand", f"expanded {scale}")
        return cost_of(stages)

    try:
        data = scaling.write(
            Path(args.output),
            split,
            user_ids,
            args.scale,
            args.seed,
            drawing,
            about,
            cost,
            lambda rows: told.say(f"wrote {rows:,} interactions"),
            force=args.force,
        )
    except ValueError as error:
        raise UserError(f"--scale {scale}: {error}") from None
    stages.done("write", f"wrote {args.output}")
    return data


def summary(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
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
