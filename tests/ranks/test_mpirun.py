"""Two real ranks under Open MPI's mpirun, with a Horovod that was built without MPI."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
from fault_sweeps import Sweeps, check

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="Horovod is not built"),
]


@pytest.fixture
def sweeps(tmp_path: Path) -> Sweeps:
    made = Sweeps(tmp_path)
    made.suite.write_text(made.suite.read_text() + '[run]\nlauncher = "mpirun"\n')
    return made


def test_ranks_that_mpirun_started_train_together(sweeps: Sweeps) -> None:
    attempt, _ = sweeps.run(1)
    assert attempt["status"] == "ok", attempt["failure"]
    assert attempt["command"][0] == "mpirun"
    assert attempt["run"]["world_size"] == 2
    assert len(attempt["run"]["epochs"]) == 4


@pytest.mark.parametrize("fault", ["kill:1:step", "raise:1:evaluation", "freeze:1:checkpoint"])
def test_a_failure_under_mpirun_names_its_rank(fault: str, sweeps: Sweeps) -> None:
    attempt, took = sweeps.run(1, fault)
    assert check(fault, attempt, took) == []
