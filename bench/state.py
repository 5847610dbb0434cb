"""The state of the machine before and after a run; `bench.flags` says what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench import proc
from bench.nvml import Answer
from bench.readings import EVENT_REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.gpus import Gpu
    from bench.telemetry import Card, Monitor

_SETTINGS = (
    ("power_limit_watts", "nvmlDeviceGetPowerManagementLimit", ()),
    ("max_sm_clock_mhz", "nvmlDeviceGetMaxClockInfo", (1,)),
    ("application_sm_clock_mhz", "nvmlDeviceGetApplicationsClock", (1,)),
    ("application_memory_clock_mhz", "nvmlDeviceGetApplicationsClock", (2,)),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", ()),
)


def snapshot(monitor: Monitor, gpus: Sequence[Gpu], ranks: int) -> dict[str, Any]:
    """What can be seen now of the machine and of the cards that a run uses."""
    return {
        "load_1min": proc.load(),
        "memory_available_bytes": proc.memory_available_bytes(),
        "governor": proc.governor(),
        "gpus": [_card(monitor, card) for card in monitor.cards(gpus, ranks)],
    }


def _card(monitor: Monitor, card: Card) -> dict[str, Any]:
    driver, handle = monitor.driver(), card.handle
    if isinstance(driver, str) or handle.value is None:
        return {"uuid": card.gpu.uuid, "null_reasons": {"all": handle.reason}}
    answers = {
        name: driver.ask(question, handle.value, *more) for name, question, more in _SETTINGS
    }
    power = answers["power_limit_watts"]
    if power.value is not None:
        answers["power_limit_watts"] = Answer(power.value / 1000)
    answers["temperature_celsius"] = driver.ask("nvmlDeviceGetTemperature", handle.value, 0)
    sample = monitor.sample(card, "", set())
    foreign, bits = sample.foreign, sample.reasons.value
    return {
        "uuid": card.gpu.uuid,
        **{name: answer.value for name, answer in answers.items()},
        "event_reasons": None
        if bits is None
        else [name for bit, name in EVENT_REASONS.items() if bits & bit],
        "foreign_processes": None if foreign is None else len(foreign),
        "null_reasons": {name: a.reason for name, a in answers.items() if a.value is None},
    }
