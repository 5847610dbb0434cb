"""The Horovod build: the recipe's edits, its cache key, and what a user without tools reads."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import build_horovod
import horovod_log
import horovod_recipe as recipe
import horovod_tools as tools
import pytest

SCRIPT = Path(build_horovod.__file__)


# --- the recipe --------------------------------------------------------------------------------


def test_tensorflow_2_15_needs_no_change_to_its_sources() -> None:
    assert recipe.edits("2.15.1", (3, 11), "cpu") == (recipe.RELOCATABLE,)


@pytest.mark.parametrize("version", ["2.16.1", "2.19.0", "2.21.0", "2.17.0+nv25.2"])
def test_later_releases_drop_the_xla_ops(version: str) -> None:
    assert recipe.NO_XLA_OPS in recipe.edits(version, (3, 11), "cpu")
    assert recipe.STREAM_ACCESSOR not in recipe.edits(version, (3, 11), "cpu")


def test_cuda_replaces_the_stream_accessor_from_2_16_on() -> None:
    assert recipe.STREAM_ACCESSOR in recipe.edits("2.21.0", (3, 11), "cuda")
    assert recipe.STREAM_ACCESSOR not in recipe.edits("2.15.1", (3, 11), "cuda")


def test_python_3_12_gets_rid_of_distutils() -> None:
    assert recipe.NO_DISTUTILS in recipe.edits("2.21.0", (3, 12), "cpu")
    assert recipe.NO_DISTUTILS not in recipe.edits("2.21.0", (3, 11), "cpu")


ALL_EDITS = {
    edit
    for version in ("2.15.1", "2.21.0")
    for flavour in ("cpu", "cuda")
    for edit in recipe.edits(version, (3, 13), flavour)
}


@pytest.mark.parametrize("edit", sorted(ALL_EDITS, key=lambda e: e.why), ids=lambda e: e.path)
def test_an_edit_changes_its_text_and_nothing_else(edit: recipe.Edit) -> None:
    assert edit.apply(f"before\n{edit.old}\nafter\n") == f"before\n{edit.new}\nafter\n"


@pytest.mark.parametrize("copies", [0, 2])
def test_an_edit_that_does_not_fit_exactly_once_is_an_error(copies: int) -> None:
    edit = recipe.NO_DISTUTILS
    with pytest.raises(recipe.RecipeError, match=f"occurs {copies} times.*0.28.1") as caught:
        edit.apply(edit.old * copies)
    assert "\n" not in str(caught.value)
    assert edit.path in str(caught.value)


def test_the_build_takes_over_no_stray_horovod_or_make_setting() -> None:
    user = {
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_CUDA_HOME": "/opt/cuda",
        "MAKEFLAGS": " -j --jobserver-auth=3,4",
        "MAKELEVEL": "1",
        "CXXFLAGS": "-O1",
        "PATH": "/bin",
    }
    env = recipe.environment(user, "cpu", 3)
    assert "HOROVOD_WITH_MPI" not in env
    assert "MAKELEVEL" not in env
    assert env["HOROVOD_CUDA_HOME"] == "/opt/cuda"
    assert env["MAKEFLAGS"] == "-j3"
    assert env["CXXFLAGS"] == "-include cstdint -O1"
    assert env["HOROVOD_WITHOUT_MPI"] == "1"
    assert "HOROVOD_GPU_OPERATIONS" not in env
    assert recipe.environment(user, "cuda", 3)["HOROVOD_GPU_OPERATIONS"] == "NCCL"


def key(**changes: object) -> str:
    facts: dict[str, object] = {
        "tensorflow": "2.21.0",
        "python_tag": "cpython-311",
        "platform": "linux-x86_64",
        "flavour": "cpu",
        "changes": recipe.edits("2.21.0", (3, 11), "cpu"),
        "settings": {},
    }
    return recipe.wheel_key(**(facts | changes))  # type: ignore[arg-type]


def test_the_key_of_a_wheel_is_stable_and_readable() -> None:
    assert key() == key()
    assert key().startswith("horovod-0.28.1-tf2.21.0-cpython-311-linux-x86_64-cpu-")


@pytest.mark.parametrize(
    "change",
    [
        {"tensorflow": "2.20.0"},
        {"python_tag": "cpython-312"},
        {"platform": "linux-aarch64"},
        {"flavour": "cuda"},
        {"changes": ()},
        {"changes": (recipe.NO_XLA_OPS,)},
        {"settings": {"HOROVOD_BUILD_CUDA_CC_LIST": "80"}},
    ],
)
def test_another_fact_or_an_edited_recipe_is_another_wheel(change: dict[str, object]) -> None:
    assert key(**change) != key()


def test_the_key_is_one_folder_name() -> None:
    assert "/" not in key(tensorflow="2.17.0+nv25.2/../x")


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        ("cmake version 3.25.1", True),
        ("cmake version 3.18.0", True),
        ("cmake version 3.17.5", False),
        ("cmake version 4.0.2", False),
        ("pyenv: cmake: command not found", False),
    ],
)
def test_cmake_4_and_very_old_ones_do_not_fit(said: str, fits: bool) -> None:
    assert recipe.cmake_fits(said) is fits


@pytest.mark.parametrize(
    ("requested", "distribution", "gpu", "flavour"),
    [
        ("auto", "tensorflow", True, "cuda"),
        ("auto", "tensorflow", False, "cpu"),
        ("auto", "tensorflow-cpu", True, "cpu"),
        ("cuda", "tensorflow-cpu", False, "cuda"),
        ("cpu", "tensorflow", True, "cpu"),
    ],
)
def test_the_flavour_follows_the_gpu_and_the_tensorflow(
    requested: str, distribution: str, gpu: bool, flavour: str
) -> None:
    assert recipe.flavour_for(requested, distribution, gpu=gpu) == flavour


# --- what the machine has ----------------------------------------------------------------------


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


# --- the wheel's way ---------------------------------------------------------------------------


def options(**changes: bool) -> argparse.Namespace:
    values = dict.fromkeys(("force", "wheel_only", "check", "keep_build"), False)
    return argparse.Namespace(flavour="cpu", constraint=None, **(values | changes))


@pytest.fixture
def bench_of_fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A machine with TensorFlow, a compiler and an empty cache; calls are noted, none is real."""
    calls: list[str] = []
    monkeypatch.setenv("NCF_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build_horovod, "installed_tensorflow", lambda: ("tensorflow", "2.21.0"))
    monkeypatch.setattr(tools, "compiler", lambda: ["c++"])
    monkeypatch.setattr(tools, "gpu_listed", lambda: False)
    monkeypatch.setattr(build_horovod, "install", lambda wheel, pins: calls.append("install"))

    def fake_build(scratch: Path, *_: object) -> Path:
        calls.append("build")
        path = scratch / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
        path.write_bytes(b"wheel")
        return path

    monkeypatch.setattr(build_horovod, "build", fake_build)
    return calls


STATE = {"horovod": "0.28.1", "tensorflow": "2.21.0", "gloo": True, "nccl": False}


def answers(monkeypatch: pytest.MonkeyPatch, *states: dict[str, object] | None) -> None:
    """What the environment says of its Horovod, question by question."""
    queue = [(state, "" if state else "undefined symbol") for state in states]
    monkeypatch.setattr(build_horovod, "installed_horovod", lambda: queue.pop(0))
    monkeypatch.setattr(build_horovod, "usable", lambda state, *_: state["tensorflow"] == "2.21.0")


def test_a_horovod_that_fits_is_kept(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, STATE)
    assert build_horovod.run(options()) == 0
    assert bench_of_fakes == []


def test_a_horovod_for_another_tensorflow_is_replaced(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, STATE | {"tensorflow": "2.20.0"}, STATE)
    assert build_horovod.run(options()) == 0
    assert bench_of_fakes == ["build", "install"]


def test_the_second_environment_takes_the_cached_wheel(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, None, STATE, None, STATE)
    assert build_horovod.run(options()) == 0
    assert build_horovod.run(options()) == 0
    assert bench_of_fakes == ["build", "install", "install"]
    assert [p.suffix for p in (tmp_path / "cache").rglob("*") if p.is_file()] == [".whl"]


def test_a_cached_wheel_that_does_not_import_is_built_afresh(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, None, STATE, None, None, STATE)
    assert build_horovod.run(options()) == 0
    assert build_horovod.run(options()) == 0
    assert bench_of_fakes == ["build", "install", "install", "build", "install"]


def test_force_builds_although_a_wheel_is_cached(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, STATE, STATE)
    assert build_horovod.run(options(force=True)) == 0
    assert build_horovod.run(options(force=True)) == 0
    assert bench_of_fakes == ["build", "install", "build", "install"]


def test_wheel_only_installs_nothing(
    bench_of_fakes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build_horovod.run(options(wheel_only=True)) == 0
    assert bench_of_fakes == ["build"]
    assert Path(capsys.readouterr().out.splitlines()[-1]).is_file()


def test_a_fresh_build_that_does_not_import_is_an_error(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, None, None)
    with pytest.raises(tools.BuildError, match="does not import"):
        build_horovod.run(options())


def test_check_builds_nothing_and_gives_the_reason(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, None)
    with pytest.raises(tools.BuildError, match="undefined symbol"):
        build_horovod.run(options(check=True))
    assert bench_of_fakes == []


def test_check_shows_what_horovodrun_says_of_its_build(
    bench_of_fakes: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, STATE, STATE)
    monkeypatch.setattr(tools, "check_build", lambda: "Available Controllers:\n    [X] Gloo")
    assert build_horovod.run(options(check=True)) == 0
    assert "[X] Gloo" in capsys.readouterr().out
    assert build_horovod.run(options()) == 0
    assert "[X] Gloo" not in capsys.readouterr().out, "only where it was asked for"
    assert bench_of_fakes == []


@pytest.mark.tf
@pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="Horovod is not built here")
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


def test_without_a_writable_cache_the_wheel_is_used_where_it_is(tmp_path: Path) -> None:
    wheel = tmp_path / "horovod.whl"
    wheel.write_bytes(b"wheel")
    (tmp_path / "file").touch()
    assert build_horovod.put_away(wheel, tmp_path / "file" / "shelf") == wheel


def test_a_failing_build_step_is_one_line_with_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "build.log"
    command = [sys.executable, "-c", "print('mpi_ops.cc:1: error: no'); raise SystemExit(4)"]
    with pytest.raises(tools.BuildError, match=f"exit code 4; whole log: {log}"):
        horovod_log.logged(command, log, os.environ)
    assert "mpi_ops.cc:1: error: no" in capsys.readouterr().err


def test_a_failed_build_shows_the_compilers_first_error_not_pythons_last_words() -> None:
    lines = [f"[{n}%] Building" for n in range(50)]
    lines += ["mpi_ops.cc:64: fatal error: stream.h: No such file", "make: *** Error 1"]
    lines += [f"  File setup.py, line {n}" for n in range(40)]
    shown = horovod_log.gist(lines)
    assert shown[2].startswith("mpi_ops.cc:64")
    assert len(shown) == 20
    assert horovod_log.gist(lines[:50]) == lines[30:50]


def test_the_cache_follows_its_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NCF_BENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert horovod_log.cache_folder() == tmp_path / "ncf-bench"
    monkeypatch.setenv("NCF_BENCH_CACHE", str(tmp_path / "mine"))
    assert horovod_log.cache_folder() == tmp_path / "mine"


@pytest.mark.slow
def test_every_edit_fits_the_released_source(tmp_path: Path) -> None:
    tools_folder = tmp_path / "tools"
    log = tmp_path / "log"
    pip = [sys.executable, "-m", "pip", "-qq"]
    install = [*pip, "install", "--target", str(tools_folder), *recipe.BUILD_NEEDS]
    horovod_log.logged(install, log, os.environ)
    env = os.environ | {"PYTHONPATH": str(tools_folder)}
    archive = build_horovod.fetch_source(tmp_path, pip, log, env)
    source = build_horovod.unpack(archive, tmp_path)
    for edit in ALL_EDITS:
        path = source / edit.path
        path.write_text(edit.apply(path.read_text(encoding="utf-8")), encoding="utf-8")


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
