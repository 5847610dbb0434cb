"""Set-up in every state of a machine: which steps run, and what is said."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from set_up_clone import ROOT, Clone, a_clone, one_error_line  # noqa: F401 - a fixture


def test_a_first_set_up_makes_installs_builds_and_says_how_long_each_took(clone: Clone) -> None:
    done = clone.set_up()
    assert done.returncode == 0, done.stderr
    venv, pip, horovod = clone.steps()
    assert "--system-site-packages" not in venv
    assert "-e .[cpu]" in pip
    assert "constraints.txt" in pip
    assert "--flavour cpu" in horovod
    assert len(re.findall(r"took \d+ s", done.stdout)) == 3
    assert "horovod=ok" in clone.stamp.read_text()


def test_a_second_set_up_does_nothing(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    assert clone.set_up().stdout.startswith("set-up: ready")
    assert clone.steps() == []


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "constraints.txt", "scripts/horovod_recipe.py", "scripts/setup.sh"]
)
def test_a_changed_requirement_installs_again_into_the_same_environment(
    name: str, clone: Clone
) -> None:
    clone.set_up()
    clone.steps()
    with (clone.root / name).open("a") as file:
        file.write("\n# changed\n")
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["pip", "horovod"]


def test_the_development_tools_are_added_once_and_stay(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    clone.set_up("--dev")
    assert any("-e .[cpu,dev]" in line for line in clone.steps())
    clone.set_up("--dev")
    clone.set_up()
    assert clone.steps() == []
    (clone.root / "constraints.txt").write_text("")
    clone.set_up()
    assert any("-e .[cpu,dev]" in line for line in clone.steps())


def test_set_up_without_compiler_ends_well_and_retries_horovod_only(clone: Clone) -> None:
    assert clone.set_up(FAKE_HOROVOD="3").returncode == 0
    assert "horovod=missing" in clone.stamp.read_text()
    clone.steps()
    assert clone.set_up(FAKE_HOROVOD="3").returncode == 0
    assert clone.kinds() == ["horovod"]
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["horovod"]
    assert "horovod=ok" in clone.stamp.read_text()


def test_a_failed_build_is_an_error_that_names_the_way_on(clone: Clone) -> None:
    assert "NCF_BENCH_HOROVOD=skip" in one_error_line(clone.set_up(FAKE_HOROVOD="1"))
    assert not clone.stamp.exists()
    clone.steps()
    assert clone.set_up(NCF_BENCH_HOROVOD="skip").returncode == 0
    assert "horovod" not in clone.kinds()
    assert clone.set_up(NCF_BENCH_HOROVOD="skip").returncode == 0
    assert clone.kinds() == []
    clone.set_up()
    assert clone.kinds() == ["horovod"]


def test_an_interrupted_installation_is_made_anew(clone: Clone) -> None:
    assert clone.set_up(FAKE_PIP="1").returncode == 2
    assert not clone.stamp.exists()
    clone.steps()
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_an_environment_whose_python_is_gone_is_made_anew(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    (clone.root / ".venv/bin/python").unlink()
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_a_moved_clone_gets_a_new_environment(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_the_python_of_the_first_set_up_is_kept_when_none_is_named(clone: Clone) -> None:
    shutil.copy(clone.fakes / "python3", clone.fakes / "python3.12")
    clone.set_up(PYTHON="python3.12")
    clone.steps()
    assert clone.set_up().stdout.startswith("set-up: ready")
    assert clone.steps() == []
    clone.set_up(PYTHON="python3")
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_a_folder_that_set_up_did_not_make_is_left_alone(clone: Clone, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    line = one_error_line(clone.set_up(NCF_BENCH_VENV=str(theirs)))
    assert str(theirs) in line
    assert (theirs / "thesis.tex").exists()
    assert clone.steps() == []


def test_the_environment_goes_where_the_variable_says(clone: Clone, tmp_path: Path) -> None:
    assert clone.set_up(NCF_BENCH_VENV=str(tmp_path / "else where")).returncode == 0
    assert (tmp_path / "else where/bin/python").exists()
    assert not (clone.root / ".venv").exists()


def test_an_unknown_option_is_one_line(clone: Clone) -> None:
    assert "--dev" in one_error_line(clone.set_up("--devel"))


def test_a_python_that_is_not_there_is_one_line(clone: Clone) -> None:
    assert "PYTHON=python9" in one_error_line(clone.set_up(PYTHON="python9"))


def test_a_python_out_of_range_is_one_line_with_its_version(clone: Clone) -> None:
    old = clone.fakes / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.18\nexit 1\n')
    old.chmod(0o755)
    line = one_error_line(clone.set_up(PYTHON=str(old)))
    assert "Python 3.9.18" in line
    assert "3.10 to 3.13" in line


def test_a_python_without_venv_names_the_package(clone: Clone) -> None:
    said = "The virtual environment was not created: ensurepip is not available."
    assert "python3-venv" in one_error_line(clone.set_up(FAKE_VENV=said))
    assert not (clone.root / ".venv").exists()


@pytest.mark.skipif(not shutil.which("flock"), reason="no flock here")
def test_two_set_ups_at_once_do_the_work_once(clone: Clone) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NCF_BENCH_", "PYTHON"))}
    both = [
        subprocess.Popen(
            ["bash", str(clone.root / "scripts/setup.sh")],
            env=env | clone.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in both:
        child.communicate()
        assert child.returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_every_dependency_is_pinned() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    names = re.findall(r'^\s*(?:\w+ = \[)?"([A-Za-z0-9-]+)', project, flags=re.MULTILINE)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {line.split("==")[0] for line in pins.splitlines() if "==" in line}
    assert len(names) > 12
    assert set(names) <= pinned
