"""What the installation says of itself, in a process of its own as `bench doctor` asks it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from toy import toy_folder

from ncf.environment import installed, source_hash

if TYPE_CHECKING:
    from pathlib import Path


def probe(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ncf", "probe", *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.tf
def test_the_probe_finds_the_precision_that_is_really_computed_and_checks_the_data(
    tmp_path: Path,
) -> None:
    toy_folder(tmp_path / "toy")
    found = probe("--data", str(tmp_path / "toy"))
    assert found["precision"]["fp32"]["mantissa_bits"] == 23
    assert found["precision"]["amp"]["effective"] == "amp"
    assert found["versions"]["code"] == installed()["code"]
    assert {"problem"} <= set(found["horovod"])
    assert found["data"]["problem"] is None

    items = tmp_path / "toy" / "train_items.npy"
    content = bytearray(items.read_bytes())
    content[-1] ^= 1
    items.write_bytes(content)
    assert "train_items.npy" in probe("--data", str(tmp_path / "toy"))["data"]["problem"]


def test_the_code_has_another_hash_when_a_file_or_its_name_changes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.py").write_text("y = 1\n")
    first = source_hash(tmp_path)
    assert first == source_hash(tmp_path)
    (tmp_path / "notes.txt").write_text("not code")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("nor this")
    assert source_hash(tmp_path) == first
    (tmp_path / "inner" / "b.py").write_text("y = 2\n")
    second = source_hash(tmp_path)
    (tmp_path / "inner" / "b.py").rename(tmp_path / "inner" / "c.py")
    assert len({first, second, source_hash(tmp_path)}) == 3
