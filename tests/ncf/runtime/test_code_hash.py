"""The hash of the code that made a record covers what its command reaches, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncf.runtime.code_hash import ENTRIES, INFER, TRAIN, code_hash, reachable
from ncf.runtime.environment import installed


def package(folder: Path, **files: str) -> Path:
    made = folder / "pkg"
    made.mkdir(exist_ok=True)
    for name, text in {"__init__": "", **files}.items():
        path = made / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    code_hash.cache_clear()
    return made


ROOM = dict.fromkeys(("training/__init__", "config/__init__", "cli/__init__"), "")
FILES = {
    **ROOM,
    "training/train": "from pkg.step import go\n",
    "config/train": "x = 1\n",
    "config/infer": "",
    "step": "from typing import TYPE_CHECKING\ndef go():\n    from pkg import late, absent\n",
    "late": "import pkg.deep as d\n",
    "deep": "import json, sys\n",
    "cli/infer": "from pkg import (\n    step,\n    folded,\n)\n",
    "folded": "",
    "exporter": "from pkg.training import train\n",
}


def test_every_form_of_import_is_followed(tmp_path) -> None:
    made = package(tmp_path, **FILES)
    assert reachable(("training.train",), made) == [
        *("__init__", "deep", "late", "step", "training.__init__", "training.train"),
    ]
    assert reachable(("cli.infer",), made) == [
        *("__init__", "cli.__init__", "cli.infer", "deep", "folded", "late", "step"),
    ]


@pytest.mark.parametrize(
    ("changed", "train_differs", "infer_differs"),
    [
        ("deep", True, True),
        ("config/train", True, False),
        ("config/__init__", True, True),
        ("folded", False, True),
        ("exporter", False, False),
        ("__init__", True, True),
        ("cli/__init__", False, True),
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


ROOMS = {
    "start": "from pkg.room import inner\nfrom pkg import third\n",
    "room/__init__": "",
    "room/inner": "import pkg.other.plain\nfrom pkg.other.deep import value\n",
    "other/__init__": "",
    "other/deep": "value = 1\n",
    "other/plain": "",
    "other/unused": "",
    "third/__init__": "from pkg.third.part import x\n",
    "third/part": "x = 1\n",
}


def test_modules_are_reached_with_the_packages_around_them(tmp_path) -> None:
    assert reachable(("start",), package(tmp_path, **ROOMS)) == [
        *("__init__", "other.__init__", "other.deep", "other.plain", "room.__init__"),
        *("room.inner", "start", "third.__init__", "third.part"),
    ]


def test_an_entry_that_does_not_exist_is_an_error(tmp_path) -> None:
    with pytest.raises(ValueError, match="gone is not a module of pkg"):
        reachable(("gone",), package(tmp_path, **FILES))


def test_training_code_covers_its_step_but_no_exporter_or_reader() -> None:
    found = set(reachable(ENTRIES[TRAIN]))
    assert {
        *("config.train", "training.setup", "sampling.sampler", "model.reference"),
        *("model.optimizer", "metrics", "model.fast_chunk"),
    } <= found
    assert not found & {"cli.export", "cli.prepare", "cli.infer", "readers.table", "readers.inputs"}


def test_inference_reaches_its_formulations_and_not_the_optimizer() -> None:
    found = set(reachable(ENTRIES[INFER]))
    assert {
        *("evaluation.precomputed", "evaluation.catalogue", "model.reference"),
        "config.infer",
    } <= found
    assert not found & {"cli.export", "model.optimizer", "training.train", "training.setup"}


def test_the_two_commands_tell_their_own_code() -> None:
    assert installed(TRAIN)["code"] != installed(INFER)["code"]
    assert installed()["code"] == installed(TRAIN)["code"]
