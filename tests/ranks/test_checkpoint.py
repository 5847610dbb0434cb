"""Checkpoints with two real ranks: the first writes and reads them, the others are told."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from toy import toy_folder

from ncf import record

pytestmark = [
    pytest.mark.tf,
    pytest.mark.skipif(
        importlib.util.find_spec("horovod") is None and "CI" not in os.environ,
        reason="Horovod is not built: run scripts/build_horovod.py",
    ),
]
# Each rank in a folder of its own, so that a path below it is another one for each.
APART = 'cd "$1-$HOROVOD_RANK" && shift && exec "$@"'


def two_ranks(folder: Path, *words: str) -> record.RunRecord:
    for rank in range(2):
        Path(f"{folder}-{rank}").mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "ncf.horovodrun",
        "-np",
        "2",
        "--gloo",
        "sh",
        "-c",
        APART,
        "sh",
    ]
    command += [str(folder), sys.executable, "-m", "ncf", "train", "--batch_size", "512"]
    command += ["--factors", "8", "--layers", "32", "16", "8", "--topk", "5", "--dropout", "0"]
    command += ["--seed", "1", "--record", "run.json", *words]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return record.read_run(Path(f"{folder}-0") / "run.json")


@pytest.mark.slow
def test_rank_1_neither_writes_a_checkpoint_nor_needs_to_see_one(tmp_path: Path) -> None:
    toy_folder(tmp_path / "data", users=61)
    data = ["--data", str(tmp_path / "data")]
    here = tmp_path / "rank"
    whole = two_ranks(here, *data, "--epochs", "4", "--checkpoint_dir", "whole")
    two_ranks(here, *data, "--epochs", "2", "--checkpoint_dir", "half")
    assert (tmp_path / "rank-0" / "half" / "last.npz").is_file()
    assert not list((tmp_path / "rank-1").rglob("*.npz"))
    resumed = two_ranks(here, *data, "--epochs", "4", "--load_checkpoint_path", "half/last.npz")
    assert [epoch.epoch for epoch in resumed.epochs] == [3, 4]
    losses = [epoch.loss for epoch in whole.epochs[2:]]
    assert [epoch.loss for epoch in resumed.epochs] == pytest.approx(losses, rel=1e-5)
