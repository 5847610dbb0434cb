"""Monitoring of a run: a thread of the sweep reads the GPU driver and /proc at intervals.

The trainer does not take part. GPUs are identified by UUID, in the order in which CUDA shows them
to the ranks; if that order is not known, nothing is read rather than the wrong GPU.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import psutil

from bench.host import machine
from bench.host.gpus import Answer, Driver, connect
from bench.host.samples import EVENT_REASONS, GpuReadings, Sample, Series
from bench.process.supervise import carries, processes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

    from bench.host.gpus import Gpu

SM_CLOCK, MEMORY_CLOCK, TEMPERATURE_OF_GPU = 1, 2, 0  # nvml.h
MIN_SECONDS = 5.0
"""Shares of processor time are recorded for longer runs only: the kernel counts in ticks."""
PROCESS_SEARCH_INTERVAL = 10
"""Every so many samples /proc is searched for the ranks, the most expensive reading of all."""

Query = tuple[str, tuple[int, ...], "Callable[[Any], Any] | None"]
"""An NVML function, its arguments after the handle, and a conversion of the answer."""

SAMPLED: dict[str, Query] = {
    "power_watts": ("nvmlDeviceGetPowerUsage", (), lambda milliwatts: milliwatts * 1e-3),
    "energy_joules": ("nvmlDeviceGetTotalEnergyConsumption", (), lambda mj: mj * 1e-3),
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", (SM_CLOCK,), None),
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", (MEMORY_CLOCK,), None),
    "temperature_celsius": ("nvmlDeviceGetTemperature", (TEMPERATURE_OF_GPU,), None),
    "memory_used_bytes": ("nvmlDeviceGetMemoryInfo", (), attrgetter("used")),
    "gpu_utilization_percent": ("nvmlDeviceGetUtilizationRates", (), attrgetter("gpu")),
    "memory_utilization_percent": ("nvmlDeviceGetUtilizationRates", (), attrgetter("memory")),
}
"""Read at every sample: one query for each of samples.FIELDS, and the energy counter."""

SETTINGS: dict[str, Query] = {
    "power_limit_watts": ("nvmlDeviceGetPowerManagementLimit", (), lambda limit: limit / 1000),
    "max_sm_clock_mhz": ("nvmlDeviceGetMaxClockInfo", (SM_CLOCK,), None),
    "application_sm_clock_mhz": ("nvmlDeviceGetApplicationsClock", (SM_CLOCK,), None),
    "application_memory_clock_mhz": ("nvmlDeviceGetApplicationsClock", (MEMORY_CLOCK,), None),
    "persistence_mode": ("nvmlDeviceGetPersistenceMode", (), None),
    "temperature_celsius": ("nvmlDeviceGetTemperature", (TEMPERATURE_OF_GPU,), None),
}
"""Read before and after a run."""

_EPOCH = re.compile(r"\bepoch (\d+)/\d+\b")


@dataclass(frozen=True)
class Card:
    """A rank's GPU: its handle, or why there is none."""

    rank: int
    gpu: Gpu
    handle: Answer


class Monitor:
    """Monitors one run at a time, or several runs with one GPU each.

    Args:
        interval_s: seconds between two samples; None turns monitoring off.
        nvml: the module to use instead of pynvml.
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
        """The connection, or why there is none; made once."""
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
            return Answer(None, "the GPU of the rank is not known (no UUID)")
        return driver.ask("nvmlDeviceGetHandleByUUID", gpu.uuid)

    def watch(self, gpus: Sequence[Gpu], ranks: int, token: str, *, alone: bool = True) -> Watch:
        """A watch over one run, to be entered.

        Args:
            gpus: GPUs that the run's ranks see, in their order.
            ranks: number of ranks.
            token: the mark of its processes.
            alone: no other run of this sweep is in progress.
        """
        return Watch(self, self.cards(gpus, ranks), token, alone=alone)

    def ask(self, card: Card, question: str, *arguments: Any) -> Answer:
        """The driver's answer about a card; without driver or card, None and the reason."""
        driver = self.driver()
        if isinstance(driver, str) or card.handle.value is None:
            return card.handle
        return driver.ask(question, card.handle.value, *arguments)

    def _read(self, card: Card, queries: Mapping[str, Query]) -> dict[str, Answer]:
        answers = {}
        for name, (question, arguments, convert) in queries.items():
            answer = self.ask(card, question, *arguments)
            known = convert and answer.value is not None
            answers[name] = Answer(convert(answer.value)) if known and convert else answer
        return answers

    def sample(self, card: Card, token: str, own: set[int]) -> Sample:
        """Query one card; `own` are known processes of the token, to which new ones are added."""
        reasons = self.ask(card, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons.value is None:  # drivers before 535 know this name only
            older = self.ask(card, "nvmlDeviceGetCurrentClocksThrottleReasons")
            reasons = older if older.value is not None else reasons
        fields = self._read(card, SAMPLED)
        energy = fields.pop("energy_joules")
        return Sample(self.clock(), fields, energy, reasons, self.foreign(card, token, own))

    def snapshot(self, gpus: Sequence[Gpu], ranks: int) -> dict[str, Any]:
        """The load of the machine, and settings and state of the cards that a run uses."""
        return {
            "load_1min": machine.load(),
            "memory_available_bytes": psutil.virtual_memory().available,
            "governor": machine.governor(),
            "gpus": [self._card_snapshot(card) for card in self.cards(gpus, ranks)],
        }

    def _card_snapshot(self, card: Card) -> dict[str, Any]:
        if card.handle.value is None:
            return {"uuid": card.gpu.uuid, "null_reasons": {"all": card.handle.reason}}
        answers, sample = self._read(card, SETTINGS), self.sample(card, "", set())
        foreign, bits = sample.foreign, sample.reasons.value
        names = None if bits is None else [name for b, name in EVENT_REASONS.items() if bits & b]
        return {
            "uuid": card.gpu.uuid,
            **{name: answer.value for name, answer in answers.items()},
            "event_reasons": names,
            "foreign_processes": None if foreign is None else len(foreign),
            "null_reasons": {name: a.reason for name, a in answers.items() if a.value is None},
        }

    def foreign(self, card: Card, token: str = "", own: set[int] | None = None) -> set[int] | None:
        """Processes of others on a card; None if the driver does not list processes.

        In a container the driver may list process numbers of the machine, which are unknown
        inside. One of these is then taken for our rank during a run, the others are foreign.
        """
        processes = self.ask(card, "nvmlDeviceGetComputeRunningProcesses").value
        if processes is None:
            return None
        own = set() if own is None else own
        pids = {int(process.pid) for process in processes}
        visible = {pid for pid in pids if psutil.pid_exists(pid)}
        own |= {pid for pid in visible - own if token and carries(pid, token)}
        hidden = sorted(pids - visible)
        ours_hidden = 1 if own and not pids & own else 0
        return (visible - own) | set(hidden[ours_hidden:])


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None if it has ended."""
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return None


class Watch:
    """The samples of one run: entered before its first process starts, left after the last ends."""

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
        self._begun, self._own = machine.cpu_times(), machine.own_cpu_seconds()
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
        self._ended, self._own = machine.cpu_times(), machine.own_cpu_seconds() - self._own

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
        if self._ticks % PROCESS_SEARCH_INTERVAL in (1, 3) or self._ticks == 0:
            self._ranks = processes_of(self.token)
            self._own_pids |= set(self._ranks)
        self._look_at_gpus()
        self._load.add(Answer(machine.load()))
        if self._ticks % PROCESS_SEARCH_INTERVAL == 1:
            self._frequency.add(Answer(machine.frequency_mhz()))
        for pid, rank in self._ranks.items():
            if size := resident_bytes(pid):
                self._memory[rank] = max(self._memory.get(rank, 0), size)
        self._ticks += 1

    def _look_at_gpus(self) -> None:
        for card, readings in zip(self.cards, self.gpus, strict=True):
            readings.add(self.monitor.sample(card, self.token, self._own_pids))

    def facts(self) -> dict[str, Any]:
        """Plain data for the record; call it after the end."""
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
            if total > MIN_SECONDS * self._ended.cores:
                idle = (self._ended.idle - self._begun.idle) / total
                steal = (self._ended.steal - self._begun.steal) / total
                busy = max(0.0, 1 - idle - steal)
                if self.alone:
                    others = max(0.0, busy - self._own / total)
        return {
            "load_1min": self._load.facts(),
            "frequency_mhz": self._frequency.facts(),
            "busy_share": busy,
            "steal_share": steal,
            "others_share": others,
            "peak_resident_bytes_per_rank": [size for _, size in sorted(self._memory.items())],
        }
