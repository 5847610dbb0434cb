"""What is read of a run, and what cannot be read: each with its reason, by a fake driver."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_nvml import FakeNvml, NVMLError, card, process

from bench.host import machine
from bench.host.gpus import Answer, Driver, Gpu, connect
from bench.host.samples import FIELDS, GpuReadings, Sample, Series
from bench.host.telemetry import Monitor, resident_bytes
from bench.process import reaper
from bench.process.supervise import processes_of

A100 = Gpu("NVIDIA A100", "GPU-aaaa")
TWO = (A100, Gpu("NVIDIA A100", "GPU-bbbb"))


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def watched(nvml, gpus=(A100,), ranks=1, looks=3, step=1.0, lines=()):
    """Facts of a run that was looked at a few times, a second apart, without waiting for it."""
    clock = Clock()
    monitor = Monitor(3600.0, nvml, clock)
    with monitor.watch(gpus, ranks, "no such token") as watch:
        for _ in range(looks - 1):
            clock.now += step
            with watch._lock:
                watch._look()
        for line in lines:
            watch.on_line(line)
    return watch.facts()


def counter(start, step):
    """An energy counter: so many millijoules more at every look."""
    value = [start - step]

    def read():
        value[0] += step
        return value[0]

    return read


def test_a_whole_card_gives_every_field_with_its_unit():
    facts = watched(FakeNvml(card(energy=counter(5_000_000, 250_000))))
    (gpu,) = facts["gpus"]
    assert gpu["power_watts"] == {"mean": 250.0, "min": 250.0, "max": 250.0, "n": 4}
    assert gpu["sm_clock_mhz"]["mean"] == 1410
    assert gpu["memory_clock_mhz"]["mean"] == 1215
    assert gpu["temperature_celsius"]["max"] == 55
    assert gpu["memory_used_bytes"]["max"] == 2 << 30
    assert gpu["gpu_utilization_percent"]["mean"] == 97
    assert (gpu["energy_joules"], gpu["energy_source"]) == (750.0, "counter")
    assert (gpu["foreign_processes"], gpu["event_reasons"]) == (0, {})
    assert gpu["null_reasons"] == {}
    assert (gpu["rank"], gpu["uuid"], gpu["samples"]) == (0, "GPU-aaaa", 4)
    json.dumps(facts, allow_nan=False)


@pytest.mark.parametrize(
    ("missing", "field"),
    [
        ("utilization", "gpu_utilization_percent"),
        ("utilization", "memory_utilization_percent"),
        ("temperature", "temperature_celsius"),
        ("clock", "sm_clock_mhz"),
        ("memory", "memory_used_bytes"),
        ("reasons", "event_reasons"),
    ],
)
def test_unsupported_field_is_null_with_reason_and_rest_is_kept(missing, field):
    (gpu,) = watched(FakeNvml(card(**{missing: None})))["gpus"]
    assert gpu[field] is None
    assert gpu["null_reasons"][field] == "Not Supported"
    assert gpu["power_watts"]["mean"] == 250.0
    other = {"reasons": "event_reasons"}.get(missing, field)
    kept = [name for name in FIELDS if gpu[name] is not None]
    assert len(kept) >= len(FIELDS) - 2
    assert other not in kept


def test_a_value_that_means_no_value_is_no_value():
    (gpu,) = watched(FakeNvml(card(power=2**32 - 1, temperature=2**32 - 1)))["gpus"]
    assert gpu["power_watts"] is None
    assert gpu["null_reasons"]["power_watts"] == "the driver has no value for it"


def test_without_the_counter_energy_is_the_sampled_power_over_time():
    (gpu,) = watched(FakeNvml(card(energy=None)), looks=5, step=2.0)["gpus"]
    assert (gpu["energy_joules"], gpu["energy_source"]) == (250.0 * 8, "sampled power")


def test_without_counter_and_power_there_is_no_energy():
    (gpu,) = watched(FakeNvml(card(energy=None, power=None)))["gpus"]
    assert (gpu["energy_joules"], gpu["energy_source"]) == (None, None)
    assert gpu["null_reasons"]["energy_joules"] == "Not Supported"


def test_a_counter_that_went_back_is_not_believed():
    values = iter([9e6, 9.1e6, 1e5, 2e5, 3e5])
    (gpu,) = watched(FakeNvml(card(energy=lambda: next(values), power=None)))["gpus"]
    assert gpu["energy_joules"] is None
    assert gpu["null_reasons"]["energy_joules"] == "the counter went back"


def test_reasons_for_lower_clocks_are_shares_of_the_readings():
    values = iter([0x4, 0x4 | 0x20, 0x0, 0x0])
    (gpu,) = watched(FakeNvml(card(reasons=lambda: next(values))))["gpus"]
    assert gpu["event_reasons"] == {"sw_power_cap": 0.5, "sw_thermal_slowdown": 0.25}


def test_a_card_that_does_nothing_is_not_slowed_down():
    (gpu,) = watched(FakeNvml(card(reasons=0x1 | 0x8)))["gpus"]
    assert gpu["event_reasons"] == {"gpu_idle": 1.0}


def test_an_older_driver_knows_the_reasons_by_their_older_name():
    nvml = FakeNvml(card(reasons=0x4), lacking=["nvmlDeviceGetCurrentClocksEventReasons"])
    (gpu,) = watched(nvml)["gpus"]
    assert gpu["event_reasons"] == {"sw_power_cap": 1.0}


def test_a_card_that_falls_off_the_bus_during_a_run_keeps_what_was_read():
    values = iter([250_000, NVMLError("GPU is lost"), NVMLError("GPU is lost"), 250_000])
    (gpu,) = watched(FakeNvml(card(power=lambda: next(values))))["gpus"]
    assert gpu["power_watts"]["n"] == 2


def test_every_rank_has_its_own_card():
    nvml = FakeNvml(card(), card(uuid="GPU-bbbb", power=100_000))
    first, second = watched(nvml, TWO, ranks=2)["gpus"]
    assert (first["rank"], first["power_watts"]["mean"]) == (0, 250.0)
    assert (second["rank"], second["power_watts"]["mean"]) == (1, 100.0)
    (alone,) = watched(nvml, TWO, ranks=1)["gpus"]
    assert alone["uuid"] == "GPU-aaaa"


def test_energy_at_the_end_of_each_epoch_is_noted_over_all_ranks():
    nvml = FakeNvml(card(energy=counter(0, 1000)), card(uuid="GPU-bbbb", energy=counter(0, 2000)))
    lines = ["[0]<stdout>:epoch 1/2  loss 0.4", "something else", "epoch 2/2  loss 0.3"]
    facts = watched(nvml, TWO, ranks=2, looks=2, lines=lines)
    assert facts["epoch_energy_joules"] == {"1": 6.0, "2": 9.0}
    assert sum(gpu["energy_joules"] for gpu in facts["gpus"]) == 12.0


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [
        (FakeNvml(init="NVML Shared Library Not Found"), "NVML Shared Library Not Found"),
        (FakeNvml(init="Driver Not Loaded"), "Driver Not Loaded"),
    ],
)
def test_no_driver_and_no_library_are_told_apart_and_disturb_nothing(nvml, reason):
    facts = watched(nvml, gpus=())
    assert facts["gpus"] == []
    assert facts["no_gpus"] == f"no NVIDIA driver answers ({reason})"
    assert facts["cpu"]["load_1min"]["n"] >= 1


def test_without_the_python_library_that_is_the_reason(monkeypatch):
    real = builtins.__import__

    def without_pynvml(name, *args, **kwargs):
        if name == "pynvml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pynvml)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert connect() == "the library nvidia-ml-py is not installed"
    assert watched(None, gpus=())["no_gpus"] == "the library nvidia-ml-py is not installed"


def test_a_run_that_uses_no_gpu_of_a_machine_with_some_says_so():
    assert watched(FakeNvml(card()), gpus=())["no_gpus"] == "the run uses no GPU"


def test_watching_can_be_turned_off():
    monitor = Monitor(None, FakeNvml(card()))
    with monitor.watch((A100,), 1, "token") as watch:
        watch.on_line("epoch 1/2")
    facts = watch.facts()
    assert facts["gpus"] == []
    assert facts["interval_seconds"] is None


def test_a_function_that_the_library_lacks_is_a_reason():
    answer = Driver(SimpleNamespace(NVMLError=NVMLError)).ask("nvmlSomethingNew")
    assert answer == Answer(None, "this nvidia-ml-py has no nvmlSomethingNew")


def foreign(pids, token="", own=()):
    monitor = Monitor(1.0, FakeNvml(card(processes=[process(pid) for pid in pids])))
    return monitor.foreign(monitor.cards((A100,), 1)[0], token, set(own))


def test_a_process_of_somebody_else_on_the_card_is_foreign_and_ours_is_not():
    mine = os.getpid()
    assert foreign([]) == set()
    assert foreign([mine]) == {mine}
    assert foreign([mine, os.getppid()], own=[mine]) == {os.getppid()}


def test_our_process_is_known_by_its_mark_before_it_was_looked_for():
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env={**os.environ, reaper.MARK: "token-of-this-test"},
    )
    try:
        own: set[int] = set()
        monitor = Monitor(1.0, FakeNvml(card(processes=[process(child.pid)])))
        assert monitor.foreign(monitor.cards((A100,), 1)[0], "token-of-this-test", own) == set()
        assert own == {child.pid}
        assert foreign([child.pid], token="another token") == {child.pid}
        assert processes_of("token-of-this-test") == {child.pid: 0}
    finally:
        child.communicate()


def test_in_a_container_numbers_of_the_machine_are_counted_not_looked_up():
    unseen = [4_194_305, 4_194_306]  # above the largest pid: of another namespace
    assert foreign(unseen[:1], own=[os.getpid()]) == set(), "our rank, as the machine counts it"
    assert foreign(unseen, own=[os.getpid()]) == {unseen[1]}
    assert foreign(unseen[:1]) == {unseen[0]}, "before the run nothing there is ours"


def test_a_driver_that_lists_no_processes_leaves_it_open():
    monitor = Monitor(1.0, FakeNvml(card(processes=None)))
    assert monitor.foreign(monitor.cards((A100,), 1)[0]) is None
    (gpu,) = watched(FakeNvml(card(processes=None)))["gpus"]
    assert gpu["foreign_processes"] is None
    assert "foreign_processes" in gpu["null_reasons"]


def test_watching_a_run_loads_no_framework():
    # Asking TensorFlow for devices takes hold of all GPUs before ranks can pin theirs.
    code = (
        "import sys; from bench.host.telemetry import Monitor\n"
        "monitor = Monitor(1.0); monitor.snapshot((), 1)\n"
        "with monitor.watch((), 1, 'token') as watch: watch.on_line('epoch 1/2')\n"
        "watch.facts(); print(sorted({'tensorflow', 'horovod', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_series_without_a_value_is_none_with_the_last_reason():
    series = Series()
    series.add(Answer(None, "Not Supported"))
    assert (series.facts(), series.reason) == (None, "Not Supported")
    series.add(Answer(0))
    assert series.facts() == {"mean": 0.0, "min": 0.0, "max": 0.0, "n": 1}


def test_one_sample_is_no_energy():
    readings = GpuReadings(0, "GPU-aaaa")
    none = Answer(None, "Not Supported")
    fields = dict.fromkeys(FIELDS, none) | {"power_watts": Answer(100.0)}
    readings.add(Sample(0.0, fields, Answer(5.0), none, None))
    assert readings.joules()[0] is None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="reads Linux's /proc")
def test_the_processors_part_is_read_from_proc():
    times = machine.cpu_times()
    assert times.cores >= 1
    assert times.total > times.idle > 0
    assert machine.load() >= 0
    assert resident_bytes(os.getpid()) > 1 << 20
    assert resident_bytes(4_194_305) is None
    assert machine.own_cpu_seconds() > 0


def test_ranks_and_their_memory_are_found_by_the_mark_in_their_environment():
    code = "import sys; sys.stdin.read()"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            env={**os.environ, reaper.MARK: "token-of-two", "HOROVOD_RANK": str(rank)},
        )
        for rank in (0, 1)
    ]
    try:
        assert processes_of("token-of-two") == {
            ranks[0].pid: 0, ranks[1].pid: 1,
        }  # fmt: skip
        with Monitor(3600.0, FakeNvml()).watch((), 2, "token-of-two") as watch:
            pass
        sizes = watch.facts()["cpu"]["peak_resident_bytes_per_rank"]
        assert len(sizes) == 2
        assert min(sizes) > 1 << 20
    finally:
        for rank in ranks:
            rank.communicate()
