"""Runs made now, whatever is stored: what a gate judges and a calibration measures.

They are stored like any others, under new attempt numbers; nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench import lock, run_command
from bench.commands import selection, suite_arguments, this_host

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from bench.attempt import Sweep
    from bench.plan import Plan
    from bench.store import Attempt
    from bench.suite import Cell, Suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which suite and which part of it, and what `bench run` asks about making runs."""
    suite_arguments(parser)
    parser.add_argument(
        "--timeout",
        type=run_command.positive,
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
        from bench.sweep import run_sweep

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
    from bench.data import Interrupted
    from bench.launch import Stop
    from bench.plan import make_plan, none_available
    from bench.store import Store
    from bench.view import View

    # Standard output is the verdict's alone.
    view, store = View(sys.stderr, sys.stderr), Store(parsed.results / suite.name)
    wish = make_plan(suite, selection(parsed), [], this_host(suite), None)
    if not wish.available:
        raise none_available(wish)
    with (
        Stop() as stop,
        lock.held(store.folder, view.say, lambda: run_command.lost(view, stop)),
    ):
        try:
            ready = run_command.prepared(parsed, trainer, suite, view, store, stop)
        except Interrupted:
            raise KeyboardInterrupt from None
        yield Session(*ready)
