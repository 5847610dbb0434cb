"""`ncf-bench run`: make the missing runs of a suite, then report."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench.cli import FAILED, INTERRUPTED, OK
from bench.cli.common import (
    OUTPUT,
    WHAT,
    add_options,
    chosen_suite,
    count,
    published_csv,
    rerun_argument,
    suite_arguments,
)
from bench.cli.session import session
from bench.sweep.progress import View

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from bench.cli import Parser
    from bench.suite.model import Suite
    from bench.sweep.plan import Plan
    from bench.sweep.scheduler import Result


def run_arguments(parser: Parser) -> None:
    """The options of `run`."""
    suite_arguments(parser)
    add_options(parser, "timeout", "accept_plan_change", "plots")
    group = parser.group(WHAT)
    group.add_argument(
        "--max_failures", type=count, metavar="N", help="stop after N failed runs [no limit]"
    )
    group.add_argument(
        "--retry_failed",
        action="store_true",
        help="retry failed runs once at the end; without it, the next `run` retries them",
    )
    rerun_argument(parser)
    parser.group(OUTPUT).add_argument(
        "--no_report", action="store_true", help="make no tables and pictures"
    )


def run(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Make the runs under the suite's lock, whatever their outcome, and report."""
    suite = chosen_suite(parsed, trainer)
    view = View(sys.stderr if parsed.json else sys.stdout, sys.stderr)
    with session(parsed, trainer, suite, view) as ready:
        plan, result = ready.plan, ready.run_all()
        good = {(attempt.cell.key, attempt.seed) for attempt in result.attempts if attempt.ok}
        code = OK if len(good) == len(plan.runs) else FAILED
        if result.interrupted:
            code = INTERRUPTED
        written = [] if parsed.no_report or result.interrupted else _write_report(parsed, suite)
    if plan.runs:
        view.say(_summary(plan, result, code))
    for path in written:
        if path.suffix == ".md":
            view.say(f"report: {path}")
    if parsed.json:
        print(json.dumps(_outcome(plan, result, code, written), indent=1))
    return code


def _write_report(parsed: argparse.Namespace, suite: Suite) -> list[Path]:
    from bench.report.build import write_report

    csv = published_csv(parsed.results)
    return list(write_report(suite, parsed.results, parsed.plots, csv))


def _summary(plan: Plan, result: Result, code: int) -> str:
    """One line about the sweep: `smoke: 11 of 12 runs are stored; failed: 1 oom`."""

    def counted(words: Counter[str]) -> str:
        return ", ".join(f"{n} {word}" for word, n in sorted(words.items()))

    stored = {(cell.cell.key, seed) for cell in plan.available for seed in cell.good}
    good = stored | {(a.cell.key, a.seed) for a in result.attempts if a.ok}
    text = f"{plan.suite.name}: {len(good)} of {plan.total} runs are stored"
    if result.failures and code != INTERRUPTED:
        text += f"; failed: {counted(Counter(a.status for a in result.attempts if not a.ok))}"
    flags = Counter(flag for attempt in result.attempts for flag in attempt.flags)
    if flags:
        text += f"; flagged: {counted(flags)}"
    if code == INTERRUPTED:
        text += "; interrupted"
    return text if code == OK else f"{text} (run again to continue)"


def _outcome(plan: Plan, result: Result, code: int, written: Sequence[Path]) -> dict[str, Any]:
    """For --json."""
    attempts = [
        {
            "cell": attempt.cell.key,
            "seed": attempt.seed,
            "attempt": attempt.attempt,
            "status": attempt.status,
            "failure": asdict(attempt.failure) if attempt.failure else None,
            "flags": list(attempt.flags),
            "wall_seconds": attempt.wall_seconds,
        }
        for attempt in result.attempts
    ]
    report = [str(path) for path in written]
    return {"plan": plan.to_dict(), "ran": attempts, "exit_code": code, "report": report}
