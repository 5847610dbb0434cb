from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from paths import SUPPORT

from bench.__main__ import main
from bench.cli import doctor as doctor_command
from bench.host.doctor import Facts, Place, diagnose
from bench.host.gpus import Gpu
from bench.host.machine import Host

STUB = (sys.executable, str(SUPPORT / "stub_trainer.py"))
FP32 = {"effective": "fp32", "mantissa_bits": 23, "expected_mantissa_bits": 23}
TF32 = {"effective": "tf32", "mantissa_bits": 10, "expected_mantissa_bits": 10}
PROBE = {
    "versions": {"tensorflow": "2.21.0", "python": "3.12.3", "numpy": "2.0.0", "cuda": "12.5.1"},
    "gpus": 2,
    "precision": {"fp32": FP32, "tf32": TF32},
    "horovod": {"problem": None, "version": "0.28.1", "gloo": True, "nccl": True, "mpi": False},
    "data": None,
}
GPUS = (Gpu("NVIDIA A100", "GPU-aaaa"), Gpu("NVIDIA A100", "GPU-bbbb"))
HOST = Host("AMD EPYC", 128, 1 << 40, gpus=GPUS, driver="550.54", horovodrun="/h")
CPU = Host("cpu", 2, 8 << 30, no_gpus="no NVIDIA driver answers (x)", horovodrun="/h")
CARD = {
    "uuid": "GPU-aaaa",
    "power_limit_watts": 400.0,
    "default_power_limit_watts": 400.0,
    "max_sm_clock_mhz": 1410,
    "application_sm_clock_mhz": 1410,
    "persistence_mode": 1,
    "event_reasons": ["gpu_idle"],
    "foreign_processes": 0,
    "null_reasons": {},
}
SOUND = Facts(
    host=HOST,
    trainer=PROBE,
    cards=[CARD],
    state={"governor": "performance", "load_1min": 0.3, "memory_available_bytes": 64 << 30},
    shm_bytes=1 << 30,
    places=[Place("results", "results", 1 << 40, writable=True)],
    data={"folder": "data/x", "hash": "0123"},
    timeouts=[("ranks=1", 100.0, 3600.0)],
)


def findings(**changes):
    return [f for f in diagnose(dataclasses.replace(SOUND, **changes)) if f.level != "ok"]


def probe(**changes):
    return {**PROBE, **changes}


def test_a_sound_machine_has_nothing_to_mend():
    assert findings() == []
    said = [finding.what for finding in diagnose(SOUND)]
    assert "2 GPUs (NVIDIA A100), driver 550.54" in said
    assert "Horovod 0.28.1 with gloo, nccl" in said
    assert "fp32 computes with 23 mantissa bits, as it should" in said


WRONG = {
    "trainer": (
        {"trainer": "training needs TensorFlow"},
        "fail", "the trainer does not work: training needs TensorFlow", "./run_benchmarks.sh",
    ),
    "fp32 that is TF32": (
        {"trainer": probe(precision={"fp32": {**FP32, "effective": "tf32", "mantissa_bits": 10}})},
        "fail", "fp32 computes with 10 mantissa bits instead of 23", "NVIDIA_TF32_OVERRIDE=0",
    ),
    "tf32 that is FP32": (
        {"trainer": probe(precision={"tf32": {**TF32, "effective": "fp32", "mantissa_bits": 23}})},
        "fail", "tf32 computes with 23 mantissa bits instead of 10", "unset NVIDIA_TF32_OVERRIDE",
    ),
    "TensorFlow without GPUs": (
        {"trainer": probe(gpus=0)},
        "fail", "the driver lists 2 GPUs and TensorFlow sees none", "NCF_BENCH_FLAVOUR=cuda",
    ),
    "old driver": (
        {"host": dataclasses.replace(HOST, driver="470.82")},
        "fail", "driver 470.82 is too old for CUDA 12 (525 or later)", "install driver 525",
    ),
    "no Horovod": (
        {"trainer": probe(horovod={"problem": "No module named 'horovod'"})},
        "warn", "more than 1 rank is not possible", "python scripts/build_horovod.py",
    ),
    "no NCCL": (
        {"trainer": probe(horovod={**PROBE["horovod"], "nccl": False})},
        "fail", "2 GPUs and a Horovod without NCCL", "scripts/build_horovod.py",
    ),
    "no Gloo": (
        {"trainer": probe(horovod={**PROBE["horovod"], "gloo": False})},
        "fail", "Horovod has no Gloo", "scripts/build_horovod.py",
    ),
    "persistence": (
        {"cards": [{**CARD, "persistence_mode": 0}]},
        "warn", "persistence mode is off", "sudo nvidia-smi -i GPU-aaaa -pm 1",
    ),
    "power limit": (
        {"cards": [{**CARD, "power_limit_watts": 250.0}]},
        "warn", "power limit 250 W of 400 W", "sudo nvidia-smi -i GPU-aaaa -pl 400",
    ),
    "slowed down": (
        {"cards": [{**CARD, "event_reasons": ["hw_thermal_slowdown"]}]},
        "fail", "is slowed down: hw_thermal_slowdown", "cooling",
    ),
    "somebody else's job": (
        {"cards": [{**CARD, "foreign_processes": 2}]},
        "warn", "2 processes of others", "nvidia-smi --query-compute-apps",
    ),
    "a card that cannot be monitored": (
        {"cards": [{"uuid": "GPU-aaaa", "null_reasons": {"all": "Not Found"}}]},
        "warn", "GPU GPU-aaaa cannot be monitored: Not Found", "",
    ),
    "governor": (
        {"state": {"governor": "powersave"}},
        "warn", "clock governor is powersave", "cpupower frequency-set -g performance",
    ),
    "busy": ({"state": {"load_1min": 90.0}}, "warn", "the machine is busy: load 90.0", "top"),
    "memory": ({"state": {"memory_available_bytes": 1 << 30}}, "warn", "only 1.0 GiB", "free"),
    "shared memory": ({"shm_bytes": 64 << 20}, "warn", "64.0 MiB free", "--shm-size"),
    "stall check off": (
        {"environment": {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0"}},
        "warn", "a dead rank would hang the others", "unset HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    ),
    "read-only": (
        {"places": [Place("results", "results", 1 << 40, writable=False)]},
        "fail", "results cannot be written", "--results",
    ),
    "disk": (
        {"places": [Place("results", "results", 1 << 20, writable=True)]},
        "warn", "only 1.0 MiB are free", "df -h results",
    ),
    "data": (
        {"data": {"folder": "data/x", "problem": "train_items.npy: content has changed"}},
        "fail", "data data/x: train_items.npy: content has changed", "rm -r data/x",
    ),
    "time-out": (
        {"timeouts": [("ranks=1", 2000.0, 3600.0)]},
        "warn", "ranks=1: a run took 2000 s, and its time-out is 3600 s", "timeout_s to 6000",
    ),
    "unreadable": ({"unreadable": 3}, "warn", "3 stored files cannot be read", "ncf-bench check"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_each_thing_that_is_wrong_is_named_with_the_command_that_mends_it(name):
    changes, level, what, fix = WRONG[name]
    (found,) = findings(**changes)
    assert found.level == level
    assert what in found.what
    assert fix in found.fix


def test_what_the_driver_does_not_say_is_not_wrong():
    empty = dict.fromkeys(CARD) | {"uuid": "GPU-aaaa", "null_reasons": {}}
    assert findings(cards=[empty], state={}, shm_bytes=None, data=None) == []


def test_a_machine_without_gpus_is_no_finding():
    trainer = probe(gpus=0, horovod={**PROBE["horovod"], "nccl": False})
    assert findings(host=CPU, trainer=trainer, cards=[]) == []


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor_command, "read_host", lambda: CPU)

    def run(*words):
        code = main(["doctor", *words], trainer=STUB)
        return code, capsys.readouterr().out

    return run


def test_the_command_looks_at_this_machine_and_installation(doctor):
    code, out = doctor()
    assert code == 0
    assert "ok    the trainer starts: tensorflow 2.21.0" in out
    assert "ok    results can be written" in out
    assert not Path("results").exists(), "nothing is made"
    assert not Path("data").exists()


def test_with_a_suite_its_data_and_time_outs_are_looked_at(doctor, tmp_path):
    (tmp_path / "mine.toml").write_text('[data]\nsynthetic = "tiny"\n')
    assert "data synthetic tiny will be made by the first run" in doctor("mine.toml")[1]
    main(["mine.toml", "--no-report"], trainer=STUB)
    assert (
        "data/synthetic-tiny-seed1: every hash matches (0123456789abcdef)" in doctor("mine.toml")[1]
    )


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("tf32", "fail  fp32 computes with 10 mantissa bits instead of 23\n      fix: export"),
        ("no tensorflow", "fail  the trainer does not work: training needs TensorFlow"),
        ("rubbish", "fail  the trainer does not work: `ncf probe` printed no JSON"),
    ],
)
def test_a_failure_is_exit_code_1(word, text, doctor, monkeypatch):
    monkeypatch.setenv("STUB_PROBE", word)
    code, out = doctor()
    assert code == 1
    assert text in out


def test_data_that_must_be_downloaded_are_a_finding(doctor, tmp_path):
    (tmp_path / "big.toml").write_text('[data]\nsource = "ml-20m"\n')
    code, out = doctor("big.toml")
    assert code == 1
    assert "pass --data ml-20m.zip" in out


def test_json_for_programs(doctor):
    _, out = doctor("--json")
    assert {finding["level"] for finding in json.loads(out)["findings"]} <= {"ok", "warn", "fail"}
