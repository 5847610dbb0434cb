"""The commands `ncf prepare` and `ncf synthesize`: from ratings, or a seed, to a data folder.

Both take the same way: numbered interactions, split, candidates, folder. The heavy imports are
inside the functions, because the command line builds its parser from here.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ncf.dataset import Data
    from ncf.ids import Ids
    from ncf.ratings import Ratings
    from ncf.split import Split
    from ncf.synthetic import Structure

# Equal to the tables of the modules that do the work, which a test checks: importing them here
# would make `ncf --help` wait for NumPy and pyarrow.
PROTOCOLS: Final = ("nvidia", "unique", "mlperf")
PRESETS: Final = ("tiny", "100k", "1m", "20m")
FORMATS: Final = ("auto", "tsv", "dat", "csv", "semicolon", "pipe")

_SECONDS_BETWEEN_LINES: Final = 2.0


def add_prepare_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf prepare`."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="MovieLens zip or ratings file, RecBole .inter, any table with user and item columns",
    )
    parser.add_argument(
        *("--min_interactions", "--min-interactions"),
        type=int,
        default=20,
        metavar="N",
        help="drop users with fewer distinct items [20]",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="auto",
        help="separator to read with (dat is ::) [auto: found by content]",
    )
    _add_common(parser, "seed of the candidates [1]")


def add_synthesize_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf synthesize`."""
    parser.add_argument("--preset", choices=PRESETS, required=True, help="shape of the data")
    _add_common(parser, "seed of the data and of the candidates [1]")


def _add_common(parser: argparse.ArgumentParser, seed_help: str) -> None:
    parser.add_argument("--output", required=True, metavar="DIR", help="data folder to write")
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default="nvidia",
        help="how evaluation candidates are drawn [nvidia]",
    )
    parser.add_argument(
        *("--valid_negative", "--valid-negative"),
        type=int,
        metavar="N",
        help="candidates per test user [100; mlperf 999]",
    )
    parser.add_argument("--seed", type=int, default=1, help=seed_help)
    parser.add_argument("--force", action="store_true", help="replace an existing data folder")
    parser.add_argument("--json", action="store_true", help="print the manifest, for programs")


def prepare_command(args: argparse.Namespace) -> int:
    """Run `ncf prepare`.

    Raises:
        UserError: anything the user can mend, in one line.
    """
    stages = _Stages(time.perf_counter)
    if args.min_interactions < 1:
        raise UserError(f"--min_interactions {args.min_interactions}: must be at least 1")
    _check(args)
    split, user_ids, item_ids, about = _from_ratings(args, stages)
    data = _finish(args, stages, split, user_ids, item_ids, about)
    _report(data, stages, as_json=args.json)
    return 0


def synthesize_command(args: argparse.Namespace) -> int:
    """Run `ncf synthesize`.

    Raises:
        UserError: anything the user can mend, in one line.
    """
    stages = _Stages(time.perf_counter)
    _check(args)
    split, user_ids, item_ids, about, structure = _from_seed(args, stages)
    data = _finish(args, stages, split, user_ids, item_ids, about, structure)
    _report(data, stages, as_json=args.json)
    return 0


@dataclass
class _Stages:
    """Seconds of each stage so far; a line on stderr tells what a stage did when it ends."""

    now: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=dict)
    since: float = 0.0

    def __post_init__(self) -> None:
        self.since = self.now()

    def done(self, stage: str, what: str) -> None:
        """End a stage."""
        self.seconds[stage], self.since = self.now() - self.since, self.now()
        say(f"{what} ({self.seconds[stage]:.1f} s)")


def say(line: str) -> None:
    """Progress goes to stderr, so that stdout holds the result alone."""
    print(line, file=sys.stderr, flush=True)


def _check(args: argparse.Namespace) -> None:
    """Find what would fail at the end before the work begins."""
    from ncf.dataset import check_target

    if args.valid_negative is not None and args.valid_negative < 1:
        raise UserError(f"--valid_negative {args.valid_negative}: must be at least 1")
    if args.seed < 0:
        raise UserError(f"--seed {args.seed}: must not be negative")
    check_target(Path(args.output), force=args.force)


def _from_ratings(
    args: argparse.Namespace, stages: _Stages
) -> tuple[Split, Ids, Ids, dict[str, Any]]:
    from ncf import known, ratings, sources

    path = Path(args.input)
    source, layout = ratings.choose(path, args.format)
    with ThreadPoolExecutor(1) as pool:
        hashing = pool.submit(sources.digests, path)  # costs nothing beside the parsing
        read = ratings.read(source, layout)
        md5, sha256 = hashing.result()
    stages.done("read", f"read {len(read.users):,} rows of {source.label}: {layout.describe()}")
    last = None if read.times is None else read.times.max().item()
    sizes = len(read.user_ids), len(read.item_ids), len(read.users)
    archive = known.recognise(md5, *sizes, last)
    about = {
        "name": archive[0] if archive else _stem(path),
        "source": {
            "file": path.name,
            "member": source.member,
            "sha256": sha256,
            "format": layout.describe(),
            "columns": layout.used(),
            "known_as": archive[0] if archive else None,
            "known_by": archive[1] if archive else None,
        },
    }
    split = _split(read, source.label, args.min_interactions)
    stages.done("split", f"split {split.n_users:,} users, {split.n_items:,} items")
    return split, read.user_ids, read.item_ids, about


def _split(read: Ratings, label: str, least: int) -> Split:
    from ncf.split import NothingLeftError, leave_one_out

    n_users, n_items = len(read.user_ids), len(read.item_ids)
    try:
        return leave_one_out(read.users, read.items, read.times, n_users, n_items, least)
    except NothingLeftError as error:
        most = error.largest
        way_out = f"use --min_interactions {most} or less"
        if most < 2:  # one to train on, one to test
            way_out = "each user needs at least 2 to train on one and test on the other"
        raise UserError(
            f"{label}: no user has {max(2, least)} distinct items (the most is {most}); {way_out}"
        ) from None


def _from_seed(
    args: argparse.Namespace, stages: _Stages
) -> tuple[Split, Ids, Ids, dict[str, Any], Structure]:
    from ncf import synthetic
    from ncf.ids import Ids
    from ncf.split import leave_one_out

    shape = synthetic.PRESETS[args.preset]
    told = stages.now()

    def progress(rows: int) -> None:
        nonlocal told
        if stages.now() - told > _SECONDS_BETWEEN_LINES:
            told = stages.now()
            say(f"generated {rows:,} of {shape.interactions:,} interactions")

    made = synthetic.generate(shape, args.seed, progress)
    stages.done("generate", f"generated {shape.interactions:,} interactions")
    split = leave_one_out(
        made.users, made.items, None, shape.users, shape.items, synthetic.MIN_PER_USER
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


def _finish(
    args: argparse.Namespace,
    stages: _Stages,
    split: Split,
    user_ids: Ids,
    item_ids: Ids,
    about: dict[str, Any],
    structure: Structure | None = None,
) -> Data:
    """Draw candidates and write the folder."""
    from ncf import candidates, dataset, environment
    from ncf.assemble import RoomError, assemble

    n = args.valid_negative or candidates.PROTOCOLS[args.protocol]
    try:
        data = assemble(split, user_ids, item_ids, args.protocol, n, args.seed, about, structure)
    except RoomError as error:
        raise UserError(f"{args.protocol} candidates: {error}") from None
    stages.done("candidates", f"drew {n} candidates for each of {split.n_users:,} users")
    cost = {
        "seconds": {stage: round(value, 3) for stage, value in stages.seconds.items()},
        "peak_memory_bytes": environment.peak_memory_bytes(on_gpu=False),
    }
    about = {**data.about, "summary": {**data.about["summary"], **cost}}
    saved = dataset.save(Path(args.output), dataset.Prepared(data.arrays, about), force=args.force)
    stages.done("write", f"wrote {args.output}")
    return saved


def _stem(path: Path) -> str:
    """The file's name without its last endings: `my.ratings.csv.gz` is `my.ratings`."""
    return path.name.removesuffix(".gz").removesuffix(".bz2").rpartition(".")[0] or path.name


def _report(data: Data, stages: _Stages, *, as_json: bool) -> None:
    """Tell what was made: the manifest as JSON, or its essence in a few lines."""
    from ncf.assemble import describe

    if as_json:
        print(json.dumps(data.manifest, indent=1, ensure_ascii=False))
        return
    memory = data.manifest["summary"]["peak_memory_bytes"] / 1e6
    cost = f"{sum(stages.seconds.values()):.1f} s, {memory:,.0f} MB peak memory"
    for label, text in [*describe(data.manifest), ("cost", cost)]:
        print(f"{label:<16}{text}")
