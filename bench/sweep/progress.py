"""What a sweep shows: tables before, a line per run, and the epoch in progress."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.text import Text

from bench.analysis.metrics import PAIRS, batches, best_hr, scores_rate, throughput
from bench.render import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.records.attempt import Attempt

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
            speed = units.show(scores_rate(PAIRS, sizes[-1]).of(attempt), units.count)
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


class Live:
    """Lines by name, redrawn in place; the one named "" stands last. Gone when none is left."""

    def __init__(self, stream: TextIO) -> None:
        self._lines: dict[str, str] = {}
        self._screen = Screen(
            console=Console(file=stream),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._screen.start()

    def show(self, name: str, text: str) -> None:
        """Show a line, or another text in its place."""
        self._lines[name] = text
        self._draw()

    def drop(self, name: str) -> bool:
        """Take a line away. True if it was the last run's: the lines are gone then."""
        self._lines.pop(name, None)
        over = set(self._lines) <= {""}
        if over:
            self._screen.stop()
        else:
            self._draw()
        return over

    def say(self, text: str) -> None:
        """A lasting line above the live ones."""
        self._screen.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> None:
        lines = [
            Text(" ".join(f"{name}: {text}".split()), no_wrap=True, overflow="ellipsis")
            for name, text in list(self._lines.items())
            if name
        ]
        if self._lines.get(""):
            lines.append(Text(self._lines[""], no_wrap=True, overflow="ellipsis", style="bold"))
        self._screen.update(Group(*lines), refresh=True)
