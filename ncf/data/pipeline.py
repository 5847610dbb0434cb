"""The pipeline from ratings, or a seed, to a data folder: read, split, draw candidates, write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf import metrics
from ncf.data import candidates, given_split, kronecker, manifest, synthetic, writer
from ncf.data.candidates import GIVEN, Drawing
from ncf.data.manifest import Facts, SplitData
from ncf.data.split import NothingLeftError, Split, leave_one_out
from ncf.errors import UserError
from ncf.readers import inputs, sources
from ncf.readers.ids import Ids
from ncf.readers.rows import Parts

if TYPE_CHECKING:
    import argparse

    from ncf.data.dataset import Data
    from ncf.data.progress import Stages
    from ncf.readers.inputs import Loaded

MIN_INTERACTIONS: Final = 20
TOPK: Final = 10


def prepare(args: argparse.Namespace, stages: Stages) -> Data:
    """Turn ratings into a data folder: `ncf prepare`.

    Raises:
        UserError: one line with file, place or option, and what is wrong.
    """
    return _finish(args, stages, _from_ratings(args, stages))


def synthesize(args: argparse.Namespace, stages: Stages) -> Data:
    """Generate a data folder: `ncf synthesize`.

    Raises:
        UserError: one line with the option and what is wrong.
    """
    return _finish(args, stages, _from_seed(args, stages))


def _from_ratings(args: argparse.Namespace, stages: Stages) -> SplitData:
    """Read and split."""
    path = Path(args.input)
    detected = inputs.detect(path, args.format)
    with ThreadPoolExecutor(1) as pool:
        hashing = pool.submit(lambda: [sources.digests(file) for file in detected.files])
        loaded = detected.read(args.threads)
        digests = hashing.result()
    rows = loaded.rows
    archive = None
    if isinstance(rows, Parts):
        n_rows = len(rows.train_users) + len(rows.test_users)
    else:
        n_rows = len(rows.users)
        last = None if rows.times is None else rows.times.max().item()
        sizes = len(rows.user_ids), len(rows.item_ids), n_rows
        archive = inputs.recognise_archive(digests[0][0], *sizes, last)
    stages.done("read", f"read {n_rows:,} rows of {loaded.label}: {loaded.format}")
    by_file = {file.name: sha256 for file, (_, sha256) in zip(detected.files, digests, strict=True)}
    source = {
        "file": path.name,
        "member": loaded.member,
        "sha256": digests[0][1] if len(digests) == 1 else None,
        **({"files": by_file} if len(digests) > 1 else {}),
        "format": loaded.format,
        "columns": loaded.columns,
        "known_as": archive[0] if archive else None,
        "known_by": archive[1] if archive else None,
    }
    split = _split(args, loaded)
    stages.done("split", f"split {split.n_users:,} users, {split.n_items:,} items")
    name = archive[0] if archive else loaded.name
    return SplitData(split, rows.user_ids, rows.item_ids, name, source)


def _split(args: argparse.Namespace, loaded: Loaded) -> Split:
    rows = loaded.rows
    if isinstance(rows, Parts):
        if args.min_interactions is not None:
            raise UserError(
                f"--min_interactions {args.min_interactions}: {loaded.label} has a split of its "
                "own, which is kept as it is"
            )
        try:
            return given_split.split(rows)
        except given_split.GivenSplitError as error:
            row = error.test_row
            place = loaded.label if row is None else loaded.place_of_test_row(row)
            raise UserError(f"{place}: {error}") from None
    least = MIN_INTERACTIONS if args.min_interactions is None else args.min_interactions
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


def _from_seed(args: argparse.Namespace, stages: Stages) -> SplitData:
    """Generate and split."""
    shape = synthetic.PRESETS[args.preset]

    def progress(rows: int) -> None:
        stages.progress(f"generated {rows:,} of {shape.interactions:,} interactions")

    generated = synthetic.generate(shape, args.seed, progress)
    stages.done("generate", f"generated {shape.interactions:,} interactions")
    split = leave_one_out(
        *(generated.users, generated.items, None, shape.users, shape.items, shape.least),
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
    ids = Ids.numbered(shape.users), Ids.numbered(shape.items)
    return SplitData(split, *ids, f"synthetic-{args.preset}", source, generated.structure)


def _finish(args: argparse.Namespace, stages: Stages, data: SplitData) -> Data:
    """Draw candidates and write the folder."""
    split = data.split
    drawing = _drawing(args, split)
    if args.scale:
        return _expand(args, stages, data, drawing)
    drawn = _candidates(data, drawing)
    facts = _facts(data, drawing, drawn)
    done = f"{'kept' if drawing.protocol == GIVEN else 'drew'} {drawing.per_user} candidates"
    stages.done("candidates", f"{done} for each of {len(split.test_users):,} users")
    kept_users = data.user_ids.take(split.kept_users)
    kept_items = data.item_ids.take(split.kept_items)
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
    about = manifest.describe(data, drawing, facts, stages.cost())
    prepared = writer.Prepared(arrays, about)
    saved = writer.save(Path(args.output), prepared, force=args.force, threads=args.threads)
    stages.done("write", f"wrote {args.output}")
    return saved


def _drawing(args: argparse.Namespace, split: Split) -> Drawing:
    """How candidates are made, which depends on whether some came with the data."""
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
    return Drawing(GIVEN, n, None, threads=args.threads)


def _candidates(data: SplitData, drawing: Drawing) -> npt.NDArray[np.int32]:
    split = data.split
    if split.candidates is not None and drawing.protocol == GIVEN:
        return split.candidates
    try:
        return candidates.draw(split.history, drawing)
    except candidates.ShortOfItemsError as error:
        names = ", ".join(data.user_ids.examples(split.kept_users[split.test_users[error.rows]]))
        way_out = f"use --valid_negative {error.least}" if error.least else "remove these users"
        raise UserError(
            f"{drawing.protocol} candidates: {error} (such as {names}); {way_out}, or pad the rest "
            "with --pad_candidates"
        ) from None


def _facts(data: SplitData, drawing: Drawing, drawn: npt.NDArray[np.int32]) -> Facts:
    """Counts and baselines; generated data have the HR@10 of their oracle too."""
    split, planted = data.split, data.structure
    counts = candidates.duplicate_mask(drawn, split.test_items, threads=drawing.threads)
    effective = counts.sum(axis=1)
    popularity = metrics.popularity(split.train_items, split.n_items)
    test = (split.test_items, drawn, counts, TOPK)
    levels = {
        "chance": metrics.chance_hr(effective, TOPK),
        "popularity": metrics.item_score_totals(popularity, *test).hr,
    }
    if planted is not None:
        levels["oracle"] = metrics.candidate_totals(
            lambda rows, items: planted.scores(split.kept_users[rows], split.kept_items[items]),
            *test,
        ).hr
    history = np.diff(split.train_offsets)
    history[split.test_users] += 1
    return Facts(
        n_items=split.n_items,
        history=history,
        effective=effective,
        short_users=len(candidates.short_rows(split.history, drawing)),
        items_only_in_test=int(np.count_nonzero(popularity == 0)),
        hr_at_10=levels,
    )


def _expand(args: argparse.Namespace, stages: Stages, data: SplitData, drawing: Drawing) -> Data:
    """Expand the split while writing it."""
    scale = "x".join(map(str, args.scale))
    if data.split.given:
        raise UserError(f"--scale {scale}: works on data without a split of their own")
    source = {**data.source, "scale": scale, "known_as": None, "known_by": None}
    expanded = replace(data, name=f"{data.name}-x{scale}", source=source)
    try:
        saved = kronecker.write(
            Path(args.output), expanded, args.scale, drawing, stages, force=args.force
        )
    except ValueError as error:
        raise UserError(f"--scale {scale}: {error}") from None
    stages.done("write", f"wrote {args.output}")
    return saved
