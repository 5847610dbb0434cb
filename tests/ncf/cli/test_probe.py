"""What the installation says of itself, in a process of its own as `bench doctor` asks it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from toy import toy_folder

from ncf.runtime.environment import installed

if TYPE_CHECKING:
    from pathlib import Path


def probe(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ncf", "probe", *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.tf
def test_probe_measures_the_real_precision_and_checks_the_data(
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
