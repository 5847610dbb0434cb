"""What the Horovod build finds on a machine, and what a user without its tools reads."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import build_horovod
import horovod_tools as tools
import pytest

SCRIPT = Path(build_horovod.__file__)


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tensorflow_listed(tmp_path: Path) -> str:
    """A PYTHONPATH on which a TensorFlow distribution is found, though there may be none."""
    info = tmp_path / "listed" / "tensorflow_cpu-2.21.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow-cpu\nVersion: 2.21.0\n")
    return str(info.parent)


def build(path: str, pythonpath: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("CXX", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--flavour", "cpu", *arguments],
        env=env | {"PATH": path, "PYTHONPATH": pythonpath},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("broken", [False, True], ids=["none", "one that fails"])
def test_no_working_compiler_is_exit_3_and_one_line(
    broken: bool, tmp_path: Path, tensorflow_listed: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if broken:
        script(folder / "c++", "echo 'cc1plus: not found' >&2; exit 1")
    done = build(str(folder), tensorflow_listed, "--wheel-only")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    for part in ("apt-get install g++", "dnf install gcc-c++", "1 rank works without Horovod"):
        assert part in line


def test_without_tensorflow_it_says_what_to_install_first() -> None:
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPT)],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "has no TensorFlow" in line


def test_help_says_that_cuda_was_not_run() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, check=True
    )
    assert "NOT run it on a GPU" in done.stdout


def test_no_cuda_compiler_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOROVOD_CUDA_HOME", str(tmp_path))
    with pytest.raises(tools.ToolMissingError, match="HOROVOD_CUDA_HOME") as caught:
        tools.cuda_home()
    assert caught.value.code == 3


def test_the_cuda_toolkit_is_where_nvcc_says_not_where_its_wrapper_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOROVOD_CUDA_HOME", raising=False)
    script(tmp_path / "nvcc", "echo '#$ _SPACE_= ' >&2; echo '#$ _HERE_=/opt/cuda-12.5/bin' >&2")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert tools.cuda_home() == Path("/opt/cuda-12.5")


def test_the_nccl_link_stays_out_of_the_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    info = site / "nvidia_nccl_cu12-2.27.7.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.27.7\n"
    )
    (site / "nvidia/nccl/lib").mkdir(parents=True)
    (site / "nvidia/nccl/include").mkdir()
    (site / "nvidia/nccl/include/nccl.h").touch()
    (site / "nvidia/nccl/lib/libnccl.so.2").touch()
    monkeypatch.syspath_prepend(site)
    for name in ("HOROVOD_NCCL_HOME", "HOROVOD_NCCL_LIB"):
        monkeypatch.delenv(name, raising=False)
    home = Path(tools.nccl_settings(tmp_path / "scratch")["HOROVOD_NCCL_HOME"])
    assert (home / "lib/libnccl.so").resolve() == (site / "nvidia/nccl/lib/libnccl.so.2")
    assert (home / "include/nccl.h").is_file()
    assert [path.name for path in (site / "nvidia/nccl/lib").iterdir()] == ["libnccl.so.2"]


def test_the_users_own_nccl_is_left_to_cmake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOROVOD_NCCL_HOME", "/opt/nccl")
    assert tools.nccl_settings(tmp_path) == {}


@pytest.mark.tf
@pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="Horovod is not built here")
@pytest.mark.slow  # it imports every framework, one process after the other: 20 s
def test_the_horovod_of_this_environment_tells_its_build() -> None:
    said = tools.check_build()
    assert said.startswith("Horovod v0.28.1:")
    assert "[X] TensorFlow" in said
    assert "[X] Gloo" in said


def test_a_horovod_that_cannot_tell_its_build_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = script(
        tmp_path / "python", "echo trace >&2; echo 'ImportError: no horovod' >&2; exit 1"
    )
    monkeypatch.setattr(sys, "executable", str(broken))
    assert tools.check_build() == "horovodrun --check-build: ImportError: no horovod"


@pytest.mark.slow
@pytest.mark.tf
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no CUDA compiler here")
def test_the_cuda_flavour_compiles_and_its_wheel_knows_nccl(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "-qq", "install", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, "nvidia-nccl-cu12"], check=True)
    done = subprocess.run(
        [
            *(sys.executable, str(SCRIPT)),
            *("--flavour", "cuda", "--wheel-only", "--force"),
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(site),
            "NCF_BENCH_CACHE": str(tmp_path / "cache"),
            "HOROVOD_BUILD_CUDA_CC_LIST": "80",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(done.stdout.splitlines()[-1]) as wheel:
        (library,) = [name for name in wheel.namelist() if "tensorflow/mpi_lib" in name]
        code = wheel.read(library)
    assert b"ncclAllReduce" in code
    assert b"libnccl.so" in code
