"""One sweep at a time in a suite's folder.

The lock is the kernel's (flock): it ends with its process, however that dies. The file's text
says who holds it, for people, and for machines that share the folder but not their locks; there
its date is the heartbeat, and a holder without one for a while is taken for dead.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE_NAME = ".lock"
BEAT_S = 15.0
"""Seconds between two signs of life."""
STALE_S = 180.0
"""A holder on another machine that gave none for so long has died."""


@contextlib.contextmanager
def held(
    folder: Path, say: Callable[[str], None], on_lost: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold the folder's lock; a lock whose process is dead is taken over, and said so.

    Args:
        folder: the suite's.
        say: told of a lock that was taken over.
        on_lost: called if another machine has taken ours over, because this one was stopped for
            so long that it gave no sign of life.

    Raises:
        UserError: another sweep holds it: who, and since when.
        OSError: the lock file cannot be written.
    """
    path = folder / FILE_NAME
    descriptor, holder = _open(path)
    try:
        elsewhere = bool(holder) and (holder or {}).get("host") != socket.gethostname()
        silent = _silent_seconds(path)
        if holder and elsewhere and silent < STALE_S:
            raise _refused(path, holder, silent)
        if holder and elsewhere:
            say(
                f"took over the lock of process {holder.get('pid')} on {holder.get('host')}, which "
                f"gave no sign of life for {silent:.0f} s"
            )
        elif holder:
            say(
                f"took over the lock of process {holder.get('pid')}, which started "
                f"{holder.get('started_at')} and is gone"
            )
        os.ftruncate(descriptor, 0)
        mine = json.dumps(_myself()).encode() + b"\n"
        os.pwrite(descriptor, mine, 0)
        beat = _Heartbeat(path, mine, on_lost)
        try:
            with beat:
                yield
        finally:
            with contextlib.suppress(OSError):
                if not beat.lost:
                    path.unlink()
                folder.rmdir()  # if nothing came of it
    finally:
        os.close(descriptor)


def holder(folder: Path) -> dict[str, Any] | None:
    """Who holds the folder's lock: pid, host, started_at and whether it is `alive`; None if free.

    `alive` is None for a holder on another machine: that cannot be seen from here.
    """
    try:
        descriptor = os.open(folder / FILE_NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        found = _read(descriptor) or {}
        if found.get("host", socket.gethostname()) != socket.gethostname():
            return {**found, "alive": None}
        return {**found, "alive": not _lock(descriptor, shared=True)}
    finally:
        os.close(descriptor)


class _Heartbeat:
    """Touches the lock file now and then, and notices when it is another's."""

    def __init__(self, path: Path, mine: bytes, on_lost: Callable[[], None]) -> None:
        self.path, self.mine, self.on_lost = path, mine, on_lost
        self.lost = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True, name="heartbeat")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self.lost and not self._over.wait(BEAT_S):
            self.beat()

    def beat(self) -> None:
        """One sign of life; it needs no space on a full disk."""
        with contextlib.suppress(OSError):
            if self.path.read_bytes() != self.mine:
                self.lost = True
                self.on_lost()
                return
            os.utime(self.path)


def _silent_seconds(path: Path) -> float:
    """Age of the lock file by the clock of its own file system, which all its machines share."""
    probe = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        probe.touch()
        now = probe.stat().st_mtime
        return now - path.stat().st_mtime
    except OSError:
        return 0.0
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _open(path: Path) -> tuple[int, dict[str, Any] | None]:
    """The locked file and what its last holder left in it, which is nothing after a clean end."""
    until = time.monotonic() + 2.0
    while True:
        descriptor = _create(path)
        if _lock(descriptor):
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor, _read(descriptor)
            os.close(descriptor)  # its holder has just removed it: take the new one
            continue
        found = _read(descriptor) or {}
        os.close(descriptor)
        # a killed sweep's lock lives on for a moment in a child that was just being started
        if _alive(found) or time.monotonic() > until:
            raise _refused(path, found)
        time.sleep(0.02)


def _create(path: Path) -> int:
    """Open the lock file; its last holder may tidy the folder away at any moment."""
    problem: OSError | None = None
    for _ in range(100):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except (FileNotFoundError, FileExistsError) as error:  # noqa: PERF203 - it tries again
            problem = error
    assert problem is not None
    raise problem


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    """Whether the lock could be had; a file system without locks leaves it to the file's text."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return not _alive(_read(descriptor) or {})
    return True


def _refused(path: Path, holder: dict[str, Any], silent: float | None = None) -> UserError:
    host = holder.get("host", "an unknown machine")
    message = (
        f"{path.parent} is in use by process {holder.get('pid', '?')} on {host} "
        f"since {holder.get('started_at', '?')}"
    )
    if host != socket.gethostname() and holder:
        sign = "" if silent is None else f", last sign of life {max(0.0, silent):.0f} s ago"
        return UserError(
            f"{message}{sign}; if that sweep is gone, delete {path} (after {STALE_S:.0f} s without "
            "a sign of life it is taken over)"
        )
    return UserError(f"{message}; wait for it, or use another --results")


def _myself() -> dict[str, Any]:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    pid = os.getpid()
    return {"pid": pid, "born": _born(pid), "host": socket.gethostname(), "started_at": now}


def _alive(holder: dict[str, Any]) -> bool:
    """Whether the holder, not a later process with its number, still runs on this machine."""
    pid = holder.get("pid")
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _born(pid) == holder.get("born")


def _born(pid: int) -> str | None:
    """When a process started, in the kernel's ticks since a boot; None where /proc is missing."""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        return f"{boot}/{stat.rpartition(')')[2].split()[19]}"
    return None


def _read(descriptor: int) -> dict[str, Any] | None:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
