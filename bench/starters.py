"""How ranks are started: their environment, and the command of horovodrun or mpirun. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.hosts import HostList

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
