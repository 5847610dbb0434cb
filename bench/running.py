"""The marker of the attempt in progress: a killed sweep leaves an attempt, not a mystery."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bench import guard
from bench.store import Attempt, Failure, Store
from ncf.record import RecordError, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def marker(store: Store) -> Path:
    """One per suite: a suite has one sweep, and that one attempt at a time."""
    return store.temporary / "running.json"


def begin(store: Store, attempt: Attempt, token: str) -> None:
    """Note the attempt before its first process starts.

    Args:
        store: the suite's.
        attempt: as it will be stored if nothing more is heard of it.
        token: the mark of all its processes.

    Raises:
        OSError: disk full, read-only: then no run is started that could not be stored.
    """
    content = {"host": socket.gethostname(), "token": token, "attempt": attempt.to_dict()}
    write_json(marker(store), content)


def end(store: Store) -> None:
    """The attempt is stored: remove the marker and what the trainer left beside it."""
    marker(store).unlink(missing_ok=True)
    shutil.rmtree(store.temporary, ignore_errors=True)


def recover(store: Store, say: Callable[[str], None]) -> None:
    """Clear up after a sweep that was killed: end its processes, store its attempt as interrupted.

    Only the holder of the suite's lock may call this.
    """
    store.remove_leftovers()
    path = marker(store)
    if not path.exists():
        end(store)
        return
    try:
        content = read_json(path)
        attempt = Attempt.from_dict(content["attempt"])
        token, host = str(content["token"]), content["host"]
    except (RecordError, KeyError) as error:
        say(f"{path} cannot be used and is removed ({error})")
        end(store)
        return
    stuck = guard.kill_marked(token) if host == socket.gethostname() else []
    if stuck:
        say(f"processes {stuck} of the killed sweep do not die; they may disturb the next runs")
    if not store.path(attempt.cell.key, attempt.seed, attempt.attempt).exists():
        store.write(_interrupted(store, attempt))
        say(
            f"the last sweep was killed during {attempt.cell.label} seed {attempt.seed}: "
            "stored as interrupted"
        )
    end(store)


def _interrupted(store: Store, attempt: Attempt) -> Attempt:
    """The attempt with the last sign of life in its log as its end."""
    start = datetime.strptime(attempt.started_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    try:
        sign = datetime.fromtimestamp((store.folder / attempt.log).stat().st_mtime, timezone.utc)
    except OSError:
        sign = start
    end_ = max(start, sign)
    return replace(
        attempt,
        status="interrupted",
        failure=Failure("the sweep was killed while this run was in progress"),
        finished_at=end_.strftime("%Y-%m-%dT%H:%M:%SZ"),
        wall_seconds=(end_ - start).total_seconds(),
    )
