"""Markers of attempts in progress, from which the next sweep recovers after a kill."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bench.files import utc_text, utc_time
from bench.process import reaper
from bench.process.supervise import Ended
from bench.records.attempt import Attempt, Failure, attempt_of
from bench.records.identity import DataIdentity
from bench.sweep.classify_failure import classify
from ncf.record import RecordError, read_json, read_run, write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.records.store import Store


_FOLDER = threading.Lock()
"""A slot must not remove the folder while another creates its marker there."""


def marker(store: Store, slot: int = 0) -> Path:
    """The marker of the attempt in a GPU slot."""
    return store.temporary / f"running{f'-{slot}' if slot else ''}.json"


def record(store: Store, slot: int = 0) -> Path:
    """The file to which the trainer of that attempt writes its record."""
    return marker(store, slot).with_name(f"run{f'-{slot}' if slot else ''}.json")


def begin(
    store: Store, attempt: Attempt, token: str, slot: int = 0, data: DataIdentity | None = None
) -> None:
    """Write the marker before the first process of an attempt starts.

    Args:
        store: the suite's.
        attempt: the attempt to store if its end is not known.
        token: the mark of all its processes.
        slot: number of the GPU slot.
        data: its data, to check a record that it may leave.

    Raises:
        OSError: disk full or read-only; the run must not start, as it could not be stored.
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
    """Remove the marker of a stored attempt, and before it the files of the trainer."""
    with _FOLDER:
        record(store, slot).unlink(missing_ok=True)
        for path in store.temporary.glob(f".{record(store, slot).name}.*.tmp"):
            path.unlink(missing_ok=True)
        marker(store, slot).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            store.temporary.rmdir()  # unless another attempt is in progress


def recover(store: Store, say: Callable[[str], None]) -> None:
    """Clean up after a killed sweep: end its processes, store its attempts.

    An attempt whose trainer had finished is classified by its record; any other is stored as
    interrupted. Only the holder of the suite's lock may call this.
    """
    store.remove_leftovers()
    for path in sorted(store.temporary.glob("running*.json")):
        _recover(store, path, say)
    shutil.rmtree(store.temporary, ignore_errors=True)


def _recover(store: Store, path: Path, say: Callable[[str], None]) -> None:
    try:
        content = read_json(path)
        attempt = attempt_of(content["attempt"])
        token, host = str(content["token"]), content["host"]
        data = DataIdentity(**content["data"]) if content.get("data") else None
    except (RecordError, KeyError, TypeError) as error:
        say(f"{path} cannot be used and is removed ({error})")
        return
    alive = reaper.kill_marked(token) if host == socket.gethostname() else []
    if alive:
        say(f"processes {alive} of the killed sweep do not die; they may disturb the next runs")
    if store.path(attempt.cell.key, attempt.seed, attempt.attempt).exists():
        return
    record_path = path.with_name(path.name.replace("running", "run", 1))
    ended = (data and _finished(attempt, data, record_path)) or _interrupted(store, attempt)
    store.write(ended)
    what = "its record was there and is stored" if ended.ok else f"stored as {ended.status}"
    say(f"the last sweep was killed during {attempt.cell.label} seed {attempt.seed}: {what}")


def _finished(attempt: Attempt, data: DataIdentity, path: Path) -> Attempt | None:
    """The attempt by its trainer's record; None if there is no record of a finished run."""
    try:
        run = read_run(path)
        end_ = _modified(path)
    except (RecordError, OSError):
        return None
    if run.status != "ok":
        return None
    at_end = _ended_at(attempt, end_)
    ended = Ended("finished", at_end.wall_seconds, at_end.wall_seconds, exit_code=0)
    status, failure = classify(attempt.cell, attempt.seed, data, ended, run, "", "")
    return replace(at_end, status=status, failure=failure, run=run, flags=("stored_later",))


def _interrupted(store: Store, attempt: Attempt) -> Attempt:
    """The attempt, ended at the last output in its log."""
    try:
        at_end = _ended_at(attempt, _modified(store.folder / attempt.log))
    except OSError:
        at_end = _ended_at(attempt, utc_time(attempt.started_at))
    failure = Failure("the sweep was killed while this run was in progress")
    return replace(at_end, status="interrupted", failure=failure)


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)


def _ended_at(attempt: Attempt, moment: datetime) -> Attempt:
    start = utc_time(attempt.started_at)
    moment = max(start, moment)
    seconds = (moment - start).total_seconds()
    return replace(attempt, finished_at=utc_text(moment), wall_seconds=seconds)
