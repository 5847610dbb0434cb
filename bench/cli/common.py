"""What several commands share: options, the suite, the machine, and the terms of a comparison."""

from __future__ import annotations

import argparse
import contextlib
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import suites
from bench.cli import NAMES
from bench.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from bench.cli import Parser
    from bench.gate.baseline import Baseline
    from bench.gate.compare import Terms
    from bench.host.machine import Host
    from bench.suite.model import Suite
    from bench.sweep.plan import Selection

WHAT, WHERE, OUTPUT, STATISTICS = "what to run", "where", "output", "statistics"
"""Titles of option groups."""
REPOSITORY_RESULTS = Path(__file__).parents[2] / "results"


def load_suite(name: str, trainer: tuple[str, ...]) -> Suite:
    """A shipped suite or a file, checked against the trainer's options."""
    from bench.analysis.metrics import NAMES as METRICS
    from bench.host.samples import FLAGS
    from bench.suite.parse import parse
    from bench.suite.trainer_options import INFER, trainer_options

    if name not in suites.shipped() and "/" not in name and not name.endswith(".toml"):
        near = did_you_mean(name, NAMES)
        if near:
            raise UserError(f"unknown command or suite {name!r}{near}")
    stem, where, text = suites.read(name)
    infer = trainer_options(trainer, INFER)
    options = trainer_options(trainer)
    return parse(text, stem, where, options, infer, metrics=METRICS, flags=tuple(FLAGS))


def chosen_suite(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> Suite:
    """The suite; --launcher and --hosts replace its launcher and hosts."""
    from bench.suite.model import HostList

    suite = load_suite(parsed.suite, trainer)
    if parsed.launcher:
        suite = replace(suite, launcher=parsed.launcher)
    if parsed.hosts:
        suite = replace(suite, hosts=HostList.parse(parsed.hosts, "--hosts"))
    return suite


def this_host(suite: Suite, name: str | None = None) -> Host:
    """This machine, with the ranks per host where the suite names several hosts."""
    from bench.host.machine import read_host

    return replace(read_host(name), slots=suite.hosts.shape if suite.hosts else None)


def selection(parsed: argparse.Namespace) -> Selection:
    """The part of the suite that the options choose."""
    from bench.sweep.plan import Selection

    rerun = getattr(parsed, "rerun", None)
    return Selection(parsed.ranks, parsed.precision, parsed.seeds, rerun)


def records_folder(name: str, results: Path, also: str = "") -> Path:
    """The folder of a suite's records: a folder that holds `records`, or results/NAME.

    Args:
        name: of the folder or the suite.
        results: the folder of all suites.
        also: end of the message: what else `name` may be.

    Raises:
        UserError: neither has records.
    """
    for folder in (Path(name), results / name):
        if (folder / "records").is_dir():
            return folder
    raise UserError(
        f"{name}: neither a folder with records (results/smoke), nor a suite in {results}{also}"
    )


def published_csv(results: Path) -> Path:
    """The published figures in the results folder, else those of the repository."""
    inside = Path("published") / "ncf_published.csv"
    with contextlib.suppress(OSError):
        if (results / inside).is_file():
            return results / inside
    return REPOSITORY_RESULTS / inside


def positive(text: str) -> float:
    """A finite number above 0, for argparse."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number above 0; got {text!r}")


def count(text: str) -> int:
    """An integer from 1, for argparse."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected an integer of at least 1; got {text!r}")


def integers(text: str) -> tuple[int, ...]:
    """`1,2`, for argparse."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        message = f"expected comma-separated integers such as 1,2; got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def words(text: str) -> tuple[str, ...]:
    """`a,b`, for argparse."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _folder(default: str, content: str) -> dict[str, Any]:
    return {
        "type": Path,
        "default": Path(default),
        "metavar": "DIR",
        "help": f"{content} [{default}]",
    }


_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ranks": (WHAT, {"type": integers, "metavar": "N,...", "help": "only these numbers of ranks"}),
    "precision": (WHAT, {"type": words, "metavar": "P,...", "help": "only these precisions"}),
    "seeds": (WHAT, {"type": integers, "metavar": "N,...", "help": "only these seeds"}),
    "data": (
        WHAT,
        {"metavar": "PATH", "help": "a ratings file or a prepared folder [the suite's data]"},
    ),
    "timeout": (
        WHAT,
        {"type": positive, "metavar": "S", "help": "time limit of a run in seconds [the suite's]"},
    ),
    "accept_plan_change": (
        WHAT,
        {
            "action": "store_true",
            "help": "continue even if stored records belong to cells removed from the suite",
        },
    ),
    "launcher": (WHERE, {"help": "program that starts the ranks [the suite's]"}),
    "hosts": (
        WHERE,
        {"metavar": "A:8,B:8", "help": "hosts, and ranks on each [the suite's, else this host]"},
    ),
    "results": (WHERE, _folder("results", "records and tables")),
    "plots": (WHERE, _folder("plots", "pictures")),
    "data_root": (WHERE, _folder("data", "prepared data")),
    "who": (OUTPUT, {"metavar": "NAME", "help": "author to store [git's user.name, or the login]"}),
    "json": (OUTPUT, {"action": "store_true", "help": "print JSON"}),
}


def add_options(parser: Parser, *names: str) -> None:
    """Add options that several commands have, each to its group."""
    from bench.suite.model import LAUNCHERS

    for name in names:
        title, keywords = _OPTIONS[name]
        if name == "launcher":
            keywords = {**keywords, "choices": LAUNCHERS}
        parser.group(title).add_argument(f"--{name}", **keywords)


def suite_argument(parser: Parser, *, optional: str = "") -> None:
    """SUITE; `optional` says what happens without it."""
    shipped = f"{', '.join(suites.shipped())}, or the path of a .toml file"
    parser.group(WHAT).add_argument(
        "suite",
        metavar="SUITE",
        nargs="?" if optional else None,
        help=f"{shipped} [{optional}]" if optional else shipped,
    )


def suite_arguments(parser: Parser) -> None:
    """Which suite, which part of it, and where it runs."""
    suite_argument(parser)
    add_options(parser, "data", "ranks", "precision", "seeds", "launcher", "hosts")
    add_options(parser, "data_root", "results", "json")


def comparison_arguments(parser: Parser) -> None:
    """Metrics, margins, and what may differ."""
    from bench.analysis import metrics
    from bench.records.identity import PARTS

    group = parser.group(STATISTICS)
    group.add_argument(
        "--metrics",
        type=words,
        default=(),
        metavar="M,...",
        help=f"of {', '.join(metrics.NAMES)} [the suite's, else {','.join(metrics.DEFAULT)}]",
    )
    group.add_argument(
        "--margin",
        action="append",
        default=[],
        metavar="METRIC=X",
        help="the loss that matters: relative (0.03), of best_hr absolute; may be repeated",
    )
    group.add_argument(
        "--across",
        type=words,
        default=(),
        metavar="PART,...",
        help=f"parts of the fingerprint that may differ: {', '.join(PARTS)} (code always may)",
    )
    group.add_argument(
        "--left_out",
        type=words,
        default=(),
        metavar="KEY,...",
        help="single facts that may differ, such as hardware.driver",
    )


def comparison_terms(
    parsed: argparse.Namespace, suite: Suite | None = None, baseline: Baseline | None = None
) -> Terms:
    """The terms of a comparison; an option overrides the suite.

    Raises:
        UserError: an unknown metric or part, or an invalid margin.
    """
    from bench.analysis.metrics import DEFAULT, gated
    from bench.gate.compare import Terms
    from bench.records.identity import PARTS

    names = parsed.metrics or (suite.gate_metrics if suite else ())
    metrics = tuple(gated(name, "--metrics: ").name for name in names) or DEFAULT
    margins: dict[str, float] = {}
    if suite is not None and suite.margin_speed is not None:
        margins["throughput"] = suite.margin_speed
    if suite is not None and suite.fixed_margin is not None:
        margins["best_hr"] = suite.fixed_margin
    for text in parsed.margin:
        name, _, number = text.partition("=")
        margins[gated(name, "--margin: ").name] = _margin(text, number)
    for part in parsed.across:
        if part not in PARTS:
            raise UserError(
                f"--across: unknown part {part!r}{did_you_mean(part, PARTS)} "
                f"(known: {', '.join(PARTS)})"
            )
    for key in parsed.left_out:
        if key.partition(".")[0] not in PARTS or not key.partition(".")[2]:
            raise UserError(f"--left_out: expected a fact such as hardware.driver; got {key!r}")
    noise = baseline.noise if baseline else None
    return Terms(metrics, margins, parsed.across, parsed.left_out, noise)


def _margin(text: str, number: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(number) < 1:
            return float(number)
    raise UserError(f"--margin {text}: give a number between 0 and 1, e.g. throughput=0.03")


def rerun_argument(parser: Parser) -> None:
    """`--rerun`, of `run` and `plan`."""
    from bench.sweep.plan import RERUN

    meanings = "; ".join(f"{word}: {meaning}" for word, meaning in RERUN.items())
    parser.group(WHAT).add_argument(
        "--rerun", choices=tuple(RERUN), help=f"make only these again; {meanings}"
    )
