"""The Horovod build: which wheel is taken, built, kept and checked, and what a failure says."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import build_horovod
import horovod_log
import horovod_tools as tools
import pytest


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


def test_failed_build_shows_the_first_compiler_error() -> None:
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
