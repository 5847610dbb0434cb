"""`ncf-bench ingest`: logs of other programs in; `export` and `frame`: our runs out."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench
from bench.cli import OK, PROGRAM
from bench.cli.common import (
    OUTPUT,
    WHAT,
    add_options,
    count,
    load_suite,
    records_folder,
    suite_argument,
)
from bench.errors import UserError
from bench.files import write_new
from bench.foreign.run import PROGRAMS, ForeignRun

if TYPE_CHECKING:
    import argparse

    from bench.cli import Parser


def ingest_arguments(parser: Parser) -> None:
    """The options of `ingest`."""
    what = parser.group(WHAT)
    what.add_argument("files", nargs="+", type=Path, metavar="FILE", help="DLLogger or MLLOG logs")
    what.add_argument("--suite", required=True, help="suite whose report includes these runs")
    what.add_argument(
        "--precision",
        choices=("fp32", "tf32"),
        help="precision of runs without mixed precision, which their logs do not name",
    )
    what.add_argument("--machine", metavar="TEXT", help="description of their machine")
    what.add_argument(
        "--same_machine", action="store_true", help="they ran on the machine of our records"
    )
    what.add_argument("--data", metavar="NAME", help="their training data, for instance ml-20m")
    what.add_argument(
        "--candidates", type=count, metavar="N", help="sampled candidates per test user"
    )
    add_options(parser, "results")


def export_arguments(parser: Parser) -> None:
    """The options of `export`."""
    from bench.foreign.logs import FORMS

    suite_argument(parser)
    add_options(parser, "results")
    group = parser.group(OUTPUT)
    group.add_argument("--form", choices=FORMS, required=True, help="format of the logs")
    group.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="folder: one file per good run"
    )


def ingest(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Read logs into results/<suite>/foreign; a run that is there already is left alone."""
    from bench.foreign.logs import read

    suite = load_suite(parsed.suite, trainer)
    runs: list[ForeignRun] = []
    for file in parsed.files:
        try:
            text = file.read_bytes().decode("utf-8", errors="replace")
        except OSError as error:
            raise UserError(f"{file}: {error.strerror}") from None
        runs += [_with_stated(run, parsed) for run in read(text, str(file))]
    folder = parsed.results / suite.name / "foreign"
    new = 0
    for run in runs:
        text = json.dumps(run.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        try:
            write_new(folder / f"{run.digest[:16]}.json", text + "\n")
            new += 1
            state = "" if run.finished else ", cut before its closing figures: enters no number"
        except FileExistsError:
            state = ", there already"
        print(f"{run.file}: {_described(run)}{state}")
    print(f"{new} new runs in {folder}; `ncf-bench report {parsed.suite}` compares them with ours")
    return OK


def _with_stated(run: ForeignRun, parsed: argparse.Namespace) -> ForeignRun:
    stated: dict[str, Any] = {}
    for name in ("precision", "machine", "data", "candidates"):
        value = getattr(parsed, name)
        if value is not None:
            stated[name] = value
    if parsed.same_machine:
        stated["same_machine"] = True
    if run.amp:
        stated.pop("precision", None)
    if run.candidates is not None:
        stated.pop("candidates", None)
    return replace(run, stated=stated, candidates=run.candidates or stated.get("candidates"))


def _described(run: ForeignRun) -> str:
    ranks = f"{run.world_size} ranks" if run.world_size else "number of ranks not in the log"
    return f"{PROGRAMS[run.program]}, {ranks}, {len(run.epochs)} epochs"


def export(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Write every good run of a suite as a log."""
    from bench.files import write_if_changed
    from bench.foreign.logs import lines
    from bench.records import store

    suite = load_suite(parsed.suite, trainer)
    loaded = store.load(parsed.results / suite.name)
    good = [attempt for attempt in loaded.attempts if attempt.ok]
    if not good:
        raise UserError(f"{parsed.results / suite.name}: no good run to export")
    for attempt in good:
        assert attempt.run is not None
        name = f"{attempt.cell.key}-seed{attempt.seed}-a{attempt.attempt}.{parsed.form}.log"
        text = "\n".join(lines(attempt.run, parsed.form)) + "\n"
        write_if_changed(parsed.output / name, text.encode("utf-8"))
    print(f"{len(good)} runs written to {parsed.output}")
    return OK


def frame_arguments(parser: Parser) -> None:
    """The options of `frame`."""
    parser.group(WHAT).add_argument(
        "suites",
        nargs="+",
        metavar="SUITE",
        help="suites with stored runs, or folders with `records`",
    )
    add_options(parser, "results")
    group = parser.group(OUTPUT)
    group.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help=f"file to write; its ending chooses the format: {', '.join(_WRITERS)}",
    )
    group.add_argument(
        "--level", choices=("run", "epoch"), default="run", help="what a row is [run]"
    )


_WRITERS = {".parquet": "to_parquet", ".csv": "to_csv"}


def frame(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """Write the stored runs as one table; an unreadable record is skipped with a warning."""
    if parsed.output.suffix not in _WRITERS:
        raise UserError(f"--output {parsed.output}: must end in {' or '.join(_WRITERS)}")
    folders = [records_folder(name, parsed.results) for name in parsed.suites]
    with warnings.catch_warnings(record=True) as skipped:
        warnings.simplefilter("always", UserWarning)
        data = bench.frame(folders, level=parsed.level)
    for warning in skipped:
        print(f"{PROGRAM}: warning: {warning.message}", file=sys.stderr)
    parsed.output.parent.mkdir(parents=True, exist_ok=True)
    getattr(data, _WRITERS[parsed.output.suffix])(parsed.output, index=False)
    print(f"{parsed.output}: {len(data)} {parsed.level}s, {len(data.columns)} columns")
    return OK
