"""The loop of a sweep: every run of a plan, each stored before its slot begins the next."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from bench.sweep.execute import WHOLE_MACHINE, GpuSlot, Sweep, failure_details, make_attempt
from bench.sweep.progress import run_label, run_result, time_left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.host.machine import Host
    from bench.host.telemetry import Monitor
    from bench.records.attempt import Attempt
    from bench.suite.model import Cell, Suite
    from bench.sweep.plan import Durations, Plan


@dataclass
class Result:
    """The attempts of a sweep, and why it ended early."""

    attempts: list[Attempt] = field(default_factory=list)
    interrupted: bool = False
    gave_up: bool = False

    @property
    def failures(self) -> int:
        """Number of attempts that are not ok."""
        return sum(not attempt.ok for attempt in self.attempts)

    @property
    def ended_early(self) -> bool:
        """Whether no further run may begin."""
        return self.interrupted or self.gave_up


def run_sweep(sweep: Sweep, plan: Plan) -> Result:
    """Make the plan's runs; a failed run is stored like a good one, and the sweep continues.

    Raises:
        OSError: an attempt cannot be stored. All attempts before it are.
    """
    result, durations = Result(), plan.durations
    _run_all(sweep, plan.runs, result, durations)
    for _ in range(max(sweep.suite.retries, int(sweep.retry_failed))):
        good = {(a.cell, a.seed) for a in result.attempts if a.ok}
        tried = dict.fromkeys((a.cell, a.seed) for a in result.attempts)
        failed = [run for run in tried if run not in good]
        if not failed or result.ended_early:
            break
        sweep.view.say(f"retrying the {len(failed)} failed runs")
        _run_all(sweep, failed, result, durations)
    return result


def _run_all(
    sweep: Sweep, runs: Sequence[tuple[Cell, int]], result: Result, durations: Durations
) -> None:
    """All runs; runs of one rank in parallel if the suite and the machine allow it."""
    slots = gpu_slots(sweep.suite, sweep.host, sweep.monitor)
    if len(slots) > 1:
        single = [run for run in runs if run[0].ranks == 1]
        sweep.view.say(f"accuracy is measured, so {len(slots)} GPUs take one run each")
        _Pass(sweep, single, result, durations, slots).run()
        runs = [run for run in runs if run[0].ranks != 1]
        if result.ended_early:
            return
    _Pass(sweep, runs, result, durations, (WHOLE_MACHINE,)).run()


class _Pass:
    """Some runs, in some slots."""

    def __init__(
        self,
        sweep: Sweep,
        runs: Sequence[tuple[Cell, int]],
        result: Result,
        durations: Durations,
        slots: Sequence[GpuSlot],
    ) -> None:
        self.sweep, self.result, self.durations, self.slots = sweep, result, durations, slots
        self.total = len(runs)
        self.queue = Queue(runs, self._stopped)

    def _stopped(self) -> bool:
        """Whether no further run may begin; notes why."""
        limit = self.sweep.max_failures or self.sweep.suite.max_failures
        if self.sweep.stop:
            self.result.interrupted = True
        elif limit is not None and self.result.failures >= limit and not self.result.gave_up:
            self.result.gave_up = True
            self.sweep.view.say(f"stopped after {self.result.failures} failures (--max_failures)")
        return self.result.ended_early

    def run(self) -> None:
        stop = self.sweep.stop
        run_in_slots(self.slots, self._work, on_error=lambda: stop.signals.append("error"))

    def _work(self, slot: GpuSlot) -> None:
        first = True
        while (item := self.queue.take()) is not None:
            if not first:
                self._cool_down()
            first = False
            if self.sweep.stop:
                self.result.interrupted = True
                return
            self._make_run(slot, item[0], *item[1])

    def _make_run(self, slot: GpuSlot, index: int, cell: Cell, seed: int) -> None:
        sweep, view = self.sweep, self.sweep.view
        label = run_label(index + 1, self.total, cell, seed)
        view.say(label)
        view.progress(self._progress())
        with view.running(label) as on_line:
            attempt = make_attempt(sweep, cell, seed, on_line, slot)
        self.result.attempts.append(attempt)
        if attempt.ok:
            self.durations.add(cell, attempt.wall_seconds)
        view.say(f"{label}: {run_result(attempt)}{time_left(self._seconds_left())}")
        if not attempt.ok and not sweep.stop:
            view.say(failure_details(sweep.store, attempt))
        if attempt.status == "interrupted" and sweep.stop:
            self.result.interrupted = True

    def _seconds_left(self) -> float | None:
        remaining = [cell for cell, _ in self.queue.remaining()]
        seconds = self.durations.expect(remaining) if remaining else None
        if seconds is None:
            return None
        return (seconds + len(remaining) * self.sweep.suite.cooldown_s) / len(self.slots)

    def _progress(self) -> str:
        """`3 of 12 runs done, 1 failed, 2 cells to go; about 2 min left`."""
        done = len(self.result.attempts)
        remaining = Counter(cell.key for cell, _ in self.queue.remaining())
        total = done + sum(remaining.values()) + len(self.slots)
        text = f"{done} of {total} runs done, {self.result.failures} failed"
        return f"{text}, {len(remaining)} cells to go{time_left(self._seconds_left())}"

    def _cool_down(self) -> None:
        """Pause between runs as long as the suite says; a stop ends it."""
        until = time.monotonic() + self.sweep.suite.cooldown_s
        while (seconds := until - time.monotonic()) > 0 and not self.sweep.stop:
            self.sweep.sleep(min(0.2, seconds))


def gpu_slots(suite: Suite, host: Host, monitor: Monitor | None) -> tuple[GpuSlot, ...]:
    """One slot per free GPU if the suite measures accuracy; else the whole machine.

    A GPU with another program on it, or whose programs are not known, is not free. Speed is never
    measured with another run in progress.
    """
    identified = all(gpu.uuid for gpu in host.gpus)
    if suite.measures != "accuracy" or len(host.gpus) < 2 or not identified or monitor is None:
        return (WHOLE_MACHINE,)
    cards = monitor.cards(host.gpus, len(host.gpus))
    free = [card.gpu for card in cards if monitor.foreign(card) == set()]
    if len(free) < 2:
        return (WHOLE_MACHINE,)
    return tuple(GpuSlot(number, gpu, len(free)) for number, gpu in enumerate(free))


Item = TypeVar("Item")


class Queue(Generic[Item]):
    """Items for several slots, until there is a reason to stop."""

    def __init__(self, items: Sequence[Item], stopped: Callable[[], bool]) -> None:
        self._items, self._stopped = list(enumerate(items)), stopped
        self._lock = threading.Lock()

    def take(self) -> tuple[int, Item] | None:
        """The next item with its number; None if none is left or no further one may begin."""
        with self._lock:
            return None if not self._items or self._stopped() else self._items.pop(0)

    def remaining(self) -> list[Item]:
        """Items that no slot has taken yet."""
        with self._lock:
            return [item for _, item in self._items]


def run_in_slots(
    slots: Sequence[GpuSlot], work: Callable[[GpuSlot], None], on_error: Callable[[], None]
) -> None:
    """Call `work` for every slot, in parallel if there are several.

    Args:
        slots: GPU slots.
        work: works until no item is left.
        on_error: called at once if a slot fails, so that the others end too.

    Raises:
        BaseException: the first error of a slot, after all have ended.
    """
    if len(slots) == 1:
        work(slots[0])
        return

    def guarded(slot: GpuSlot) -> None:
        try:
            work(slot)
        except BaseException:
            on_error()
            raise

    with ThreadPoolExecutor(len(slots)) as pool:
        futures = [pool.submit(guarded, slot) for slot in slots]
    for future in futures:
        future.result()
