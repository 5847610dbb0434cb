"""Two real ranks under Horovod (Gloo): the same run as one rank on the same global batch.

Where Horovod was not built (no compiler) these are skipped, except in CI, where that is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy import toy_folder

from ncf import record

pytestmark = [
    pytest.mark.tf,
    pytest.mark.skipif(
        importlib.util.find_spec("horovod") is None and "CI" not in os.environ,
        reason="Horovod is not built: run scripts/build_horovod.py",
    ),
]
SMALL = ["--batch_size", "512", "--factors", "8", "--layers", "32", "16", "8", "--topk", "5"]
HOROVODRUN = [str(Path(sys.executable).parent / "horovodrun"), "-np", "2", "--gloo"]
QUICK = [sys.executable, "-m", "ncf.horovodrun", "-np", "2", "--gloo"]  # does not load TensorFlow


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("data") / "toy"
    toy_folder(folder, users=61)  # an odd number: the ranks' shares differ
    return str(folder)


def train(ranks: int, data: str, folder: Path, *words: str) -> record.RunRecord:
    path = folder / f"{ranks}.json"
    options = ["--data", data, *SMALL, "--seed", "1", "--epochs", "3", "--record", str(path)]
    if ranks == 1:  # in this process: starting TensorFlow again takes longer than the run
        from ncf.config.train import config_from_arguments
        from ncf.training import train as trainer

        assert trainer.run(config_from_arguments([*options, *words])) == 0
        return record.read_run(path)
    done = subprocess.run(
        [*QUICK, sys.executable, "-m", "ncf", "train", *options, *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return record.read_run(path)


def test_two_ranks_follow_the_loss_curve_of_one_rank(data: str, tmp_path: Path) -> None:
    # Samples and dropout masks depend on places in the global batch, which ranks only slice. The
    # only difference left is the order of float32 additions.
    one = train(1, data, tmp_path)
    replicated = ["--parallel", "replicated", "--checkpoint_dir", str(tmp_path / "ck")]
    two = train(2, data, tmp_path, *replicated)
    assert two.world_size == 2
    assert [e.steps for e in two.epochs] == [e.steps for e in one.epochs]
    assert [e.samples for e in two.epochs] == [e.samples for e in one.epochs]
    losses = [[e.loss for e in run.epochs] for run in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    rates = [[e.hr_at_k for e in run.epochs] for run in (one, two)]
    assert rates[1] == pytest.approx(rates[0], abs=1.5 / 61)
    assert two.dataset == one.dataset
    assert len(two.peak_memory_bytes_per_rank) == 2
    assert sorted(p.name for p in (tmp_path / "ck").iterdir()) == ["best.npz", "last.npz"]


def test_ranks_that_own_their_users_learn_alike_and_send_less(data: str, tmp_path: Path) -> None:
    folder = tmp_path / "ck"
    mixed = ["--amp", "--loss_scale", "dynamic"]
    one = train(1, data, tmp_path, *mixed)
    two = train(2, data, tmp_path, *mixed, "--checkpoint_dir", str(folder))
    assert two.config["parallel"] == "user-sharded"
    assert two.precision.effective == "amp"
    assert [e.samples for e in two.epochs] == [e.samples for e in one.epochs]
    assert two.epochs[-1].loss == pytest.approx(one.epochs[-1].loss, rel=0.05)
    sent = two.communication
    assert sent is not None
    # 40 items x (8 + 16), kernels 32 x 16 + 16 x 8, biases, output 16 + 1, and one number that
    # says whether a rank's own gradients are finite.
    assert sent.reduced_bytes_per_step == 4 * (40 * 24 + 640 + 24 + 17 + 1)
    assert len(sent.waiting_seconds_per_rank) == 2
    for waiting, stepping in zip(
        sent.waiting_seconds_per_rank, sent.step_seconds_per_rank, strict=True
    ):
        assert 0 < waiting < stepping
    # One rank continues from what two have written: all users' rows are there, in order.
    best = max(two.epochs, key=lambda epoch: epoch.hr_at_k or 0)
    load = ["--mode", "test", "--load_checkpoint_path", str(folder / "best.npz"), "--amp"]
    tested = train(1, data, tmp_path, *load)
    assert tested.epochs[0].hr_at_k == pytest.approx(best.hr_at_k, abs=1e-9)
    again = train(2, data, tmp_path, *load)
    assert again.epochs[0].hr_at_k == pytest.approx(best.hr_at_k, abs=1e-9)


def test_half_the_bytes_are_sent_as_float16_and_the_loss_curve_stays(
    data: str, tmp_path: Path
) -> None:
    whole = train(2, data, tmp_path)
    half = train(2, data, tmp_path, "--fp16_allreduce")
    assert [e.loss for e in half.epochs] == pytest.approx([e.loss for e in whole.epochs], rel=0.01)
    assert [e.loss for e in half.epochs] != [e.loss for e in whole.epochs]
    sent = [run.communication.reduced_bytes_per_step for run in (whole, half) if run.communication]
    # Eight tensors (two tables, two layers of two, an output of two) send their largest magnitude.
    assert sent[1] == sent[0] // 2 + 4 * 8


def test_a_mistake_ends_every_rank_with_one_clear_line(data: str, tmp_path: Path) -> None:
    command = [*HOROVODRUN, sys.executable, "-m", "ncf", "train", "--data", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0
    assert "none: no such folder" in done.stdout + done.stderr
    assert "Traceback (most recent call last)" not in done.stdout
