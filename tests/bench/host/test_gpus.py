"""Which card a rank has: CUDA_VISIBLE_DEVICES, PCI order, UUIDs, MIG, by a fake driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_nvml import FakeNvml, card

import bench
from bench.host.gpus import Gpu, read_gpus, visible
from bench.host.telemetry import Monitor
from bench.sweep.launchers import environment

A = card(uuid="GPU-aaaa", pci="00000000:07:00.0")
B = card(uuid="GPU-bbbb", pci="00000000:0F:00.0")
C = card(uuid="GPU-cccc", pci="00000000:47:00.0")
D = card(uuid="GPU-dddd", pci="00000000:4E:00.0")
SLICES = [{"uuid": "MIG-1111", "memory": card()["memory"]}, {"uuid": "MIG-2222"}]
SPLIT = card(uuid="GPU-eeee", pci="00000000:87:00.0", mig=[1, 1], slices=SLICES)


def uuids(gpus, value, order=None):
    return [gpu.uuid for gpu in visible(gpus, value, order)[0]]


def all_of(*cards):
    return read_gpus(FakeNvml(*cards))[0]


def test_cards_stand_in_pci_order_whatever_order_the_driver_lists():
    assert [gpu.uuid for gpu in all_of(C, A, D, B)] == [
        "GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd",
    ]  # fmt: skip


def test_trainer_counts_gpus_as_the_driver_unless_the_user_chose():
    assert environment({}, 1, "fp32", 1)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    chosen = environment({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, 1, "fp32", 1)
    assert chosen["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3,1", ["GPU-dddd", "GPU-bbbb"]),
        ("GPU-cccc", ["GPU-cccc"]),
        ("GPU-c,0", ["GPU-cccc", "GPU-aaaa"]),
        ("", []),
        ("-1", []),
        ("1,-1,2", ["GPU-bbbb"]),
        ("9", []),
        ("GPU-zzzz", []),
    ],
)
def test_every_form_of_cuda_visible_devices_is_mapped_or_nothing_is_read(value, expected):
    assert uuids(all_of(A, B, C, D), value) == expected


def test_a_slice_is_resolved_and_an_unknown_one_is_nothing():
    gpus = all_of(A, SPLIT)
    (found,), _ = visible(gpus, "MIG-2222")
    assert (found.uuid, found.card, found.name) == (
        "MIG-2222", "GPU-eeee", "MIG slice of NVIDIA A100",
    )  # fmt: skip
    assert uuids(gpus, "MIG-3333") == []
    assert uuids(gpus, "MIG-") == [], "not the first of several"
    assert uuids(gpus, "MIG-GPU-eeee/1/0") == ["MIG-GPU-eeee/1/0"]


def test_of_a_split_card_cuda_shows_its_first_slice():
    assert uuids(all_of(A, SPLIT), "1") == ["MIG-1111"]
    assert uuids(all_of(SPLIT), None) == ["MIG-1111"]


def test_unlike_cards_in_cudas_own_order_are_not_guessed():
    v100 = card(uuid="GPU-vvvv", name="Tesla V100", pci="00000000:01:00.0")
    gpus = all_of(A, v100)
    assert uuids(gpus, "0", "FASTEST_FIRST") == [None]
    assert uuids(gpus, None, "FASTEST_FIRST") == [None, None]
    assert uuids(gpus, "GPU-vvvv", "FASTEST_FIRST") == ["GPU-vvvv"]
    assert uuids(all_of(A, B), "1", "FASTEST_FIRST") == ["GPU-bbbb"], "like cards are all the same"


def test_a_rank_reads_the_card_of_its_own_local_rank():
    monitor = Monitor(1.0, FakeNvml(A, B, C, D))
    shown, _ = visible(all_of(A, B, C, D), "3,1,0")
    cards = monitor.cards(shown, 2)
    assert [(c.rank, c.handle.value["uuid"]) for c in cards] == [(0, "GPU-dddd"), (1, "GPU-bbbb")]


def test_a_card_without_uuid_is_never_taken_for_the_first():
    nvml = FakeNvml(A, B)
    (found,) = Monitor(1.0, nvml).cards((Gpu("NVIDIA A100"),), 1)
    assert found.handle.value is None
    assert "not known" in found.handle.reason
    sample = Monitor(1.0, nvml).sample(found, "token", set())
    assert sample.fields["power_watts"].value is None
    assert nvml.asked == []


def test_a_uuid_that_the_driver_does_not_know_is_a_reason():
    (found,) = Monitor(1.0, FakeNvml(A)).cards((Gpu("x", "GPU-zzzz"),), 1)
    assert (found.handle.value, found.handle.reason) == (None, "Not Found")


def test_the_stand_in_for_the_driver_is_reachable_from_tests_only():
    sources = list(Path(bench.__file__).parent.rglob("*.py"))
    assert len(sources) > 20
    assert not [path for path in sources if "fake_nvml" in path.read_text(encoding="utf-8")]
