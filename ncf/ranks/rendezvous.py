"""Ranks that `mpirun` started connect without MPI in Horovod.

Horovod built for Gloo (as our set-up builds it) needs the address of a rendezvous server, which
horovodrun provides and mpirun does not. So rank 0 opens Horovod's own rendezvous server, and writes
its port to a file named after the job. That works on one host; several need Horovod with MPI.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncf.ranks.horovod import Place

PATIENCE_SECONDS = 60.0
_JOB_NAMES = ("PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid", "PMI_JOBID")
_STORE = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")


def needed(environment: Mapping[str, str], place: Place) -> bool:
    """Whether several ranks were started by something else than horovodrun."""
    return place.size > 1 and "HOROVOD_RANK" not in environment


def variables(place: Place, port: int, *, mpi: bool) -> dict[str, str]:
    """The variables that horovodrun sets for a rank of one host (horovod/runner/gloo_run.py).

    With MPI built in, Horovod goes on with MPI; the store then serves `ncf.ranks.watchdog` alone.
    """
    store = dict(zip(_STORE, ("127.0.0.1", str(port)), strict=True))
    if mpi:
        return store
    return {
        **store,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_RANK": str(place.rank),
        "HOROVOD_SIZE": str(place.size),
        "HOROVOD_LOCAL_RANK": str(place.local_rank),
        "HOROVOD_LOCAL_SIZE": str(place.local_size),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
    }


def join(environment: Mapping[str, str], place: Place) -> dict[str, str]:
    """Meet the other ranks of this host; the variables to set before Horovod starts.

    Raises:
        UserError: the ranks are on several hosts and Horovod has no MPI, or rank 0 does not come.
    """
    from ncf.horovodrun import open_store, was_built_with_mpi

    mpi = was_built_with_mpi()
    if place.local_size != place.size:
        if mpi:
            return {}
        raise UserError(
            f"{place.size} ranks on several hosts under mpirun need Horovod with MPI: "
            "start them with `horovodrun -H ... --gloo`, or build Horovod with HOROVOD_WITH_MPI=1"
        )
    path = meeting_place(environment)
    if place.rank == 0:
        path.unlink(missing_ok=True)  # of a job that was killed; its number may come again
        port = open_store(place.size)
        _write_port(path, port)
    else:
        port = _wait_for_port(path, PATIENCE_SECONDS)
    return variables(place, port, mpi=mpi)


def leave(environment: Mapping[str, str], place: Place) -> None:
    """Remove the file once all ranks have met."""
    if place.rank == 0:
        meeting_place(environment).unlink(missing_ok=True)


def meeting_place(environment: Mapping[str, str]) -> Path:
    """A file that the ranks of one job, and no others, know."""
    job = next((environment[n] for n in _JOB_NAMES if n in environment), f"parent {os.getppid()}")
    name = hashlib.sha256(f"{os.getuid()} {job}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"ncf-ranks-{name}"


def _write_port(path: Path, port: int) -> None:
    handle, temporary = tempfile.mkstemp(prefix=path.name, dir=path.parent)  # for our eyes only
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(str(port))
    Path(temporary).replace(path)


def _wait_for_port(path: Path, patience_s: float) -> int:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        try:
            if path.stat().st_uid == os.getuid():
                return int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise UserError(f"rank 0 did not connect within {patience_s:.0f} s; see its log")
