"""Many readings become a few facts: mean, least, most; shares of time; energy. Pure.

A field that could not be read is null, and `null_reasons` says why; nothing is ever 0 for want of
an answer. Units are in the names.
"""

from __future__ import annotations

import math
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
"""What a card does to protect itself; its speed is not the card's then."""

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


class Series:
    """Mean, least and most of the values so far."""

    def __init__(self) -> None:
        self.n, self.total = 0, 0.0
        self.least, self.most = math.inf, -math.inf
        self.reason = NOT_READ

    def add(self, answer: Answer) -> None:
        """Count one reading; one without a value leaves its reason."""
        if answer.value is None:
            self.reason = answer.reason or NOT_READ
            return
        value = float(answer.value)
        self.n, self.total = self.n + 1, self.total + value
        self.least, self.most = min(self.least, value), max(self.most, value)

    def facts(self) -> dict[str, float] | None:
        """None if no reading had a value."""
        if not self.n:
            return None
        return {
            "mean": self.total / self.n, "min": self.least, "max": self.most, "n": self.n
        }  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One look at one GPU. `fields` has a key for each of FIELDS."""

    at: float
    fields: Mapping[str, Answer]
    energy_joules: Answer
    reasons: Answer
    foreign: Collection[int] | None


@dataclass
class GpuReadings:
    """What was read of one GPU during a run."""

    rank: int
    uuid: str | None
    series: dict[str, Series] = field(default_factory=lambda: {name: Series() for name in FIELDS})
    samples: int = 0
    with_reasons: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    reasons_missing: str = NOT_READ
    foreign: set[int] = field(default_factory=set)
    foreign_known: bool = False
    counter: list[float] = field(default_factory=list)
    counter_missing: str = NOT_READ
    sampled_joules: float = 0.0
    last_power: tuple[float, float] | None = None

    def add(self, sample: Sample) -> None:
        """Count one sample."""
        self.samples += 1
        for name in FIELDS:
            self.series[name].add(sample.fields[name])
        self._add_reasons(sample.reasons)
        self._add_energy(sample)
        if sample.foreign is not None:
            self.foreign_known = True
            self.foreign.update(sample.foreign)

    def _add_reasons(self, reasons: Answer) -> None:
        if reasons.value is None:
            self.reasons_missing = reasons.reason or NOT_READ
            return
        self.with_reasons += 1
        for bit, name in EVENT_REASONS.items():
            # a card that does nothing may report any slow-down: it slows nothing down
            if reasons.value & bit and (bit == IDLE or not reasons.value & IDLE):
                self.reasons[name] = self.reasons.get(name, 0) + 1

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
        """Energy so far, and where it comes from, or why there is none."""
        if len(self.counter) > 1:
            used = self.counter[-1] - self.counter[0]
            steps = zip(self.counter, self.counter[1:], strict=False)
            if all(before <= after for before, after in steps):
                return used, "counter"
            self.counter_missing = "the counter went back"
        if self.series["power_watts"].n > 1:
            return self.sampled_joules, "sampled power"
        return None, self.counter_missing

    def share(self, reason: str) -> float:
        """Share of the samples that show a reason."""
        return self.reasons.get(reason, 0) / self.with_reasons if self.with_reasons else 0.0

    def facts(self) -> dict[str, Any]:
        """Plain data for the record."""
        missing = {name: one.reason for name, one in self.series.items() if not one.n}
        energy, source = self.joules()
        if energy is None:
            missing["energy_joules"] = source
        if not self.with_reasons:
            missing["event_reasons"] = self.reasons_missing
        if not self.foreign_known:
            missing["foreign_processes"] = "the driver does not list processes"
        return {
            "rank": self.rank,
            "uuid": self.uuid,
            "samples": self.samples,
            **{name: one.facts() for name, one in self.series.items()},
            "energy_joules": energy,
            "energy_source": source if energy is not None else None,
            "event_reasons": {name: self.share(name) for name in sorted(self.reasons)}
            if self.with_reasons
            else None,
            "foreign_processes": len(self.foreign) if self.foreign_known else None,
            "null_reasons": missing,
        }
