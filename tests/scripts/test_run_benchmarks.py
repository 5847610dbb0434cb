"""Start by run_benchmarks.sh: what it passes on; and that every script can be started."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from set_up_clone import ROOT, Clone, a_clone  # noqa: F401 - a fixture


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_needs_no_set_up(word: str, tmp_path: Path) -> None:
    alone = tmp_path / "run_benchmarks.sh"
    shutil.copy(ROOT / "run_benchmarks.sh", alone)
    done = subprocess.run(["bash", str(alone), word], capture_output=True, text=True, check=True)
    assert "./run_benchmarks.sh dgx --data ml-20m.zip" in done.stdout
    assert "NCF_BENCH_VENV" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run_benchmarks.sh"]


def test_without_arguments_the_smoke_suite_runs(clone: Clone) -> None:
    done = clone.start("run_benchmarks.sh")
    assert done.returncode == 0
    assert clone.steps()[-1].endswith(" -m bench run smoke")


def test_arguments_pass_through_and_paths_keep_their_folder(clone: Clone) -> None:
    clone.start("run_benchmarks.sh", "dgx", "--data", "ml-20m.zip")
    assert clone.steps()[-1] == f"bench {clone.fakes} -m bench dgx --data ml-20m.zip"


def test_standard_output_is_the_benchmarks_own(clone: Clone) -> None:
    assert clone.start("run_benchmarks.sh").stdout == "table\n"


@pytest.mark.parametrize("code", [0, 2, 7])
def test_the_exit_code_is_the_benchmarks(code: int, clone: Clone) -> None:
    assert clone.start("run_benchmarks.sh", "plan", FAKE_BENCH=str(code)).returncode == code


def test_a_failed_set_up_starts_nothing(clone: Clone) -> None:
    done = clone.start("run_benchmarks.sh", FAKE_PIP="1")
    assert done.returncode == 2
    assert clone.kinds() == ["venv", "pip"]


def test_a_link_to_the_script_finds_its_clone(clone: Clone, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "benchmarks"
    link.parent.mkdir()
    link.symlink_to(clone.root / "run_benchmarks.sh")
    clone.root, script = link.parent, link.name
    assert clone.start(script, "plan").returncode == 0
    assert clone.steps()[-1].endswith("-m bench plan")


@pytest.mark.parametrize("name", ["run_benchmarks.sh", "scripts/setup.sh", ".ci/run"])
def test_the_scripts_parse_and_can_be_started(name: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / name)], check=True)
    assert os.access(ROOT / name, os.X_OK)


def test_make_lists_every_target_with_what_it_does() -> None:
    if not shutil.which("make"):
        pytest.skip("no make here")
    done = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory"],
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = "install lint type test test-all bench-smoke report clean"
    assert set(wanted.split()) <= {line.split()[0] for line in done.stdout.splitlines() if line}
