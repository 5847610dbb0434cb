"""The markers of the attempts in progress: a killed sweep leaves attempts, not mysteries."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bench.process import reaper
from bench.process.supervise import Ended
from bench.records.attempt import Attempt, Failure
from bench.records.identity import DataIdentity
from bench.sweep.classify_failure import judge
from ncf.record import RecordError, read_json, read_run, write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.records.store import Store


_FOLDER = threading.Lock()
"""One lane must not tidy the folder away while another creates its marker there."""


def marker(store: Store, slot: int = 0) -> Path:
    """One per attempt in progress: several only where each has a GPU of its own."""
    return store.temporary / f"running{_suffix(slot)}.json"


def record(store: Store, slot: int = 0) -> Path:
    """Where the trainer of that attempt writes its record."""
    return store.temporary / f"run{_suffix(slot)}.json"


def _suffix(slot: int) -> str:
    return f"-{slot}" if slot else ""


def begin(
    store: Store, attempt: Attempt, token: str, slot: int = 0, data: DataIdentity | None = None
) -> None:
    """Note the attempt before its first process starts.

    Args:
        store: the suite's.
        attempt: as it will be stored if nothing more is heard of it.
        token: the mark of all its processes.
        slot: tells attempts in progress apart.
        data: what it trains on, to judge a record that it may leave behind.

    Raises:
        OSError: disk full, read-only: then no run is started that could not be stored.
    """
    content = {
        "host": socket.gethostname(),
        "token": token,
        "data": asdict(data) if data else None,
        "attempt": attempt.to_dict(),
    }
    with _FOLDER:
        record(store, slot).unlink(missing_ok=True)
        write_json(marker(store, slot), content)


def end(store: Store, slot: int = 0) -> None:
    """The attempt is stored: remove its marker, and what the trainer left, before that."""
    with _FOLDER:
        record(store, slot).unlink(missing_ok=True)
        for path in store.temporary.glob(f".run{_suffix(slot)}.json.*.tmp"):
            path.unlink(missing_ok=True)
        marker(store, slot).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            store.temporary.rmdir()  # unless another attempt is in progress


def recover(store: Store, say: Callable[[str], None]) -> None:
    """Clear up after a sweep that was killed: end its processes, store its attempts.

    An attempt whose trainer had finished is judged by the record it left; any other is stored as
    interrupted. Only the holder of the suite's lock may call this.
    """
    store.remove_leftovers()
    for path in sorted(store.temporary.glob("running*.json")):
        _recover(store, path, say)
    shutil.rmtree(store.temporary, ignore_errors=True)


def _recover(store: Store, path: Path, say: Callable[[str], None]) -> None:
    try:
        content = read_json(path)
        attempt = Attempt.from_dict(content["attempt"])
        token, host = str(content["token"]), content["host"]
        data = DataIdentity(**content["data"]) if content.get("data") else None
    except (RecordError, KeyError, TypeError) as error:
        say(f"{path} cannot be used and is removed ({error})")
        return
    stuck = reaper.kill_marked(token) if host == socket.gethostname() else []
    if stuck:
        say(f"processes {stuck} of the killed sweep do not die; they may disturb the next runs")
    if store.path(attempt.cell.key, attempt.seed, attempt.attempt).exists():
        return
    left = path.with_name(path.name.replace("running", "run", 1))
    found = (data and _finished(attempt, data, left)) or _interrupted(store, attempt)
    store.write(found)
    what = "its record was there and is stored" if found.ok else f"stored as {found.status}"
    say(f"the last sweep was killed during {attempt.cell.label} seed {attempt.seed}: {what}")


def _finished(attempt: Attempt, data: DataIdentity, left: Path) -> Attempt | None:
    """The attempt by the record that its trainer had written; None if that says "not finished"."""
    try:
        run = read_run(left)
        at = datetime.fromtimestamp(left.stat().st_mtime, timezone.utc)
    except (RecordError, OSError):
        return None
    if run.status != "ok":
        return None
    seconds = max(0.0, (at - _time(attempt.started_at)).total_seconds())
    ended = Ended("finished", seconds, seconds, exit_code=0)
    status, failure = judge(attempt.cell, attempt.seed, data, ended, run, "", "")
    return replace(
        attempt,
        status=status,
        failure=failure,
        finished_at=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        wall_seconds=seconds,
        run=run,
        flags=("stored_later",),
    )


def _interrupted(store: Store, attempt: Attempt) -> Attempt:
    """The attempt with the last sign of life in its log as its end."""
    start = _time(attempt.started_at)
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


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
