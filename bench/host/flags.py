"""What the readings of a run say about it. Pure.

A flag is kept with the run and shown; it does not make the run bad. Only a card that protects
itself (thermal or hardware slow-down) does: then the speed is not that of the card.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.host.samples import SLOWDOWNS

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHERS_SHARE = 0.10
"""Share of the machine's processor time that others may use before a run counts as disturbed."""
STEAL_SHARE = 0.02
"""Likewise for time that a hypervisor gave to another guest."""
SLOWDOWN_SHARE = 0.01
"""Share of the readings that may show a slow-down: one stray reading in 100 is none."""
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
"""What each flag means."""

_SETTINGS = (
    "power_limit_watts",
    "max_sm_clock_mhz",
    "application_sm_clock_mhz",
    "application_memory_clock_mhz",
    "persistence_mode",
)
"""What nobody should change during a run."""


def flags(
    before: Mapping[str, Any], during: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, ...]:
    """The flags that a run deserves, in the order of FLAGS."""
    cpu, gpus = during.get("cpu") or {}, during.get("gpus") or []
    # not those after it: our own processes linger in the driver's list for a moment
    watched = [*before.get("gpus", []), *gpus]
    found = {
        "busy_host": (cpu.get("others_share") or 0) > OTHERS_SHARE,
        "stolen_cpu": (cpu.get("steal_share") or 0) > STEAL_SHARE,
        "foreign_gpu_process": any(gpu.get("foreign_processes") for gpu in watched),
        "clocks_changed": _settings(before) != _settings(after),
        "power_capped": any(_share(gpu, "sw_power_cap") > POWER_CAP_SHARE for gpu in gpus),
        "slowed_down": bool(slowdowns(during)),
    }
    return tuple(name for name in FLAGS if found.get(name))


def slowdowns(during: Mapping[str, Any]) -> list[str]:
    """A line for each card that protected itself for more than a moment."""
    return [
        f"{reason} in {share:.0%} of the readings of rank {gpu.get('rank')}'s GPU"
        for gpu in during.get("gpus") or []
        for reason in SLOWDOWNS
        if (share := _share(gpu, reason)) > SLOWDOWN_SHARE
    ]


def _share(gpu: Mapping[str, Any], reason: str) -> float:
    return float((gpu.get("event_reasons") or {}).get(reason, 0))


def _settings(state: Mapping[str, Any]) -> list[Any]:
    """The settings of every card, and of the processor."""
    cards = [[gpu.get(name) for name in _SETTINGS] for gpu in state.get("gpus", [])]
    return [state.get("governor"), *cards]
