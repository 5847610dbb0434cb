"""The loop: every run of a plan, each stored before its lane begins the next."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from bench.sweep.execute import WHOLE, Lane, Sweep, failure_details, make_attempt
from bench.sweep.progress import progress_text, run_label, run_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.host.machine import Host
    from bench.host.telemetry import Monitor
    from bench.records.attempt import Attempt
    from bench.suite.model import Cell, Suite
    from bench.sweep.plan import Durations, Plan


@dataclass
class Result:
    """What a sweep did."""

    attempts: list[Attempt] = field(default_factory=list)
    interrupted: bool = False
    gave_up: bool = False

    @property
    def failures(self) -> int:
        """Attempts that are not ok."""
        return sum(not attempt.ok for attempt in self.attempts)


def run_sweep(sweep: Sweep, plan: Plan) -> Result:
    """Make the plan's runs; a failure is stored like a success, and the sweep goes on.

    Raises:
        OSError: an attempt cannot be stored. Everything before it is.
    """
    result, durations = Result(), plan.durations
    _run_all(sweep, plan.runs, result, durations)
    for _ in range(max(sweep.suite.retries, int(sweep.retry_failed))):
        good = {(a.cell, a.seed) for a in result.attempts if a.ok}
        tried = dict.fromkeys((a.cell, a.seed) for a in result.attempts)
        failed = [run for run in tried if run not in good]
        if not failed or result.interrupted or result.gave_up:
            break
        sweep.view.say(f"once more: the {len(failed)} runs that failed")
        _run_all(sweep, failed, result, durations)
    return result


def _run_all(
    sweep: Sweep, runs: Sequence[tuple[Cell, int]], result: Result, durations: Durations
) -> None:
    """All runs; those of one rank beside each other where the suite and the machine allow it."""
    places = lanes(sweep.suite, sweep.host, sweep.monitor)
    if len(places) > 1:
        narrow = [run for run in runs if run[0].ranks == 1]
        sweep.view.say(f"accuracy is measured, so {len(places)} GPUs take one run each")
        _Pass(sweep, narrow, result, durations, places).go()
        runs = [run for run in runs if run[0].ranks != 1]
        if result.interrupted or result.gave_up:
            return
    _Pass(sweep, runs, result, durations, (WHOLE,)).go()


class _Pass:
    """Some runs, in some lanes."""

    def __init__(
        self,
        sweep: Sweep,
        runs: Sequence[tuple[Cell, int]],
        result: Result,
        durations: Durations,
        places: Sequence[Lane],
    ) -> None:
        self.sweep, self.result, self.durations, self.places = sweep, result, durations, places
        self.total = len(runs)
        self.queue = Queue(runs, self._stopped)

    def _stopped(self) -> bool:
        """Whether no further run may begin; notes why."""
        most = self.sweep.max_failures or self.sweep.suite.max_failures
        if self.sweep.stop:
            self.result.interrupted = True
        elif most is not None and self.result.failures >= most and not self.result.gave_up:
            self.result.gave_up = True
            self.sweep.view.say(f"stopped after {self.result.failures} failures (--max_failures)")
        return self.result.interrupted or self.result.gave_up

    def go(self) -> None:
        work_in(self.places, self._work, on_error=lambda: self.sweep.stop.signals.append("error"))

    def _work(self, lane: Lane) -> None:
        first = True
        while (taken := self.queue.take()) is not None:
            if not first:
                self._cool_down()
            first = False
            if self.sweep.stop:
                self.result.interrupted = True
                return
            self._one(lane, taken[0], *taken[1])

    def _one(self, lane: Lane, index: int, cell: Cell, seed: int) -> None:
        sweep, view = self.sweep, self.sweep.view
        label = run_label(index + 1, self.total, cell, seed)
        view.say(label)
        view.progress(self._progress())
        with view.running(label) as on_line:
            attempt = make_attempt(sweep, cell, seed, on_line, lane)
        self.result.attempts.append(attempt)
        if attempt.ok:
            self.durations.add(cell, attempt.wall_seconds)
        view.say(f"{label}: {run_result(attempt, self._time_left())}")
        if not attempt.ok and not sweep.stop:
            view.say(failure_details(sweep.store, attempt))
        if attempt.status == "interrupted" and sweep.stop:
            self.result.interrupted = True

    def _time_left(self) -> float | None:
        to_come = [cell for cell, _ in self.queue.left()]
        left = self.durations.expect(to_come) if to_come else None
        if left is None:
            return None
        pauses = len(to_come) * self.sweep.suite.cooldown_s
        return (left + pauses) / len(self.places)

    def _progress(self) -> str:
        """`3 of 12 runs done, 1 failed, 1 of 4 cells complete; about 2 min left`."""
        attempts = self.result.attempts
        left = Counter(cell.key for cell, _ in self.queue.left())
        return progress_text(
            done=len(attempts),
            total=len(attempts) + sum(left.values()) + len(self.places),
            failed=self.result.failures,
            cells_left=len(left),
            seconds=self._time_left(),
        )

    def _cool_down(self) -> None:
        """Wait between runs as long as the suite says; a stop ends it."""
        until = time.monotonic() + self.sweep.suite.cooldown_s
        while (left := until - time.monotonic()) > 0 and not self.sweep.stop:
            self.sweep.sleep(min(0.2, left))


Item = TypeVar("Item")


def lanes(suite: Suite, host: Host, monitor: Monitor | None) -> tuple[Lane, ...]:
    """One lane per free GPU where a suite measures accuracy; else the whole machine.

    A GPU on which another program is, or of which that cannot be told, is not free. Speed is
    never measured beside another run.
    """
    known = all(gpu.uuid for gpu in host.gpus)
    if suite.measures != "accuracy" or len(host.gpus) < 2 or not known or monitor is None:
        return (WHOLE,)
    cards = monitor.cards(host.gpus, len(host.gpus))
    free = [card.gpu for card in cards if monitor.foreign(card) == set()]
    if len(free) < 2:
        return (WHOLE,)
    return tuple(Lane(slot, gpu, len(free)) for slot, gpu in enumerate(free))


class Queue(Generic[Item]):
    """Items for several lanes, until there is a reason to stop."""

    def __init__(self, items: Sequence[Item], stopped: Callable[[], bool]) -> None:
        self._items, self._stopped = list(enumerate(items)), stopped
        self._lock = threading.Lock()

    def take(self) -> tuple[int, Item] | None:
        """The next item with its number, or None when there is none or no further one may begin."""
        with self._lock:
            if not self._items or self._stopped():
                return None
            return self._items.pop(0)

    def left(self) -> list[Item]:
        """What nobody has taken yet."""
        with self._lock:
            return [item for _, item in self._items]


def work_in(
    places: Sequence[Lane], one: Callable[[Lane], None], on_error: Callable[[], None]
) -> None:
    """Call `one` for every lane, at the same time if there are several.

    Args:
        places: the lanes.
        one: works until nothing is left to do.
        on_error: told at once when a lane fails, so that the others end too.

    Raises:
        BaseException: the first error of a lane, after all have ended.
    """
    if len(places) == 1:
        one(places[0])
        return

    def guarded(lane: Lane) -> None:
        try:
            one(lane)
        except BaseException:
            on_error()
            raise

    with ThreadPoolExecutor(len(places)) as pool:
        futures = [pool.submit(guarded, lane) for lane in places]
    for future in futures:
        future.result()
