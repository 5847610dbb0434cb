"""What the commands do: each puts the pure parts and the effects together."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import suites
from bench.analysis import metrics
from bench.errors import UserError, did_you_mean
from bench.gate.compare import Terms
from bench.gate.samples import PARTS
from bench.host.machine import read_host
from bench.suite.model import LAUNCHERS, Suite
from bench.suite.trainer_options import INFER, trainer_options

if TYPE_CHECKING:
    from bench.gate.baseline import Baseline
    from bench.host.machine import Host
    from bench.suite.model import Suite
    from bench.sweep.plan import Selection

NAMES = (
    "run",
    "plan",
    "status",
    "report",
    "ingest",
    "export",
    "doctor",
    "check",
    "scaling",
    "baseline",
    "compare",
    "gate",
    "calibrate",
)
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def load_suite(name: str, trainer: tuple[str, ...]) -> Suite:
    """A shipped suite or a file, checked against the trainer's options."""
    from bench.analysis.metrics import NAMES as METRICS
    from bench.host.samples import FLAGS
    from bench.suite.parse import parse

    if name not in suites.shipped() and "/" not in name and not name.endswith(".toml"):
        near = did_you_mean(name, NAMES)
        if near:
            raise UserError(f"unknown command or suite {name!r}{near}")
    stem, where, text = suites.read(name)
    infer = trainer_options(trainer, INFER)
    options = trainer_options(trainer)
    return parse(text, stem, where, options, infer, metrics=METRICS, flags=tuple(FLAGS))


def load_wanted(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> Suite:
    """The suite, with the launcher and the hosts that the command line names instead."""
    from bench.suite import hosts

    suite = load_suite(parsed.suite, trainer)
    if parsed.launcher:
        suite = replace(suite, launcher=parsed.launcher)
    if parsed.hosts:
        suite = replace(suite, hosts=hosts.parse(parsed.hosts, "--hosts"))
    return suite


def this_host(suite: Suite, name: str | None = None) -> Host:
    """This machine, and over how many hosts the suite spreads its ranks from here."""
    return replace(read_host(name), slots=suite.hosts.shape if suite.hosts else None)


def selection(parsed: argparse.Namespace) -> Selection:
    """The part of the suite that the options choose."""
    from bench.sweep.plan import Selection

    rerun = getattr(parsed, "rerun", None)
    return Selection(parsed.ranks, parsed.precision, parsed.seeds, rerun)


def suite_arguments(parser: argparse.ArgumentParser) -> None:
    """Which suite, and which part of it."""
    parser.add_argument(
        "suite", metavar="SUITE", help=f"{', '.join(suites.shipped())}, or the path of a .toml file"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="a ratings file or a prepared folder [what the suite names]"
    )
    parser.add_argument(
        "--data_root", type=Path, default=Path("data"), metavar="DIR", help="prepared data [data]"
    )
    parser.add_argument("--ranks", type=_numbers, metavar="N,...", help="only these numbers")
    parser.add_argument("--precision", type=_texts, metavar="P,...", help="only these precisions")
    parser.add_argument("--seeds", type=_numbers, metavar="N,...", help="only these seeds")
    parser.add_argument("--launcher", choices=LAUNCHERS, help="what starts the ranks [the suite's]")
    parser.add_argument(
        "--hosts", metavar="A:8,B:8", help="hosts and ranks on each [the suite's, or this one]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers like 1,2") from None


def _texts(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def published_csv(results: Path) -> Path:
    """The published figures beside our results, or those of the repository."""
    inside = Path("published") / "ncf_published.csv"
    with contextlib.suppress(OSError):
        if (results / inside).is_file():
            return results / inside
    return Path(__file__).parents[2] / "results" / inside


def comparison_arguments(parser: argparse.ArgumentParser) -> None:
    """Metrics, margins, and what may differ."""
    parser.add_argument(
        "--metrics",
        metavar="M,...",
        help=f"of {', '.join(metrics.NAMES)} [the suite's, else {','.join(metrics.DEFAULT)}]",
    )
    parser.add_argument(
        "--margin",
        action="append",
        default=[],
        metavar="METRIC=X",
        help="the loss that matters: relative (0.03), of best_hr absolute; may be repeated",
    )
    parser.add_argument(
        "--across",
        default="",
        metavar="PART,...",
        help=f"parts of the fingerprint that may differ: {', '.join(PARTS)} (code always may)",
    )
    parser.add_argument(
        "--left_out",
        default="",
        metavar="KEY,...",
        help="single facts that may differ, such as hardware.driver",
    )


def comparison_terms(
    parsed: argparse.Namespace, suite: Suite | None = None, baseline: Baseline | None = None
) -> Terms:
    """What the options and the suite say; an option goes before the suite.

    Raises:
        UserError: an unknown metric or part, or a margin that is none.
    """
    names = _words(parsed.metrics or "") or (suite.gate_metrics if suite else ())
    chosen = tuple(metrics.gated(name, "--metrics: ").name for name in names) or metrics.DEFAULT
    margins: dict[str, float] = {}
    if suite is not None and suite.margin_speed is not None:
        margins["throughput"] = suite.margin_speed
    if suite is not None and suite.fixed_margin is not None:
        margins["best_hr"] = suite.fixed_margin
    for text in parsed.margin:
        name, _, number = text.partition("=")
        margins[metrics.gated(name, "--margin: ").name] = _margin(text, number)
    across = _words(parsed.across)
    for part in across:
        if part not in PARTS:
            raise UserError(
                f"--across: unknown part {part!r}{did_you_mean(part, PARTS)} "
                f"(known: {', '.join(PARTS)})"
            )
    left_out = _words(parsed.left_out)
    for key in left_out:
        if key.partition(".")[0] not in PARTS or not key.partition(".")[2]:
            raise UserError(f"--left_out: {key!r} is no fact such as hardware.driver")
    noise = baseline.noise if baseline else None
    return Terms(chosen, margins, across, left_out, noise)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _margin(text: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        raise UserError(f"--margin {text}: give a number between 0 and 1, e.g. throughput=0.03")
    return found
