from __future__ import annotations

import pytest
from fake_nvml import FakeNvml, card, process

from bench.host.gpus import Gpu
from bench.host.samples import FLAGS, flags, slowdowns
from bench.host.telemetry import Monitor

A100 = Gpu("NVIDIA A100", "GPU-aaaa")


def before(nvml=None, governor="performance"):
    found = Monitor(1.0, nvml or FakeNvml(card())).snapshot((A100,), 1)
    return {**found, "governor": governor}


def during(cpu=None, **gpu):
    facts = {"rank": 0, "event_reasons": {}, "foreign_processes": 0, **gpu}
    return {"cpu": cpu or {"others_share": 0.01, "steal_share": 0.0}, "gpus": [facts]}


def test_an_undisturbed_run_has_no_flags():
    assert flags(before(), during(), before()) == ()


@pytest.mark.parametrize(
    ("changed", "flag"),
    [
        ({"cpu": {"others_share": 0.2, "steal_share": 0.0}}, "busy_host"),
        ({"cpu": {"others_share": 0.0, "steal_share": 0.03}}, "stolen_cpu"),
        ({"foreign_processes": 1}, "foreign_gpu_process"),
        ({"event_reasons": {"sw_power_cap": 0.4}}, "power_capped"),
        ({"event_reasons": {"sw_thermal_slowdown": 0.02}}, "slowed_down"),
        ({"event_reasons": {"hw_slowdown": 0.5}}, "slowed_down"),
        ({"event_reasons": {"hw_power_brake": 0.5}}, "slowed_down"),
    ],
)
def test_every_disturbance_has_its_flag(changed, flag):
    assert flags(before(), during(**changed), before()) == (flag,)
    assert flag in FLAGS


@pytest.mark.parametrize(
    "changed",
    [
        {"cpu": {"others_share": None, "steal_share": None}},
        {"event_reasons": None},
        {"foreign_processes": None},
        {"event_reasons": {"sw_power_cap": 0.01, "applications_clocks": 1.0}},
        {"event_reasons": {"sw_thermal_slowdown": 0.005}},
    ],
)
def test_what_is_unknown_or_a_moment_is_no_flag(changed):
    assert flags(before(), during(**changed), before()) == ()


@pytest.mark.parametrize(
    "changed",
    [{"power_limit": 300_000}, {"application_clock": {1: 900, 2: 1215}}, {"persistence": 0}],
)
def test_limits_that_changed_during_the_run_are_flagged(changed):
    after = before(FakeNvml(card(**changed)))
    assert flags(before(), during(), after) == ("clocks_changed",)


def test_another_governor_is_a_change_of_clocks():
    assert flags(before(), during(), before(governor="powersave")) == ("clocks_changed",)


def test_somebody_on_the_card_before_the_run_is_flagged():
    busy = before(FakeNvml(card(processes=[process(1)])))
    assert flags(busy, during(), before()) == ("foreign_gpu_process",)


def test_a_slow_down_is_told_with_its_share_and_rank():
    (line,) = slowdowns(during(event_reasons={"hw_thermal_slowdown": 0.12}))
    assert line == "hw_thermal_slowdown in 12% of the readings of rank 0's GPU"


def test_a_snapshot_has_units_and_reasons():
    (gpu,) = before(FakeNvml(card(persistence=None, reasons=0x4)))["gpus"]
    assert gpu["power_limit_watts"] == 400.0
    assert gpu["application_sm_clock_mhz"] == 1095
    assert gpu["persistence_mode"] is None
    assert gpu["null_reasons"] == {"persistence_mode": "Not Supported"}
    assert gpu["event_reasons"] == ["sw_power_cap"]


def test_without_a_driver_a_snapshot_still_has_the_processor():
    found = Monitor(1.0, FakeNvml(init="Driver Not Loaded")).snapshot((), 2)
    assert found["gpus"] == []
    assert found["memory_available_bytes"] is None or found["memory_available_bytes"] > 0
