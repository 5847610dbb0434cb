"""The commands `ncf prepare` and `ncf synthesize`: their options and their output.

The pipeline is imported when a command runs, so that help and bad options do not wait for NumPy and
pyarrow.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ncf.data.progress import Stages
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse

    from ncf.data.dataset import Data

# Equal to the tables of the modules that do the work, which a test checks.
PROTOCOLS: Final = ("nvidia", "unique", "mlperf")
PRESETS: Final = ("tiny", "100k", "1m", "20m", "20m-2m", "20m-500k")
FORMATS: Final = ("auto", "tsv", "dat", "csv", "semicolon", "pipe")


def prepare_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf prepare`."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="MovieLens zip or ratings file, RecBole .inter, Parquet, .npz, the NCF paper's files, "
        "any table with user and item columns",
    )
    parser.add_argument(
        *("--min_interactions", "--min-interactions"),
        type=int,
        metavar="N",
        help="drop users with fewer distinct items [20; a given split is kept as it is]",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="auto",
        help="separator of a text table (dat is ::) [auto: by content]",
    )
    _add_common(parser, "seed of the candidates [1]", (*PROTOCOLS, "given"))


def synthesize_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf synthesize`."""
    parser.add_argument("--preset", choices=PRESETS, required=True, help="shape of the data")
    _add_common(parser, "seed of the data and of the candidates [1]", PROTOCOLS)


def _add_common(
    parser: argparse.ArgumentParser, seed_help: str, protocols: tuple[str, ...]
) -> None:
    parser.add_argument("--output", required=True, metavar="DIR", help="data folder to write")
    parser.add_argument(
        "--protocol",
        choices=protocols,
        help="how evaluation candidates are drawn [nvidia, or those that came with the data]",
    )
    parser.add_argument(
        *("--valid_negative", "--valid-negative"),
        type=int,
        metavar="N",
        help="candidates per test user [100; mlperf 999]",
    )
    parser.add_argument(
        *("--pad_candidates", "--pad-candidates"),
        action="store_true",
        help="give users with too few items left fewer candidates, instead of an error",
    )
    parser.add_argument(
        "--scale",
        type=_scale,
        metavar="AxB",
        help="A times as many users and B times as many items, by a randomised Kronecker product",
    )
    parser.add_argument("--seed", type=int, default=1, help=seed_help)
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="CPU threads [all; never the result]"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing data folder")
    parser.add_argument("--json", action="store_true", help="print the manifest, for programs")


def _scale(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})x(\d{1,6})", text)
    if not match or not int(match[1]) or not int(match[2]):
        raise UserError(f"--scale {text}: give two numbers from 1, such as 16x32 (users x items)")
    return int(match[1]), int(match[2])


def prepare(args: argparse.Namespace) -> int:
    """Run `ncf prepare`; a UserError says in one line what the user can correct."""
    if args.min_interactions is not None and args.min_interactions < 1:
        raise UserError(f"--min_interactions {args.min_interactions}: must be at least 1")
    stages = _start(args)
    from ncf.data import pipeline

    return _report(pipeline.prepare(args, stages), stages, as_json=args.json)


def synthesize(args: argparse.Namespace) -> int:
    """Run `ncf synthesize`; a UserError says in one line what the user can correct."""
    stages = _start(args)
    from ncf.data import pipeline

    return _report(pipeline.synthesize(args, stages), stages, as_json=args.json)


def _start(args: argparse.Namespace) -> Stages:
    """Check options and output folder before the work begins, and start the clock."""
    stages = Stages(time.perf_counter)
    from ncf.data.writer import check_target

    if args.valid_negative is not None and args.valid_negative < 1:
        raise UserError(f"--valid_negative {args.valid_negative}: must be at least 1")
    if args.seed < 0:
        raise UserError(f"--seed {args.seed}: must not be negative")
    if args.threads < 0:
        raise UserError(f"--threads {args.threads}: must be at least 0")
    args.threads = args.threads or len(os.sched_getaffinity(0))
    check_target(Path(args.output), force=args.force)
    return stages


def _report(data: Data, stages: Stages, *, as_json: bool) -> int:
    """Print the manifest as JSON, or its summary."""
    from ncf.data.manifest import summary_lines

    if as_json:
        print(json.dumps(data.manifest, indent=1, ensure_ascii=False))
        return 0
    memory = data.manifest["summary"]["peak_memory_bytes"] / 1e6
    cost = f"{sum(stages.seconds.values()):.1f} s, {memory:,.0f} MB peak memory"
    for label, text in [*summary_lines(data.manifest), ("cost", cost)]:
        print(f"{label:<16}{text}")
    return 0
