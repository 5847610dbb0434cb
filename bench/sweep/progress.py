"""Output of a sweep: lines about its runs, and live lines on a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import TYPE_CHECKING, TextIO

from bench.analysis.metrics import PAIRS, batches, best_hr, scores_rate, throughput
from bench.render import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.live import Live

    from bench.records.attempt import Attempt
    from bench.suite.model import Cell

PLAIN_INTERVAL_S = 10.0
"""Seconds between two epoch lines in a file; a terminal shows every epoch."""

_EPOCH = re.compile(r"\bepoch \d+/\d+\b.*")


class View:
    """Writes lines to `out`, and the runs in progress to `err`, live if that is a terminal.

    Several runs may be in progress at once, each in a thread.
    """

    def __init__(
        self, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.out, self.err, self.clock = out, err, clock
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._lines: dict[str, str] = {}
        self._progress = ""

    def say(self, text: str) -> None:
        """Write one or more lines, above the live ones."""
        with self._lock:
            if self._live is not None and self.out.isatty():
                self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
                return
            self.out.write(text + "\n")
            self.out.flush()

    def progress(self, text: str) -> None:
        """Show the progress of the sweep as the last live line."""
        with self._lock:
            self._progress = text
            self._draw()

    @contextlib.contextmanager
    def running(self, label: str = "run") -> Iterator[Callable[[str], None]]:
        """While a run is in progress: pass its output to the yielded function, line by line."""
        if not self.err.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
            yield self._plain()
            return
        self._show(label, "starting")

        def on_line(line: str) -> None:
            if epoch := _EPOCH.search(line):
                self._show(label, epoch[0])

        try:
            yield on_line
        finally:
            with self._lock:
                del self._lines[label]
                if not self._lines and self._live is not None:
                    self._live.stop()
                    self._live = None
                self._draw()

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

    def _show(self, label: str, text: str) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if self._live is None:
                self._live = Live(
                    console=Console(file=self.err),
                    auto_refresh=False,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._live.start()
            self._lines[label] = text
            self._draw()

    def _draw(self) -> None:
        if self._live is None:
            return
        from rich.console import Group
        from rich.text import Text

        lines = [
            Text(" ".join(f"{label}: {text}".split()), no_wrap=True, overflow="ellipsis")
            for label, text in self._lines.items()
        ]
        if self._progress:
            lines.append(Text(self._progress, no_wrap=True, overflow="ellipsis", style="bold"))
        self._live.update(Group(*lines), refresh=True)


def time_left(seconds: float | None) -> str:
    """`; about 2 min left`; nothing if not known."""
    return "" if seconds is None else f"; about {units.duration(seconds)} left"


def run_label(index: int, total: int, cell: Cell, seed: int) -> str:
    """`[ 3/12] ranks=2,precision=amp seed 1`."""
    return f"[{index:{len(str(total))}}/{total}] {cell.label} seed {seed}"


def run_result(attempt: Attempt) -> str:
    """The result of a run: its figures, or its failure."""
    wall = attempt.wall_seconds
    seconds = f"{wall:.1f} s" if wall < 99.95 else units.duration(wall)
    if attempt.ok and attempt.run is not None:
        if not attempt.run.epochs and (sizes := batches([attempt.run], PAIRS)):
            speed = units.show(scores_rate(PAIRS, sizes[-1]).of(attempt), units.count)
            return f"{speed} samples/s at batch {units.count(sizes[-1])}, {seconds}"
        speed = units.show(throughput(attempt.run), units.count)
        rate = units.show(best_hr(attempt.run), units.hit_rate)
        return f"{speed} samples/s, best HR@{attempt.run.topk} {rate}, {seconds}"
    failure = attempt.failure
    assert failure is not None
    facts = [
        f"rank {failure.rank}" if failure.rank is not None else "",
        failure.signal or "",
        f"exit code {failure.exit_code}" if failure.exit_code else "",
        seconds,
    ]
    failed = "" if attempt.status == "interrupted" else "FAILED: "
    listed = ", ".join(fact for fact in facts if fact)
    return f"{failed}{attempt.status} ({listed}): {failure.message}"
