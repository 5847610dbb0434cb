"""Ranks that are killed, raise, stall or freeze, one at a time, in every phase, with real Horovod.

Every job must end within a minute of the fault, as a typed failure that names the rank, with
nothing left running and all that was stored before untouched. The faults are planted from outside
(tests/support/faulty_trainer.py); the product knows nothing of them.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import faulty_trainer
import numpy as np
import pytest
from fault_sweeps import Sweeps, check
from paths import ROOT
from stub_world import processes_with, wait_until
from toy import toy_folder

from ncf import record

pytestmark = [
    pytest.mark.tf,
    pytest.mark.skipif(
        importlib.util.find_spec("horovod") is None and "CI" not in os.environ,
        reason="Horovod is not built: run scripts/build_horovod.py",
    ),
]


@pytest.mark.parametrize(
    "fault", ["kill:1:step", pytest.param("raise:0:evaluation", marks=pytest.mark.slow)]
)
def test_a_rank_that_is_killed_or_raises_ends_the_job_as_its_own_failure(
    fault: str, tmp_path: Path
) -> None:
    attempt, took = Sweeps(tmp_path).run(1, fault)
    assert check(fault, attempt, took) == []


def test_a_stalled_rank_shows_where_it_stands_and_ends_the_job(tmp_path: Path) -> None:
    fault = "stall:1:checkpoint"
    sweeps = Sweeps(tmp_path)
    attempt, took = sweeps.run(1, fault, NCF_STALL_SECONDS="10")
    assert check(fault, attempt, took) == []
    log = (tmp_path / "results" / "faults" / attempt["log"]).read_text()
    stack, _, rest = log.partition("ncf: error: rank 1 stalled")
    assert re.search(r"\[1\]<stderr>:.*faulty_trainer.py.* in strike", stack)
    assert "Process 1 exit" not in stack, "the rank speaks first, then it ends"
    assert "Process 1 exit" in rest


def hand_started(launcher: list[str], folder: Path, data: Path) -> subprocess.Popen[str]:
    """A long job that somebody started by hand; its output is in folder/out."""
    words = ["--data", str(data), "--batch_size", "512", "--factors", "8", "--layers", "32", "16"]
    words += ["8", "--topk", "5", "--seed", "1", "--epochs", "1000000", "--target", "1.0"]
    words += ["--checkpoint_dir", str(folder / "ck"), "--record", str(folder / "run.json")]
    with (folder / "out").open("w") as output:
        return subprocess.Popen(
            [*launcher, sys.executable, "-m", "ncf", "train", *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "FAULT_TEST": str(folder)},
            start_new_session=True,
        )


HORDE = ["-np", "2", "--gloo"]
QUICK = [sys.executable, "-m", "ncf.horovodrun", *HORDE]
HOROVODRUN = [str(Path(sys.executable).parent / "horovodrun"), *HORDE]


@pytest.mark.parametrize(
    ("launcher", "number"),
    [
        (QUICK, signal.SIGTERM),
        pytest.param(QUICK, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(HOROVODRUN, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(HOROVODRUN, signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_stopped_job_leaves_checkpoint_and_interrupted_record(
    launcher: list[str], number: signal.Signals, tmp_path: Path
) -> None:
    toy_folder(tmp_path / "data", users=61)
    job = hand_started(launcher, tmp_path, tmp_path / "data")
    try:
        until = time.monotonic() + 200
        while "epoch 4/" not in (tmp_path / "out").read_text():  # so that 3 has its checkpoint
            assert job.poll() is None, (tmp_path / "out").read_text()
            assert time.monotonic() < until
            time.sleep(0.1)
        job.send_signal(number)
        job.wait(60)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    said = (tmp_path / "out").read_text()
    assert job.returncode != 0, said
    # Python's tracker of shared resources, a child of Horovod's launcher, ends when it sees that
    # the launcher has: a moment later, more on a busy machine.
    assert wait_until(lambda: processes_with(f"FAULT_TEST={tmp_path}") == [], 5), said
    run = record.read_run(tmp_path / "run.json")
    assert run.status == "interrupted", said
    assert len(run.epochs) >= 3
    with np.load(tmp_path / "ck" / "last.npz") as checkpoint:
        assert json.loads(bytes(checkpoint["meta_json"]).decode())["epoch"] >= 3


FAULTS = [
    *(
        f"{kind}:{rank}:{phase}"
        for kind, rank, phase in itertools.product(
            faulty_trainer.KINDS, (0, 1), faulty_trainer.PHASES
        )
    ),
    "segv:0:step",
    "segv:1:evaluation",
]
"""50: 6 kinds on 2 ranks in 4 phases, and two more."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_faults_end_within_a_minute_each_typed_and_leave_nothing(tmp_path: Path) -> None:
    assert len(FAULTS) == 50
    todo: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    for item in enumerate(FAULTS, 2):
        todo.put(item)
    wrong: list[str] = []
    ends: list[float] = []

    def work(number: int) -> None:
        """Stalled jobs only wait, so some are under way at once; each in a folder of its own."""
        sweeps = Sweeps(tmp_path / f"{number}")
        good, _ = sweeps.run(1)
        if good["status"] != "ok":
            wrong.append(f"no fault: {good['status']} {good['failure']}")
        while not todo.empty():
            seed, fault = todo.get()
            try:
                attempt, took = sweeps.run(seed, fault)
            except Exception as error:
                wrong.append(f"{fault}: {type(error).__name__} {error}")
                continue
            ends.append(took)
            wrong.extend(check(fault, attempt, took))
            print(f"{fault}: {took:.1f} s: {attempt['failure']['message']}", flush=True)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert len(ends) == len(FAULTS)
