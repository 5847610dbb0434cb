"""A sweep that is ready to make runs, under the suite's lock: for `run`, `gate`, `calibrate`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.cli.common import add_options, selection, suite_arguments, this_host
from bench.errors import UserError
from bench.host.machine import machine_id
from bench.host.telemetry import Monitor
from bench.process.supervise import Stop
from bench.records.store import Store
from bench.suite.trainer_options import trainer_versions
from bench.sweep import lock, recovery, suite_changes
from bench.sweep.data import Interrupted, Resolver
from bench.sweep.execute import Sweep
from bench.sweep.launchers import LocalLauncher
from bench.sweep.plan import Plan, made_here, make_plan, require_available
from bench.sweep.plan_text import plan_text
from bench.sweep.scheduler import run_sweep

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from bench.cli import Parser
    from bench.records.attempt import Attempt
    from bench.suite.model import Cell, Suite
    from bench.sweep.progress import View
    from bench.sweep.scheduler import Result


def session_arguments(parser: Parser) -> None:
    """Which suite and which part of it, and the limits of a run."""
    suite_arguments(parser)
    add_options(parser, "timeout", "accept_plan_change")
    parser.set_defaults(rerun="all", max_failures=None, retry_failed=False)


@dataclass(frozen=True)
class Session:
    """A sweep that is ready, and its plan."""

    plan: Plan
    sweep: Sweep

    def run_all(self) -> Result:
        """Make every run of the plan."""
        return run_sweep(self.sweep, self.plan)

    def make(self, runs: Sequence[tuple[Cell, int]]) -> list[Attempt]:
        """Make these runs now.

        Raises:
            KeyboardInterrupt: the user stopped it; finished runs are stored.
            OSError: a run cannot be stored.
        """
        result = run_sweep(self.sweep, replace(self.plan, runs=tuple(runs)))
        if result.interrupted:
            raise KeyboardInterrupt
        return result.attempts


@contextlib.contextmanager
def session(
    parsed: argparse.Namespace, trainer: tuple[str, ...], suite: Suite, view: View
) -> Iterator[Session]:
    """Hold the suite's lock, with data, plan and launcher ready for runs.

    Raises:
        UserError: no cell can run here, another sweep is running, or the data are not available.
        KeyboardInterrupt: the user stopped it.
    """
    store = Store(parsed.results / suite.name)
    require_available(suite, selection(parsed), this_host(suite))
    with Stop() as stop:

        def lost() -> None:
            view.say("lock lost: another host took over after our heartbeat timed out; stopping")
            stop.signals.append("lock lost")

        with lock.held(store.folder, view.say, lost):
            recovery.recover(store, view.say)
            try:
                ready = _session(parsed, trainer, suite, view, store, stop)
            except Interrupted:
                view.say("interrupted while the data were being prepared")
                raise KeyboardInterrupt from None
            yield ready


def _session(
    parsed: argparse.Namespace,
    trainer: tuple[str, ...],
    suite: Suite,
    view: View,
    store: Store,
    stop: Stop,
) -> Session:
    """Read the records, get the data, plan. The records are released before the first run."""
    loaded = store.load()
    for path, reason in loaded.unreadable:
        view.say(f"unreadable, not counted: {path}: {reason}")
    host = this_host(suite, machine_id(parsed.results, create=True))
    # Records that came with a clone are of their maker's plan, and bind nobody here.
    ours = [attempt for attempt in loaded.attempts if made_here(attempt, host)]
    accept = parsed.accept_plan_change
    suite_changes.check(suite, store.folder, ours, accept=accept, say=view.say)
    data = Resolver(parsed.data_root, stop, view.say, trainer).resolve(suite, parsed.data)
    suite_changes.remember(suite, store.folder)
    versions = trainer_versions(trainer, suite.command)
    plan = make_plan(suite, selection(parsed), loaded.attempts, host, data.identity, versions)
    view.say(plan_text(plan))
    if plan.runs and "ncf" in versions and "tensorflow" not in versions:
        raise UserError(
            "training needs TensorFlow, which this Python does not have: install ncf-bench[cpu] or "
            "ncf-bench[cuda], or use ./run_benchmarks.sh"
        )
    launcher = LocalLauncher(
        host.horovodrun, trainer, host.cores, suite.launcher, host.mpirun, suite.hosts
    )
    sweep = Sweep(
        suite=suite,
        store=store,
        data=data,
        host=host,
        launcher=launcher,
        view=view,
        stop=stop,
        timeout_s=parsed.timeout,
        max_failures=parsed.max_failures,
        retry_failed=parsed.retry_failed,
        monitor=Monitor(suite.telemetry_s) if suite.telemetry_s is not None else None,
    )
    return Session(plan, sweep)
