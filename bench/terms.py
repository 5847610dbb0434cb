"""The options with which two sides are compared, of `bench gate` and `bench compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import gated
from bench.compare import Terms
from bench.errors import UserError
from bench.options import did_you_mean
from bench.sides import PARTS

if TYPE_CHECKING:
    import argparse

    from bench.baseline import Baseline
    from bench.suite import Suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Metrics, margins, and what may differ."""
    parser.add_argument(
        "--metrics",
        metavar="M,...",
        help=f"of {', '.join(gated.NAMES)} [the suite's, else {','.join(gated.DEFAULT)}]",
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


def terms(
    parsed: argparse.Namespace, suite: Suite | None = None, baseline: Baseline | None = None
) -> Terms:
    """What the options and the suite say; an option goes before the suite.

    Raises:
        UserError: an unknown metric or part, or a margin that is none.
    """
    names = _words(parsed.metrics or "") or (suite.gate_metrics if suite else ())
    metrics = tuple(gated.metric(name, "--metrics: ").name for name in names) or gated.DEFAULT
    margins: dict[str, float] = {}
    if suite is not None and suite.margin_speed is not None:
        margins["throughput"] = suite.margin_speed
    if suite is not None and suite.fixed_margin is not None:
        margins["best_hr"] = suite.fixed_margin
    for text in parsed.margin:
        name, _, number = text.partition("=")
        margins[gated.metric(name, "--margin: ").name] = _margin(text, number)
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
    return Terms(metrics, margins, across, left_out, noise)


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
