from __future__ import annotations

import dataclasses
import threading

import pytest
from fake_nvml import FakeNvml, card, process
from sample_records import make_suite

from bench.host.gpus import Gpu
from bench.host.machine import Host
from bench.host.telemetry import Monitor
from bench.sweep.execute import WHOLE_MACHINE, GpuSlot
from bench.sweep.scheduler import Queue, gpu_slots, run_in_slots

FOUR = tuple(Gpu("NVIDIA A100", f"GPU-{n}") for n in range(4))
HOST = Host("cpu", 64, 1 << 40, gpus=FOUR, driver="535", horovodrun="/h")
ACCURACY = make_suite(measures="accuracy")


def nvml(busy=(), **changes):
    cards = [
        card(uuid=f"GPU-{n}", processes=[process(1)] if n in busy else [], **changes)
        for n in range(4)
    ]
    return FakeNvml(*cards)


def test_a_suite_that_measures_speed_is_never_packed():
    assert gpu_slots(make_suite(), HOST, Monitor(1.0, nvml())) == (WHOLE_MACHINE,)


def test_a_suite_that_measures_accuracy_has_one_slot_per_free_gpu():
    found = gpu_slots(ACCURACY, HOST, Monitor(1.0, nvml(busy=[1])))
    assert [slot.gpu.uuid for slot in found] == ["GPU-0", "GPU-2", "GPU-3"]
    assert [slot.number for slot in found] == [0, 1, 2]
    assert found[0].cores(64) == 21


@pytest.mark.parametrize(
    ("host", "monitor"),
    [
        (dataclasses.replace(HOST, gpus=()), Monitor(1.0, FakeNvml())),
        (dataclasses.replace(HOST, gpus=FOUR[:1]), Monitor(1.0, nvml())),
        (dataclasses.replace(HOST, gpus=(Gpu("A"), Gpu("B"))), Monitor(1.0, nvml())),
        (HOST, Monitor(1.0, nvml(busy=[0, 1, 2]))),
        (HOST, Monitor(1.0, FakeNvml(*(card(uuid=f"GPU-{n}", processes=None) for n in range(4))))),
        (HOST, None),
    ],
    ids=[
        "no GPU",
        "one GPU",
        "no UUID",
        "all but one busy",
        "processes not listed",
        "no telemetry",
    ],
)
def test_where_free_gpus_are_not_known_runs_go_one_after_the_other(host, monitor):
    assert gpu_slots(ACCURACY, host, monitor) == (WHOLE_MACHINE,)


def test_every_item_is_taken_once_by_whichever_slot_is_free():
    queue, taken = Queue(range(100), lambda: False), []

    def work(_):
        while (item := queue.take()) is not None:
            taken.append(item)

    run_in_slots([GpuSlot(n) for n in range(4)], work, on_error=lambda: None)
    assert sorted(taken) == [(n, n) for n in range(100)]
    assert queue.remaining() == []


def test_nothing_is_taken_once_there_is_a_reason_to_stop():
    stop = []
    queue = Queue([1, 2, 3], lambda: bool(stop))
    assert queue.take() == (0, 1)
    stop.append("SIGINT")
    assert queue.take() is None
    assert queue.remaining() == [2, 3]


def test_an_error_in_one_slot_is_told_to_the_others_and_raised_at_the_end():
    failed = threading.Event()

    def work(slot):
        if slot.number == 0:
            raise OSError(28, "No space left on device")
        assert failed.wait(10), "the others are told at once"

    with pytest.raises(OSError, match="No space left"):
        run_in_slots([GpuSlot(n) for n in range(3)], work, on_error=failed.set)


def test_one_slot_works_in_the_calling_thread():
    seen = []
    run_in_slots(
        [WHOLE_MACHINE], lambda _: seen.append(threading.current_thread()), on_error=lambda: None
    )
    assert seen == [threading.main_thread()]
