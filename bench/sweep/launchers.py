"""Starting the trainer as a process, and ending it: the seam behind which tests put a fake."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.process.supervise import Ended, Stop, supervise
from bench.suite.model import HostList
from bench.suite.trainer_options import TRAINER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.suite.model import HostList


QUICK_HOROVODRUN = (sys.executable, "-m", "ncf.horovodrun")
"""Horovod's launcher without the seconds in which it imports TensorFlow to look for Gloo."""


@dataclass(frozen=True)
class Job:
    """One attempt to be launched.

    Attributes:
        token: marks all its processes.
        visible: UUIDs of the GPUs that it may use; empty for those of the sweep.
        cores: cores that it may use; None for all.
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
    """What the sweep needs of a way to run the trainer."""

    def command(self, job: Job) -> tuple[str, ...]:
        """The command line of a job."""

    def launch(self, job: Job, stop: Stop, on_line: Callable[[str], None]) -> Ended:
        """Run it to its end, its timeout or a stop; nothing of it is left afterwards."""


@dataclass(frozen=True)
class LocalLauncher:
    """Runs on this machine, or starts the ranks on `hosts` from here.

    Attributes:
        horovodrun: its path; that of this Python's Horovod is started without detours.
        trainer: the command of a rank.
        cores: of this machine.
        program: "auto" starts one rank as a plain process and several with horovodrun;
            "horovodrun" and "mpirun" start one with it, too.
        mpirun: its path.
        hosts: where several ranks run, if not here.
    """

    horovodrun: str | None
    trainer: tuple[str, ...] = TRAINER
    cores: int = 1
    program: str = "auto"
    mpirun: str | None = None
    hosts: HostList | None = None

    def command(self, job: Job) -> tuple[str, ...]:
        """`python -m ncf train ...` (or infer), under a launcher when there are several ranks."""
        train = (*self.trainer, job.command, *job.arguments)
        if job.ranks == 1 and self.program == "auto":
            return train
        hosts = self.hosts if job.ranks > 1 else None
        if self.program == "mpirun":
            assert self.mpirun is not None, "a cell that needs mpirun was not available"
            names = {**os.environ, **environment({}, job.ranks, job.precision, self.cores)}
            root = os.geteuid() == 0
            return mpirun(self.mpirun, job.ranks, hosts, train, names, root=root)
        assert self.horovodrun is not None, "a cell that needs Horovod was not available"
        beside = Path(self.horovodrun).parent == Path(sys.executable).parent
        program = QUICK_HOROVODRUN if beside else (self.horovodrun,)
        return horovodrun(program, job.ranks, hosts, train)

    def launch(self, job: Job, stop: Stop, on_line: Callable[[str], None]) -> Ended:
        """Run the job; its output goes to its log, and line by line to on_line."""
        together = self.hosts.most_on_one(job.ranks) if self.hosts else job.ranks
        env = environment(os.environ, together, job.precision, job.cores or self.cores)
        if job.visible:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(job.visible)
        return supervise(
            self.command(job), env, job.log, job.timeout_s, stop, on_line, token=job.token
        )


_FOR_THE_RANKS = ("OMP_", "TF_", "HOROVOD_", "NCF_", "NCCL_", "CUDA_", "NVIDIA_", "XLA_", "PYTHON")


_ALSO = ("PATH", "LD_LIBRARY_PATH")


def horovodrun(
    program: Sequence[str], ranks: int, hosts: HostList | None, train: Sequence[str]
) -> tuple[str, ...]:
    """`horovodrun -np N [-H a:8,b:8] --gloo COMMAND`."""
    where = ("-H", str(hosts)) if hosts else ()
    return (*program, "-np", str(ranks), *where, "--gloo", *train)


def mpirun(
    program: str,
    ranks: int,
    hosts: HostList | None,
    train: Sequence[str],
    environment: Iterable[str],
    *,
    root: bool,
) -> tuple[str, ...]:
    """`mpirun -np N [-H a:8,b:8] ... COMMAND`, in the words of Open MPI 4 and 5.

    Args:
        program: mpirun.
        ranks: number of processes.
        hosts: where, if not here.
        train: the command of a rank.
        environment: names of all variables; those that matter are passed on to other hosts.
        root: Open MPI wants to be asked twice by root, as which containers run.
    """
    words = [program, "-np", str(ranks)]
    if hosts:
        words += ["-H", str(hosts)]
        for name in sorted(environment):
            if name.startswith(_FOR_THE_RANKS) or name in _ALSO:
                words += ["-x", name]
    else:
        words.append("--oversubscribe")  # ranks that share cores are the planner's business
    if root:
        words.append("--allow-run-as-root")
    # ranks set their own threads; prefixes tell the ranks apart in the log
    return (*words, "--bind-to", "none", "--tag-output", *train)


def environment(base: Mapping[str, str], ranks: int, precision: str, cores: int) -> dict[str, str]:
    """A trainer's environment. What the user has set wins, except what precision means. Pure.

    Args:
        base: what is inherited.
        ranks: those that share a host.
        precision: fp32, tf32 or amp.
        cores: of that host.
    """
    threads = str(max(1, cores // ranks))
    env = {
        "OMP_NUM_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
        # ranks import TensorFlow at different speeds; on a busy machine the default 30 s is little
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "120",
        "HOROVOD_START_TIMEOUT": "120",
        "PYTHONFAULTHANDLER": "1",
        # device numbers as the driver counts them, so that telemetry reads the card of the rank
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **base,
        "PYTHONUNBUFFERED": "1",
    }
    # 0 forbids TF32 in every NVIDIA library; unset leaves it to the trainer's own switch
    env.pop("NVIDIA_TF32_OVERRIDE", None)
    if precision == "fp32":
        env["NVIDIA_TF32_OVERRIDE"] = "0"
    return env
