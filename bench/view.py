"""What a sweep shows: tables before, a line per run, and the epoch in progress."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from bench import units
from bench.inference_measures import PAIRS, batches, scores_rate
from bench.measures import best_hr, throughput
from bench.tables import Table, markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.cell_plan import CellPlan
    from bench.live import Live
    from bench.plan import Plan
    from bench.store import Attempt

PLAIN_INTERVAL_S = 10.0
"""A log file gets an epoch line this often; a terminal sees every one."""

_EPOCH = re.compile(r"\bepoch \d+/\d+\b.*")


class View:
    """Lines to `out`; the runs in progress to `err`, live when that is a terminal.

    Several runs may go on at once, each telling its story from a thread of its own.
    """

    def __init__(
        self, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.out, self.err, self.clock = out, err, clock
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._progress = ""

    def say(self, text: str) -> None:
        """One or more lines, at once."""
        with self._lock:
            if self._live is not None and self.out.isatty():
                self._live.say(text)
                return
            self.out.write(text + "\n")
            self.out.flush()

    def progress(self, text: str) -> None:
        """How far the sweep is: the last line of the live view."""
        with self._lock:
            self._progress = text
            if self._live is not None:
                self._live.show("", text)

    @contextlib.contextmanager
    def running(self, label: str = "") -> Iterator[Callable[[str], None]]:
        """While a run goes on: give its output to the yielded function, line by line."""
        if not self.err.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
            yield self._plain()
            return
        from bench.live import Live

        name = label or "run"
        with self._lock:
            if self._live is None:
                self._live = Live(self.err)
            live = self._live
            live.show("", self._progress)
            live.show(name, "starting")

        def on_line(line: str) -> None:
            if epoch := _EPOCH.search(line):
                live.show(name, epoch[0])

        try:
            yield on_line
        finally:
            with self._lock:
                if live.drop(name):
                    self._live = None

    def _plain(self) -> Callable[[str], None]:
        last = self.clock()

        def on_line(line: str) -> None:
            nonlocal last
            epoch = _EPOCH.search(line)
            if epoch and self.clock() - last >= PLAIN_INTERVAL_S:
                last = self.clock()
                self.err.write(f"    {epoch[0]}\n")
                self.err.flush()

        return on_line


def progress_text(*, done: int, total: int, failed: int, cells_left: int, seconds: Any) -> str:
    """`3 of 12 runs done, 1 failed, 2 cells to go; about 2 min left`."""
    text = f"{done} of {total} runs done, {failed} failed, {cells_left} cells to go"
    return text if seconds is None else f"{text}; about {units.duration(seconds)} left"


def run_label(index: int, total: int, cell: Any, seed: int) -> str:
    """`[ 3/12] ranks=2,precision=amp seed 1`."""
    width = len(str(total))
    return f"[{index:{width}}/{total}] {cell.label} seed {seed}"


def run_result(attempt: Attempt, left: float | None) -> str:
    """The end of a run's line: its figures, or what went wrong."""
    time_left = "" if left is None else f"; about {units.duration(left)} left"
    seconds = took(attempt.wall_seconds)
    if attempt.ok and attempt.run is not None:
        if not attempt.run.epochs and (sizes := batches([attempt.run], PAIRS)):
            speed = units.show(scores_rate(PAIRS, sizes[-1]).of(attempt.run), units.count)
            return f"{speed} samples/s at batch {units.count(sizes[-1])}, {seconds}{time_left}"
        speed = units.show(throughput(attempt.run), units.count)
        rate = units.show(best_hr(attempt.run), units.hit_rate)
        return f"{speed} samples/s, best HR@{attempt.run.topk} {rate}, {seconds}{time_left}"
    failure = attempt.failure
    assert failure is not None
    facts = [
        f"rank {failure.rank}" if failure.rank is not None else "",
        failure.signal or "",
        f"exit code {failure.exit_code}" if failure.exit_code else "",
        seconds,
    ]
    known = ", ".join(fact for fact in facts if fact)
    failed = "" if attempt.status == "interrupted" else "FAILED: "
    return f"{failed}{attempt.status} ({known}): {failure.message}{time_left}"


def took(seconds: float) -> str:
    """A run's wall time: tenths while they mean something."""
    return f"{seconds:.1f} s" if seconds < 99.95 else units.duration(seconds)


def plan_text(plan: Plan) -> str:
    """The plan as a table and a line of totals."""
    rows = tuple(
        (
            cell.cell.label,
            str(len(cell.good)),
            "-" if cell.unavailable else str(len(cell.to_run)),
            _note(cell),
        )
        for cell in plan.cells
    )
    table = markdown(Table(("cell", "stored", "to run", "note"), rows, left=("cell", "note")))
    return "\n".join([table, "", totals(plan), *_outside(plan)])


def totals(plan: Plan) -> str:
    """`smoke: 10 to run, 2 of 12 stored; expected time: 3 min`."""
    away = len(plan.cells) - len(plan.available)
    not_here = f"; {away} of {len(plan.cells)} cells are not available here" if away else ""
    if not plan.runs:
        return f"nothing to run: {plan.stored} of {plan.total} runs are stored{not_here}"
    expected = plan.expected_seconds
    duration = "unknown (no run is stored yet)" if expected is None else units.duration(expected)
    return (
        f"{plan.suite.name}: {len(plan.runs)} to run, {plan.stored} of {plan.total} stored"
        f"{not_here}; expected time: {duration}"
    )


def _outside(plan: Plan) -> list[str]:
    keys = sorted({attempt.cell.key for attempt in plan.strays})
    if not keys:
        return []
    listed = ", ".join([*keys[:2], "..."] if len(keys) > 2 else keys)
    line = (
        f"{len(plan.strays)} stored attempts belong to cells that the suite no longer has "
        f"({listed}): they are kept, and enter no table"
    )
    return [line]


def flag_lines(flagged: Mapping[str, int]) -> list[str]:
    """What disturbed stored runs, and how many of them."""
    from bench.flags import FLAGS

    return [
        f"flag {flag}: {n} attempts ({FLAGS.get(flag, 'unknown')})"
        for flag, n in sorted(flagged.items())
    ]


def _note(cell: CellPlan) -> str:
    notes = [
        f"not available: {cell.unavailable}" if cell.unavailable else "",
        f"{cell.to_retry} failed before" if cell.to_retry and not cell.unavailable else "",
        f"{cell.elsewhere} from another machine or data set" if cell.elsewhere else "",
        f"{len(cell.stale)} made by other software or code (--rerun stale)" if cell.stale else "",
    ]
    return "; ".join(note for note in notes if note)


def status_text(
    plan: Plan,
    folder: str,
    unreadable: list[tuple[str, str]],
    mixed: list[str],
    holder: Mapping[str, Any] | None,
) -> str:
    """What is stored, cell by cell, and everything that deserves a look."""
    rows = tuple(
        (
            cell.cell.label,
            f"{len(cell.good)} of {len(cell.seeds)}",
            ", ".join(f"{n} {status}" for status, n in cell.failed.items()) or "-",
            _note(cell),
        )
        for cell in plan.cells
    )
    headers = ("cell", "good", "failed attempts", "note")
    lines = [
        markdown(Table(headers, rows, left=("cell", "failed attempts", "note"))),
        "",
        f"{folder}: {plan.stored} of {plan.total} runs are stored",
        *_outside(plan),
        *mixed,
        *(f"unreadable, not counted: {path}: {reason}" for path, reason in unreadable),
    ]
    if holder is not None:
        who = f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"
        since = f"since {holder.get('started_at', '?')}"
        state = {True: "a sweep is running", False: "a sweep was killed", None: "locked"}
        lines.append(f"{state[holder['alive']]}: {who} {since}")
    return "\n".join(lines)
