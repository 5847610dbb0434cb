"""`bench run`: make what is missing, then report."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli.common import (
    FAILED,
    INTERRUPTED,
    OK,
    load_wanted,
    published_csv,
    selection,
    suite_arguments,
    this_host,
)
from bench.cli.plan import rerun_argument
from bench.errors import UserError
from bench.host.machine import machine_id
from bench.process.supervise import Stop
from bench.records.store import Store
from bench.suite.model import Suite
from bench.suite.trainer_options import trainer_versions
from bench.sweep import lock
from bench.sweep.data import Interrupted
from bench.sweep.execute import Sweep
from bench.sweep.plan import Plan, make_plan, require_available
from bench.sweep.progress import View
from bench.sweep.scheduler import run_sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.host.machine import Host
    from bench.process.supervise import Stop
    from bench.records.attempt import Attempt
    from bench.records.store import Store
    from bench.suite.model import Cell, Suite
    from bench.sweep.data import PreparedData
    from bench.sweep.execute import Sweep
    from bench.sweep.plan import Plan
    from bench.sweep.progress import View
    from bench.sweep.scheduler import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench run`."""
    suite_arguments(parser)
    parser.add_argument("--plots", type=Path, default=Path("plots"), metavar="DIR", help="[plots]")
    parser.add_argument(
        "--timeout", type=positive, metavar="S", help="seconds a run may take [the suite's]"
    )
    parser.add_argument(
        "--max_failures", type=_count, metavar="N", help="give up after so many failed runs"
    )
    parser.add_argument(
        "--retry_failed",
        action="store_true",
        help="try what failed once more at the end; without it, the next `run` does",
    )
    rerun_argument(parser)
    parser.add_argument(
        "--accept_plan_change",
        action="store_true",
        help="go on although the suite no longer has cells that records are stored of",
    )
    parser.add_argument("--no_report", action="store_true", help="draw no tables and pictures")


def run(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Make the runs, under the suite's lock, whatever becomes of them."""
    from bench.process.supervise import Stop
    from bench.records.store import Store
    from bench.sweep.progress import View

    suite = load_wanted(parsed, trainer)
    view = View(sys.stderr if parsed.json else sys.stdout, sys.stderr)
    store = Store(parsed.results / suite.name)
    require_available(suite, selection(parsed), this_host(suite))
    with Stop() as stop, lock.held(store.folder, view.say, lambda: lost(view, stop)):
        try:
            plan, result = _sweep(parsed, trainer, suite, view, store, stop)
        except Interrupted:
            view.say("interrupted while the data were being made")
            return INTERRUPTED
        if result.interrupted:
            code = INTERRUPTED
        else:
            good = {(a.cell.key, a.seed) for a in result.attempts if a.ok}
            code = OK if len(good) == len(plan.runs) else FAILED
        written = [] if parsed.no_report or result.interrupted else _write_report(parsed, suite)
    if plan.runs:
        view.say(_farewell(plan, result, code))
    for path in written:
        if path.suffix == ".md":
            view.say(f"report: {path}")
    if parsed.json:
        print(json.dumps(_outcome(plan, result, code, written), indent=1))
    return code


def lost(view: View, stop: Stop) -> None:
    """The lock is another's: end what is running."""
    view.say("another machine has taken over the suite (this one gave no sign of life): stopping")
    stop.signals.append("lock lost")


def _sweep(
    parsed: argparse.Namespace,
    trainer: tuple[str, ...],
    suite: Suite,
    view: View,
    store: Store,
    stop: Stop,
) -> tuple[Plan, Result]:
    """Under the lock: clear up, get the data, plan, run."""
    plan, sweep = prepared(parsed, trainer, suite, view, store, stop)
    return plan, run_sweep(sweep, plan)


def prepared(
    parsed: argparse.Namespace,
    trainer: tuple[str, ...],
    suite: Suite,
    view: View,
    store: Store,
    stop: Stop,
) -> tuple[Plan, Sweep]:
    """All but the runs themselves; only under the suite's lock."""
    from bench.host.telemetry import Monitor
    from bench.sweep import recovery as running
    from bench.sweep.execute import Sweep
    from bench.sweep.launchers import LocalLauncher
    from bench.sweep.plan_text import plan_text

    running.recover(store, view.say)
    plan, host, data = _plan(parsed, trainer, suite, view, store, stop)
    view.say(plan_text(plan))
    told = trainer_versions(trainer, suite.command)
    if plan.runs and "ncf" in told and "tensorflow" not in told:  # other trainers need none
        raise UserError(
            "training needs TensorFlow, which this Python does not have: install ncf-bench[cpu] or "
            "ncf-bench[cuda], or use ./run_benchmarks.sh"
        )
    sweep = Sweep(
        suite=suite,
        store=store,
        data=data,
        host=host,
        launcher=LocalLauncher(
            host.horovodrun, trainer, host.cores, suite.launcher, host.mpirun, suite.hosts
        ),
        view=view,
        stop=stop,
        timeout_s=parsed.timeout,
        max_failures=parsed.max_failures,
        retry_failed=parsed.retry_failed,
        monitor=Monitor(suite.telemetry_s) if suite.telemetry_s is not None else None,
    )
    return plan, sweep


def _plan(
    parsed: argparse.Namespace,
    trainer: tuple[str, ...],
    suite: Suite,
    view: View,
    store: Store,
    stop: Stop,
) -> tuple[Plan, Host, PreparedData]:
    """What is to run, where and on what; the records are let go of before the first run."""
    from bench.sweep import suite_changes as accepted
    from bench.sweep.data import Resolver
    from bench.sweep.plan import made_here

    loaded = store.load(brief=True)
    for path, reason in loaded.unreadable:
        view.say(f"unreadable, not counted: {path}: {reason}")
    accept = parsed.accept_plan_change
    host = this_host(suite, machine_id(parsed.results, create=True))
    # Records that came with a clone are of their maker's plan, and bind nobody here.
    ours = [attempt for attempt in loaded.attempts if made_here(attempt, host)]
    accepted.check(suite, store.folder, ours, accept=accept, say=view.say)
    data = Resolver(parsed.data_root, stop, view.say, trainer).resolve(suite, parsed.data)
    accepted.remember(suite, store.folder)
    versions = trainer_versions(trainer, suite.command)
    attempts = loaded.attempts
    return make_plan(suite, selection(parsed), attempts, host, data.identity, versions), host, data


def _write_report(parsed: argparse.Namespace, suite: Suite) -> list[Path]:
    from bench.report.build import write_report

    csv = published_csv(parsed.results)
    return list(write_report(suite, parsed.results, parsed.plots, csv))


def _farewell(plan: Plan, result: Result, code: int) -> str:
    stored = {(cell.cell.key, seed) for cell in plan.available for seed in cell.good}
    good = stored | {(a.cell.key, a.seed) for a in result.attempts if a.ok}
    text = f"{plan.suite.name}: {len(good)} of {plan.total} runs are stored"
    if result.failures and code != INTERRUPTED:
        failed = Counter(attempt.status for attempt in result.attempts if not attempt.ok)
        kinds = ", ".join(f"{n} {status}" for status, n in sorted(failed.items()))
        text += f"; failed: {kinds}"
    flagged = Counter(flag for attempt in result.attempts for flag in attempt.flags)
    if flagged:
        text += f"; flagged: {', '.join(f'{n} {flag}' for flag, n in sorted(flagged.items()))}"
    if code == INTERRUPTED:
        text += "; interrupted"
    return text if code == OK else f"{text} (run again to go on)"


def _outcome(plan: Plan, result: Result, code: int, written: Sequence[Path]) -> dict[str, Any]:
    """For --json."""
    ran = [
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
    return {
        "plan": plan.to_dict(),
        "ran": ran,
        "exit_code": code,
        "report": [str(path) for path in written],
    }


def positive(text: str) -> float:
    """A number above 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Which suite and which part of it, and what `bench run` asks about making runs."""
    suite_arguments(parser)
    parser.add_argument(
        "--timeout",
        type=positive,
        metavar="S",
        help="seconds a run may take [the suite's]",
    )
    parser.add_argument(
        "--accept_plan_change",
        action="store_true",
        help="go on although the suite no longer has cells that records are stored of",
    )
    parser.set_defaults(rerun="all", max_failures=None, retry_failed=False)


@dataclass(frozen=True)
class Session:
    """A sweep that stands ready, under the suite's lock."""

    plan: Plan
    sweep: Sweep

    def make(self, runs: Sequence[tuple[Cell, int]]) -> list[Attempt]:
        """Make these runs now.

        Raises:
            KeyboardInterrupt: the user stopped it; what was made is stored.
            OSError: a run cannot be stored.
        """
        result = run_sweep(self.sweep, replace(self.plan, runs=tuple(runs)))
        if result.interrupted:
            raise KeyboardInterrupt
        return result.attempts


@contextlib.contextmanager
def session(
    parsed: argparse.Namespace, trainer: tuple[str, ...], suite: Suite
) -> Iterator[Session]:
    """Hold the suite's lock and have everything ready for runs.

    Raises:
        UserError: no cell can run here, another sweep is running, or the data cannot be had.
        KeyboardInterrupt: the user stopped it.
    """
    from bench.process.supervise import Stop
    from bench.records.store import Store
    from bench.sweep.progress import View

    # Standard output is the verdict's alone.
    view, store = View(sys.stderr, sys.stderr), Store(parsed.results / suite.name)
    require_available(suite, selection(parsed), this_host(suite))
    with (
        Stop() as stop,
        lock.held(store.folder, view.say, lambda: lost(view, stop)),
    ):
        try:
            ready = prepared(parsed, trainer, suite, view, store, stop)
        except Interrupted:
            raise KeyboardInterrupt from None
        yield Session(*ready)
