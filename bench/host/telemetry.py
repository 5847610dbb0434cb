"""Watching a run from outside: a thread of the sweep reads the driver and /proc now and then.

The trainer is not involved and does not depend on it. GPUs are known by UUID, those that CUDA
shows to the ranks; where that cannot be told, nothing is read rather than another card.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from bench.host.gpus import Answer, Driver, connect
from bench.host.samples import GpuReadings, Sample, Series
from bench.process import proc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from bench.host.gpus import Gpu

SM_CLOCK, MEMORY_CLOCK, TEMPERATURE_OF_GPU = 1, 2, 0  # nvml.h
SHORTEST_S = 5.0
"""Shares of the processor's time are told of runs that last longer: the kernel counts in ticks."""
LOOK_FOR_PROCESSES = 10
"""Every so many readings: going through all of /proc is the dearest of them."""

_EPOCH = re.compile(r"\bepoch (\d+)/\d+\b")


@dataclass(frozen=True)
class Card:
    """A rank's GPU: its handle, or why there is none."""

    rank: int
    gpu: Gpu
    handle: Answer


class Monitor:
    """Watches one run at a time, or several that have a GPU each.

    Args:
        interval_s: seconds between two readings; None turns watching off.
        nvml: the module to ask instead of pynvml.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        interval_s: float | None,
        nvml: Any = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval_s, self.clock, self._nvml = interval_s, clock, nvml
        self._driver: Driver | str | None = None

    def driver(self) -> Driver | str:
        """The connection, or why there is none; asked for once."""
        if self._driver is None:
            self._driver = connect(self._nvml)
        return self._driver

    def cards(self, gpus: Sequence[Gpu], ranks: int) -> list[Card]:
        """The GPU of each local rank; none on a machine without GPUs."""
        return [Card(rank, gpu, self._handle(gpu)) for rank, gpu in enumerate(gpus[:ranks])]

    def _handle(self, gpu: Gpu) -> Answer:
        driver = self.driver()
        if isinstance(driver, str):
            return Answer(None, driver)
        if gpu.uuid is None:
            return Answer(None, "which card the rank has is not known (no UUID)")
        return driver.ask("nvmlDeviceGetHandleByUUID", gpu.uuid)

    def watch(self, gpus: Sequence[Gpu], ranks: int, token: str, *, alone: bool = True) -> Watch:
        """A watch over one run, to be entered.

        Args:
            gpus: those that the run's ranks see, in their order.
            ranks: number of ranks.
            token: the mark of its processes.
            alone: no other run of ours goes on beside it.
        """
        return Watch(self, self.cards(gpus, ranks), token, alone=alone)

    def sample(self, card: Card, token: str, own: set[int]) -> Sample:
        """Ask one card for everything; `own` are known processes of the token, and grows."""
        driver, handle = self.driver(), card.handle.value
        if isinstance(driver, str) or handle is None:
            missing = Answer(None, card.handle.reason)
            return Sample(self.clock(), _Everything(missing), missing, missing, None)
        utilization = driver.ask("nvmlDeviceGetUtilizationRates", handle)
        fields = {
            "power_watts": _scaled(driver.ask("nvmlDeviceGetPowerUsage", handle), 1e-3),
            "sm_clock_mhz": driver.ask("nvmlDeviceGetClockInfo", handle, SM_CLOCK),
            "memory_clock_mhz": driver.ask("nvmlDeviceGetClockInfo", handle, MEMORY_CLOCK),
            "temperature_celsius": driver.ask(
                "nvmlDeviceGetTemperature", handle, TEMPERATURE_OF_GPU
            ),
            "memory_used_bytes": _part(driver.ask("nvmlDeviceGetMemoryInfo", handle), "used"),
            "gpu_utilization_percent": _part(utilization, "gpu"),
            "memory_utilization_percent": _part(utilization, "memory"),
        }
        energy = _scaled(driver.ask("nvmlDeviceGetTotalEnergyConsumption", handle), 1e-3)
        reasons = driver.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons.value is None:  # the name that drivers before 535 know
            older = driver.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
            reasons = older if older.value is not None else reasons
        return Sample(self.clock(), fields, energy, reasons, self.foreign(card, token, own))

    def foreign(self, card: Card, token: str = "", own: set[int] | None = None) -> set[int] | None:
        """Processes on a card that are not ours; None if the driver does not list them.

        In a container the driver may list numbers of the machine's own, of which we know none:
        there one process is taken for our rank while a run goes on, and the others are foreign.
        """
        driver = self.driver()
        if isinstance(driver, str) or card.handle.value is None:
            return None
        found = driver.ask("nvmlDeviceGetComputeRunningProcesses", card.handle.value).value
        if found is None:
            return None
        own = set() if own is None else own
        pids = {int(process.pid) for process in found}
        seen = {pid for pid in pids if psutil.pid_exists(pid)}
        own |= {pid for pid in seen - own if token and proc.carries(pid, token)}
        unseen = sorted(pids - seen)
        ours_unseen = 1 if own and not pids & own else 0
        return (seen - own) | set(unseen[ours_unseen:])


class _Everything(dict[str, Answer]):
    """The same answer to every question."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def __missing__(self, _: str) -> Answer:
        return self.answer


def _scaled(answer: Answer, factor: float) -> Answer:
    return answer if answer.value is None else Answer(answer.value * factor)


def _part(answer: Answer, name: str) -> Answer:
    return answer if answer.value is None else Answer(getattr(answer.value, name))


class Watch:
    """The readings of one run: entered before its first process starts, left after the last."""

    def __init__(self, monitor: Monitor, cards: list[Card], token: str, *, alone: bool) -> None:
        self.monitor, self.cards, self.token, self.alone = monitor, cards, token, alone
        self.gpus = [GpuReadings(card.rank, card.gpu.uuid) for card in cards]
        self.epochs: dict[int, float] = {}
        self._load, self._frequency = Series(), Series()
        self._ranks: dict[int, int] = {}
        self._own_pids: set[int] = set()
        self._memory: dict[int, int] = {}
        self._ticks = 0
        self._lock, self._over = threading.Lock(), threading.Event()

    def __enter__(self) -> Self:
        self._begun, self._own = proc.cpu_times(), proc.own_cpu_seconds()
        self._thread: threading.Thread | None = None
        if self.monitor.interval_s is not None:
            self._look()
            self._thread = threading.Thread(target=self._loop, daemon=True, name="telemetry")
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            with self._lock:
                self._look_at_gpus()  # the last state of the energy counter
        self._ended, self._own = proc.cpu_times(), proc.own_cpu_seconds() - self._own

    def on_line(self, line: str) -> None:
        """Note the energy used when an epoch's line appears."""
        match = _EPOCH.search(line)
        if match is None or not self.gpus or self._over.is_set():
            return
        with self._lock:
            self._look_at_gpus()
            used = [gpu.joules()[0] for gpu in self.gpus]
            known = [joules for joules in used if joules is not None]
            if len(known) == len(used):
                self.epochs[int(match[1])] = sum(known)

    def _loop(self) -> None:
        assert self.monitor.interval_s is not None
        while not self._over.wait(self.monitor.interval_s):
            with self._lock:
                self._look()

    def _look(self) -> None:
        if self._ticks % LOOK_FOR_PROCESSES in (1, 3) or self._ticks == 0:
            self._ranks = proc.processes_of(self.token)
            self._own_pids |= set(self._ranks)
        self._look_at_gpus()
        self._load.add(Answer(proc.load(), "the system does not tell"))
        if self._ticks % LOOK_FOR_PROCESSES == 1:
            self._frequency.add(Answer(proc.frequency_mhz(), "the system does not tell"))
        for pid, rank in self._ranks.items():
            size = proc.resident_bytes(pid)
            if size is not None:
                self._memory[rank] = max(self._memory.get(rank, 0), size)
        self._ticks += 1

    def _look_at_gpus(self) -> None:
        for card, readings in zip(self.cards, self.gpus, strict=True):
            readings.add(self.monitor.sample(card, self.token, self._own_pids))

    def facts(self) -> dict[str, Any]:
        """What was seen, as plain data for the record; call it after the end."""
        driver = self.monitor.driver()
        reason = driver if isinstance(driver, str) else None
        watched = self.monitor.interval_s is not None
        return {
            "interval_seconds": self.monitor.interval_s,
            "no_gpus": None if self.gpus else reason or "the run uses no GPU",
            "gpus": [gpu.facts() for gpu in self.gpus] if watched else [],
            "epoch_energy_joules": {str(epoch): used for epoch, used in self.epochs.items()},
            "cpu": self._cpu(),
        }

    def _cpu(self) -> dict[str, Any]:
        busy = steal = others = None
        if self._begun is not None and self._ended is not None:
            total = self._ended.total - self._begun.total
            if total > SHORTEST_S * self._ended.cores:
                idle = (self._ended.idle - self._begun.idle) / total
                steal = (self._ended.steal - self._begun.steal) / total
                busy = max(0.0, 1 - idle - steal)
                if self.alone:
                    others = max(0.0, busy - self._own / total)
        ranks = sorted(self._memory)
        return {
            "load_1min": self._load.facts(),
            "frequency_mhz": self._frequency.facts(),
            "busy_share": busy,
            "steal_share": steal,
            "others_share": others,
            "peak_resident_bytes_per_rank": [self._memory[rank] for rank in ranks],
        }
