"""The Horovod build's recipe: its edits, its settings, and the key of a cached wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import build_horovod
import horovod_log
import horovod_recipe as recipe
import pytest


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
