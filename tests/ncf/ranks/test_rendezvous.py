"""Ranks under mpirun: they find each other through a file and Horovod's own server."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ncf import horovodrun
from ncf.errors import UserError
from ncf.ranks import rendezvous
from ncf.ranks.horovod import Place, place_from_environment

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
OPEN_MPI |= {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
OPEN_MPI |= {"PMIX_NAMESPACE": "prterun-host-7455@1"}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(rendezvous.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(horovodrun, "open_store", lambda size: 4000 + size)
    monkeypatch.setattr(horovodrun, "was_built_with_mpi", lambda: False)


def test_horovodrun_has_told_its_ranks_and_mpirun_has_not() -> None:
    two = Place(1, 2, 1, 2)
    assert rendezvous.needed(OPEN_MPI, two)
    assert not rendezvous.needed({**OPEN_MPI, "HOROVOD_RANK": "1"}, two)
    assert not rendezvous.needed({}, Place())


def test_rank_0_opens_the_store_and_others_learn_its_port() -> None:
    heard: dict[int, dict[str, str]] = {}

    def come(rank: int) -> None:
        heard[rank] = rendezvous.join(OPEN_MPI, Place(rank, 3, rank, 3))

    others = [threading.Thread(target=come, args=(rank,)) for rank in (1, 2)]
    for thread in others:
        thread.start()
    come(0)
    for thread in others:
        thread.join(20)
    assert [heard[rank]["HOROVOD_GLOO_RENDEZVOUS_PORT"] for rank in range(3)] == ["4003"] * 3
    assert [heard[rank]["HOROVOD_RANK"] for rank in range(3)] == ["0", "1", "2"]
    # what we tell is read back as the same place, and as one that needs no meeting any more
    assert place_from_environment(heard[2]) == Place(2, 3, 2, 3)
    assert not rendezvous.needed(heard[2], Place(2, 3, 2, 3))
    path = rendezvous.meeting_place(OPEN_MPI)
    assert path.stat().st_mode & 0o077 == 0
    rendezvous.leave(OPEN_MPI, Place(1, 3, 1, 3))
    assert path.exists(), "rank 0 alone takes it away"
    rendezvous.leave(OPEN_MPI, Place(0, 3, 0, 3))
    assert not path.exists()


def test_two_jobs_never_meet() -> None:
    other = {**OPEN_MPI, "PMIX_NAMESPACE": "prterun-host-7456@1"}
    assert rendezvous.meeting_place(OPEN_MPI) != rendezvous.meeting_place(other)


def test_a_rank_0_that_never_comes_is_an_error_in_one_line(monkeypatch: Any) -> None:
    monkeypatch.setattr(rendezvous, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(UserError, match="rank 0 did not connect within 0 s"):
        rendezvous.join(OPEN_MPI, Place(1, 2, 1, 2))


def test_several_hosts_need_mpi_in_horovod(monkeypatch: Any) -> None:
    with pytest.raises(UserError, match=r"several hosts under mpirun .*`horovodrun -H") as caught:
        rendezvous.join(OPEN_MPI, Place(1, 4, 1, 2))
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(horovodrun, "was_built_with_mpi", lambda: True)
    assert rendezvous.join(OPEN_MPI, Place(1, 4, 1, 2)) == {}


def test_horovod_with_mpi_keeps_mpi_and_the_watchdog_uses_the_store(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(horovodrun, "was_built_with_mpi", lambda: True)
    assert rendezvous.join(OPEN_MPI, Place(0, 2, 0, 2)) == {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "4002",
    }


def test_the_library_itself_tells_whether_it_was_linked_to_mpi(
    monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.undo()
    folder = tmp_path / "horovod" / "tensorflow"
    folder.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "horovod", raising=False)
    assert not horovodrun.was_built_with_mpi()
    (folder / "mpi_lib.cpython-311.so").write_bytes(b"\0libgloo\0")
    assert not horovodrun.was_built_with_mpi()
    (folder / "mpi_lib.cpython-311.so").write_bytes(b"\0libmpi.so.40\0")
    assert horovodrun.was_built_with_mpi()


def test_the_launcher_says_in_one_line_that_horovod_is_missing(
    monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, "horovod", None)
    monkeypatch.setitem(sys.modules, "horovod.runner", None)
    assert horovodrun.main(["-np", "2", "--gloo", "true"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
