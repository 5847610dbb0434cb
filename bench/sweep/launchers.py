"""Starting the trainer: its command line, its environment, and the launcher of its ranks."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.process.supervise import supervise
from bench.suite.trainer_options import TRAINER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.process.supervise import Ended, Stop
    from bench.suite.model import HostList

QUICK_HOROVODRUN = (sys.executable, "-m", "ncf.horovodrun")
"""Horovod's launcher, without importing TensorFlow for seconds to detect Gloo."""

_PASSED_ON = ("OMP_", "TF_", "HOROVOD_", "NCF_", "NCCL_", "CUDA_", "NVIDIA_", "XLA_", "PYTHON")
"""Prefixes of variables that mpirun passes on to other hosts."""


@dataclass(frozen=True)
class Job:
    """One attempt to be launched.

    Attributes:
        token: mark of all its processes.
        visible: UUIDs of the GPUs that it may use; empty for those of the sweep.
        cores: number of cores that it may use; None for all.
    """

    arguments: tuple[str, ...]
    ranks: int
    precision: str
    log: Path
    timeout_s: float
    token: str
    visible: tuple[str, ...] = ()
    cores: int | None = None
    command: str = "train"


class Launcher(Protocol):
    """A way to run the trainer; tests replace it by a fake."""

    def command(self, job: Job) -> tuple[str, ...]:
        """The command line of a job."""

    def launch(self, job: Job, stop: Stop, on_line: Callable[[str], None]) -> Ended:
        """Run a job to its end, its time-out or a stop; no process of it is left afterwards."""


@dataclass(frozen=True)
class LocalLauncher:
    """Runs jobs on this machine, or starts their ranks on `hosts` from here.

    Attributes:
        horovodrun: its path.
        trainer: the command of a rank.
        cores: number of cores of this machine.
        program: "auto" starts one rank as a plain process and several with horovodrun;
            "horovodrun" and "mpirun" also start a single rank with that program.
        mpirun: its path.
        hosts: hosts of jobs with several ranks; None for this one.
    """

    horovodrun: str | None
    trainer: tuple[str, ...] = TRAINER
    cores: int = 1
    program: str = "auto"
    mpirun: str | None = None
    hosts: HostList | None = None

    def command(self, job: Job) -> tuple[str, ...]:
        """`python -m ncf train ...` (or infer), under a launcher if there are several ranks.

        `horovodrun -np N [-H a:8,b:8] --gloo COMMAND`, or `mpirun -np N [-H a:8,b:8] ... COMMAND`
        with the options of Open MPI 4 and 5.
        """
        train = (*self.trainer, job.command, *job.arguments)
        if job.ranks == 1 and self.program == "auto":
            return train
        hosts = self.hosts if job.ranks > 1 else None
        where = ("-np", str(job.ranks), *(("-H", str(hosts)) if hosts else ()))
        if self.program == "mpirun":
            assert self.mpirun is not None, "a cell that needs mpirun was not available"
            return (self.mpirun, *where, *self._mpirun_options(job, hosts), *train)
        assert self.horovodrun is not None, "a cell that needs Horovod was not available"
        of_this_python = Path(self.horovodrun).parent == Path(sys.executable).parent
        program = QUICK_HOROVODRUN if of_this_python else (self.horovodrun,)
        return (*program, *where, "--gloo", *train)

    def _mpirun_options(self, job: Job, hosts: HostList | None) -> list[str]:
        options = ["--oversubscribe"]  # the plan decides how many ranks share the cores
        if hosts:
            names = {**os.environ, **environment({}, job.ranks, job.precision, self.cores)}
            passed = [n for n in names if n.startswith(_PASSED_ON)] + ["PATH", "LD_LIBRARY_PATH"]
            options = [word for n in sorted(passed) if n in names for word in ("-x", n)]
        if os.geteuid() == 0:  # Open MPI asks root, the user of containers, to confirm
            options.append("--allow-run-as-root")
        # ranks set their own threads; prefixes distinguish the ranks in the log
        return [*options, "--bind-to", "none", "--tag-output"]

    def launch(self, job: Job, stop: Stop, on_line: Callable[[str], None]) -> Ended:
        """Run a job; its output goes to its log, and line by line to on_line."""
        per_host = self.hosts.most_on_one(job.ranks) if self.hosts else job.ranks
        env = environment(os.environ, per_host, job.precision, job.cores or self.cores)
        if job.visible:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(job.visible)
        command = self.command(job)
        return supervise(command, env, job.log, job.timeout_s, stop, on_line, job.token)


def environment(base: Mapping[str, str], ranks: int, precision: str, cores: int) -> dict[str, str]:
    """A trainer's environment: defaults, then `base`, then what the precision needs. Pure.

    Args:
        base: the inherited environment.
        ranks: number of ranks that share a host.
        precision: fp32, tf32 or amp.
        cores: number of cores of that host.
    """
    threads = str(max(1, cores // ranks))
    env = {
        "OMP_NUM_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
        # ranks import TensorFlow at different speeds: 30 s, the default, is short on a busy machine
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "120",
        "HOROVOD_START_TIMEOUT": "120",
        "PYTHONFAULTHANDLER": "1",
        # device numbers as the driver counts them, so that telemetry reads the rank's GPU
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **base,
        "PYTHONUNBUFFERED": "1",
    }
    # 0 forbids TF32 in every NVIDIA library; unset leaves the choice to the trainer
    env.pop("NVIDIA_TF32_OVERRIDE", None)
    if precision == "fp32":
        env["NVIDIA_TF32_OVERRIDE"] = "0"
    return env
