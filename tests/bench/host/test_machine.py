from __future__ import annotations

import builtins
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench.host import machine as host
from bench.host.machine import Gpu, Host, read_gpus, visible, why_not

CPU = Host("cpu", cores=2, memory_bytes=1, no_gpus="no NVIDIA driver answers", horovodrun="/h")
A100 = Gpu("NVIDIA A100", "GPU-aaaa", 40 << 30, (8, 0))
V100 = Gpu("Tesla V100", "GPU-bbbb", 16 << 30, (7, 0))


class NVMLError(Exception):
    pass


def fake_nvml(cards=(), *, init=None, count=None, **answers):
    """An NVML with one entry per card; a question missing from it is not supported."""

    def ask(question):
        def answer(handle):
            if question not in handle:
                raise NVMLError("Not Supported")
            return handle[question]

        return answer

    def start():
        if init:
            raise NVMLError(init)

    def number():
        if count:
            raise NVMLError(count)
        return len(cards)

    def by_index(index):
        if cards[index] is None:
            raise NVMLError("GPU is lost")
        return cards[index]

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: answers.get("driver", "535.1"),
        nvmlDeviceGetCount=number,
        nvmlDeviceGetHandleByIndex=by_index,
        nvmlDeviceGetName=ask("name"),
        nvmlDeviceGetUUID=ask("uuid"),
        nvmlDeviceGetMemoryInfo=ask("memory"),
        nvmlDeviceGetCudaComputeCapability=ask("capability"),
    )


CARD = {
    "name": "NVIDIA A100",
    "uuid": "GPU-aaaa",
    "memory": SimpleNamespace(total=40 << 30),
    "capability": [8, 0],
}


def test_gpus_are_described_by_the_driver():
    assert read_gpus(fake_nvml([CARD])) == ((A100,), "535.1", None)


def test_an_old_library_answers_in_bytes():
    nvml = fake_nvml([{**CARD, "name": b"NVIDIA A100", "uuid": b"GPU-aaaa"}], driver=b"535.1")
    assert read_gpus(nvml) == ((A100,), "535.1", None)


def test_a_question_that_is_not_supported_is_none_and_the_rest_is_kept():
    (gpu,), _, _ = read_gpus(fake_nvml([{"name": "GB10", "capability": (12, 1)}]))
    assert gpu == Gpu("GB10", None, None, (12, 1))


def test_a_card_that_fell_off_the_bus_is_still_counted():
    (lost, fine), _, _ = read_gpus(fake_nvml([None, CARD]))
    assert lost.name == "GPU 0 (GPU is lost)"
    assert fine == A100


def test_no_library_no_driver_and_no_gpu_are_three_reasons(monkeypatch):
    real = builtins.__import__

    def without_pynvml(name, *args, **kwargs):
        if name == "pynvml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without_pynvml)
        patch.delitem(sys.modules, "pynvml", raising=False)
        no_library = read_gpus()
    no_driver = read_gpus(fake_nvml(init="NVML Shared Library Not Found"))
    no_gpu = read_gpus(fake_nvml([]))
    assert no_library == ((), None, "the library nvidia-ml-py is not installed")
    assert no_driver == ((), None, "no NVIDIA driver answers (NVML Shared Library Not Found)")
    assert no_gpu == ((), "535.1", "NVIDIA driver 535.1 finds no GPU")


def test_a_driver_that_answers_and_then_fails_is_a_reason_too():
    gpus, _, reason = read_gpus(fake_nvml([CARD], count="Unknown Error"))
    assert (gpus, reason) == ((), "the NVIDIA driver does not list its GPUs (Unknown Error)")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (A100, V100)),
        ("0,1", (A100, V100)),
        ("1,0", (V100, A100)),
        ("1", (V100,)),
        ("GPU-bb", (V100,)),
        (" 0 , GPU-bbbb ", (A100, V100)),
        ("0,-1,1", (A100,)),
        ("0,7,1", (A100,)),
        ("0,0", (A100,)),
        ("MIG-1", (Gpu("MIG slice MIG-1", "MIG-1", card="unknown"),)),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(value, expected):
    assert visible((A100, V100), value) == (expected, None)


@pytest.mark.parametrize("value", ["", "-1", "7", "GPU-", "GPU-cccc", "none"])
def test_hidden_gpus_are_never_taken_for_the_first(value):
    gpus, reason = visible((A100, V100), value)
    assert gpus == ()
    assert reason == f"CUDA_VISIBLE_DEVICES={value!r} hides all 2 GPUs"


@pytest.mark.parametrize(
    ("gpus", "ranks", "precision", "reason"),
    [
        ((), 1, "fp32", None),
        ((), 2, "amp", None),
        ((), 3, "fp32", "needs 3 GPUs, or 3 cores; no GPU (no NVIDIA driver answers), 2 cores"),
        ((), 1, "tf32", "TF32 needs a GPU: no NVIDIA driver answers"),
        ((A100,), 1, "tf32", None),
        ((V100,), 1, "tf32", "TF32 needs compute capability 8.0 or more; Tesla V100 has 7.0"),
        ((A100, V100), 1, "tf32", None),
        ((A100, V100), 2, "tf32", "TF32 needs compute capability 8.0 or more; Tesla V100 has 7.0"),
        ((A100,), 8, "fp32", "8 ranks, 1 GPU"),
        ((Gpu("new"),), 1, "tf32", None),
    ],
)
def test_a_cell_runs_or_has_a_reason(gpus, ranks, precision, reason):
    machine = Host("cpu", 2, 1, gpus=gpus, no_gpus=CPU.no_gpus, horovodrun="/h")
    assert why_not(machine, ranks, precision) == reason


def test_several_ranks_need_horovod_and_one_does_not():
    machine = Host("cpu", 2, 1, no_gpus="none", no_horovod="not installed for this Python")
    assert why_not(machine, 1, "fp32") is None
    assert why_not(machine, 2, "fp32") == "2 ranks need Horovod: not installed for this Python"


def test_horovod_is_found_without_being_imported(monkeypatch, tmp_path):
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(host.sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.find_horovodrun() == (None, "installed, but its horovodrun is not found")
    (tmp_path / "horovodrun").write_text("#!/bin/sh\n")
    (tmp_path / "horovodrun").chmod(0o755)
    assert host.find_horovodrun() == (str(tmp_path / "horovodrun"), None)


def test_without_horovod_the_reason_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(host.importlib.util, "find_spec", lambda _: None)
    path, reason = host.find_horovodrun()
    assert path is None
    assert "run_benchmarks.sh" in reason


def test_looking_at_the_machine_loads_no_framework():
    # Asking TensorFlow for devices takes hold of all GPUs before ranks can pin theirs.
    code = (
        "import sys; from bench.host.machine import read_host; read_host();"
        "print(sorted({'tensorflow', 'horovod', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_this_machine_has_a_processor_cores_and_memory():
    machine = host.read_host()
    assert machine.cpu_model
    assert machine.cores >= 1
    assert machine.memory_bytes > 2**26
    assert bool(machine.gpus) == (machine.no_gpus is None)


def test_the_record_embeds_no_path_of_the_machine():
    facts = Host("cpu", 2, 1, gpus=(A100,), horovodrun="/home/me/bin/horovodrun").to_dict()
    assert "/home/me" not in str(facts)
    assert facts["gpus"][0]["name"] == "NVIDIA A100"
    assert set(facts) >= {"cpu_model", "cores", "memory_bytes", "gpus", "driver", "machine_id"}


def test_a_container_limits_cores_and_memory(monkeypatch):
    files = {
        "/sys/fs/cgroup/cpu.max": "150000 100000",
        "/sys/fs/cgroup/memory.max": "1048576",
    }
    monkeypatch.setattr(host, "_text", lambda path: files.get(path, ""))
    memory = SimpleNamespace(total=8 << 30)
    monkeypatch.setattr(host.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert host._cores() == 2
    assert host._memory_bytes() == 1048576
    files["/sys/fs/cgroup/cpu.max"] = "max 100000"
    files["/sys/fs/cgroup/memory.max"] = "max"
    assert host._cores() == 64
    assert host._memory_bytes() == 8 << 30


def test_the_machines_name_is_made_once_and_only_when_asked(tmp_path):
    results = tmp_path / "results"
    assert host.machine_id(results, create=False) is None
    assert not results.exists()
    name = host.machine_id(results, create=True)
    assert len(name) == 16
    assert host.machine_id(results, create=True) == host.machine_id(results, create=False) == name
