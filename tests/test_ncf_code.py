"""The hash of the code that made a record covers what its command reaches, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncf.code import ENTRIES, INFER, TRAIN, code_hash, reachable
from ncf.environment import installed


def package(folder: Path, **files: str) -> Path:
    made = folder / "pkg"
    made.mkdir(exist_ok=True)
    for name, text in {"__init__": "", **files}.items():
        (made / f"{name}.py").write_text(text)
    code_hash.cache_clear()
    return made


FILES = {
    "train": "from pkg.step import go\n",
    "config": "x = 1\n",
    "step": "from typing import TYPE_CHECKING\ndef go():\n    from pkg import late, absent\n",
    "late": "import pkg.deep as d\n",
    "deep": "import json, sys\n",
    "infer": "from pkg import (\n    step,\n    folded,\n)\n",
    "infer_config": "",
    "folded": "",
    "exporter": "from pkg import train\n",
}


def test_what_is_reached_is_found_through_every_form_of_import(tmp_path) -> None:
    made = package(tmp_path, **FILES)
    assert reachable(("train",), made) == ["__init__", "deep", "late", "step", "train"]
    assert reachable(("infer",), made) == [
        "__init__", "deep", "folded", "infer", "late", "step"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "train_differs", "infer_differs"),
    [
        ("deep", True, True),
        ("config", True, False),
        ("folded", False, True),
        ("exporter", False, False),
        ("__init__", True, True),
    ],
)
def test_a_change_shows_in_the_commands_that_reach_it(
    changed, train_differs, infer_differs, tmp_path
) -> None:
    made = package(tmp_path, **FILES)
    before = {name: code_hash(name, made) for name in (TRAIN, INFER)}
    package(tmp_path, **{**FILES, changed: "# other\n" + {"__init__": "", **FILES}[changed]})
    assert (code_hash(TRAIN, made) != before[TRAIN]) == train_differs
    assert (code_hash(INFER, made) != before[INFER]) == infer_differs


def test_training_reaches_its_defaults_and_its_step_but_no_exporter_or_reader_of_ratings() -> None:
    found = set(reachable(ENTRIES[TRAIN]))
    assert {"config", "session", "sampling", "step", "optimizer", "metrics"} <= found
    assert not found & {"export", "recommend", "infer", "prepare", "ratings"}


def test_inference_reaches_its_formulations_and_not_the_optimizer() -> None:
    found = set(reachable(ENTRIES[INFER]))
    assert {"folded", "ranking", "scorer", "step", "infer_config"} <= found
    assert not found & {"export", "optimizer", "train", "session"}


def test_the_two_commands_tell_their_own_code() -> None:
    assert installed(TRAIN)["code"] != installed(INFER)["code"]
    assert installed()["code"] == installed(TRAIN)["code"]
