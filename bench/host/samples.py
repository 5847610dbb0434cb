"""Samples of the GPUs during a run become statistics and flags. Pure.

A value that could not be read is null and `null_reasons` says why; it is never 0. Units are part
of the names. A flag is stored with the run and shown; it does not make the run invalid. Only a
GPU that protects itself (thermal or hardware slowdown) does: the speed is then not that of the
GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bench.host.gpus import Answer

EVENT_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h)."""

SLOWDOWNS = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake")
"""What a GPU does to protect itself; a run with one of these is invalid."""

IDLE = 0x1
NOT_READ = "not read"

FIELDS = (
    "power_watts",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_celsius",
    "memory_used_bytes",
    "gpu_utilization_percent",
    "memory_utilization_percent",
)


@dataclass
class Series:
    """Mean, minimum and maximum of the values so far."""

    n: int = 0
    total: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf
    reason: str = NOT_READ
    """Why the last sample without a value had none."""

    def add(self, answer: Answer) -> None:
        """Count one sample."""
        if answer.value is None:
            self.reason = answer.reason or NOT_READ
            return
        value = float(answer.value)
        self.n, self.total = self.n + 1, self.total + value
        self.minimum, self.maximum = min(self.minimum, value), max(self.maximum, value)

    def facts(self) -> dict[str, float] | None:
        """Plain data for the record; None if no sample had a value."""
        if not self.n:
            return None
        mean = self.total / self.n
        return {"mean": mean, "min": self.minimum, "max": self.maximum, "n": self.n}


@dataclass(frozen=True)
class Sample:
    """One sample of one GPU. `fields` has a key for each of FIELDS."""

    at: float
    fields: Mapping[str, Answer]
    energy_joules: Answer
    reasons: Answer
    foreign: Collection[int] | None


@dataclass
class GpuReadings:
    """All samples of one GPU during a run."""

    rank: int
    uuid: str | None
    series: dict[str, Series] = field(default_factory=lambda: {name: Series() for name in FIELDS})
    samples: int = 0
    with_reasons: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    reasons_missing: str = NOT_READ
    foreign: set[int] | None = None
    counter: list[float] = field(default_factory=list)
    counter_missing: str = NOT_READ
    sampled_joules: float = 0.0
    last_power: tuple[float, float] | None = None

    def add(self, sample: Sample) -> None:
        """Count one sample."""
        self.samples += 1
        for name, series in self.series.items():
            series.add(sample.fields[name])
        bits = sample.reasons.value
        if bits is None:
            self.reasons_missing = sample.reasons.reason or NOT_READ
        else:
            self.with_reasons += 1
            # an idle GPU may report any slowdown: it slows nothing down
            shown = bits & IDLE or bits
            self.reasons.update(name for bit, name in EVENT_REASONS.items() if shown & bit)
        self._add_energy(sample)
        if sample.foreign is not None:
            self.foreign = {*(self.foreign or ()), *sample.foreign}

    def _add_energy(self, sample: Sample) -> None:
        if sample.energy_joules.value is None:
            self.counter_missing = sample.energy_joules.reason or NOT_READ
        else:
            self.counter.append(sample.energy_joules.value)
        power = sample.fields["power_watts"].value
        if power is not None:
            if self.last_power is not None:
                at, before = self.last_power
                self.sampled_joules += (sample.at - at) * (power + before) / 2
            self.last_power = (sample.at, power)

    def joules(self) -> tuple[float | None, str]:
        """Energy so far and its source, or None and the reason."""
        if len(self.counter) > 1:
            if self.counter == sorted(self.counter):
                return self.counter[-1] - self.counter[0], "counter"
            self.counter_missing = "the counter went back"
        if self.series["power_watts"].n > 1:
            return self.sampled_joules, "sampled power"
        return None, self.counter_missing

    def facts(self) -> dict[str, Any]:
        """Plain data for the record."""
        energy, source = self.joules()
        shares = {name: count / self.with_reasons for name, count in sorted(self.reasons.items())}
        missing = {name: series.reason for name, series in self.series.items() if not series.n}
        if energy is None:
            missing["energy_joules"] = source
        if not self.with_reasons:
            missing["event_reasons"] = self.reasons_missing
        if self.foreign is None:
            missing["foreign_processes"] = "the driver does not list processes"
        return {
            "rank": self.rank,
            "uuid": self.uuid,
            "samples": self.samples,
            **{name: series.facts() for name, series in self.series.items()},
            "energy_joules": energy,
            "energy_source": None if energy is None else source,
            "event_reasons": shares if self.with_reasons else None,
            "foreign_processes": None if self.foreign is None else len(self.foreign),
            "null_reasons": missing,
        }


OTHERS_SHARE = 0.10
"""A run is flagged if other programs used more than this share of the processor time."""
STEAL_SHARE = 0.02
"""Likewise for time that a hypervisor gave to another guest."""
SLOWDOWN_SHARE = 0.01
"""Share of the samples that may show a slowdown: 1 stray sample in 100 does not count."""
POWER_CAP_SHARE = 0.05

FLAGS = {
    "busy_host": "other programs used more than 10 % of the processor time",
    "stolen_cpu": "a hypervisor gave more than 2 % of the processor time to others",
    "foreign_gpu_process": "another program was on a GPU of the run",
    "clocks_changed": "clock or power limits differed before and after the run",
    "power_capped": "the power limit held the clocks down in more than 5 % of the readings",
    "slowed_down": "a GPU protected itself (thermal or hardware slow-down); the run is invalid",
    "stored_later": "the sweep died before it could store the run; the next one did, no telemetry",
}
"""Meaning of each flag."""

_SETTINGS = (
    "power_limit_watts",
    "max_sm_clock_mhz",
    "application_sm_clock_mhz",
    "application_memory_clock_mhz",
    "persistence_mode",
)
"""Settings that must not change during a run."""


def flags(
    before: Mapping[str, Any], during: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, ...]:
    """The flags of a run, in the order of FLAGS."""
    cpu, gpus = during.get("cpu") or {}, during.get("gpus") or []
    # not those after it: our own processes linger in the driver's list for a moment
    samples = [*before.get("gpus", []), *gpus]
    conditions = {
        "busy_host": (cpu.get("others_share") or 0) > OTHERS_SHARE,
        "stolen_cpu": (cpu.get("steal_share") or 0) > STEAL_SHARE,
        "foreign_gpu_process": any(gpu.get("foreign_processes") for gpu in samples),
        "clocks_changed": _settings(before) != _settings(after),
        "power_capped": any(_share(gpu, "sw_power_cap") > POWER_CAP_SHARE for gpu in gpus),
        "slowed_down": bool(slowdowns(during)),
    }
    return tuple(name for name in FLAGS if conditions.get(name))


def slowdowns(during: Mapping[str, Any]) -> list[str]:
    """A line for each GPU that protected itself in more than SLOWDOWN_SHARE of its samples."""
    return [
        f"{reason} in {share:.0%} of the readings of rank {gpu.get('rank')}'s GPU"
        for gpu in during.get("gpus") or []
        for reason in SLOWDOWNS
        if (share := _share(gpu, reason)) > SLOWDOWN_SHARE
    ]


def _share(gpu: Mapping[str, Any], reason: str) -> float:
    return float((gpu.get("event_reasons") or {}).get(reason, 0))


def _settings(state: Mapping[str, Any]) -> list[Any]:
    """The settings of the processor and of every GPU."""
    cards = [[gpu.get(name) for name in _SETTINGS] for gpu in state.get("gpus", [])]
    return [state.get("governor"), *cards]
