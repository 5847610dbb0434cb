"""A lock for one sweep at a time in a suite's folder.

The kernel's lock (flock) ends with its process, in every case. The file's text names the holder,
for people and for machines that share the folder but not their locks; for those the file's date
is the heartbeat, and a holder without heartbeat for STALE_S is taken for dead.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.errors import UserError
from bench.files import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE_NAME = ".lock"
BEAT_S = 15.0
"""Seconds between two heartbeats."""
STALE_S = 180.0
"""Seconds without heartbeat after which a holder on another machine is taken for dead."""


@contextlib.contextmanager
def held(
    folder: Path, say: Callable[[str], None], on_lost: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold the folder's lock; take over the lock of a dead process and report it.

    Args:
        folder: the suite's folder.
        say: called with a line about a lock that was taken over.
        on_lost: called if another machine has taken over our lock, because this process was
            stopped for so long that its heartbeat timed out.

    Raises:
        UserError: another sweep holds it: who, and since when.
        OSError: the lock file cannot be written.
    """
    path = folder / FILE_NAME
    descriptor, holder = _open(path)
    try:
        if holder:
            who, silent = f"process {holder.get('pid')}", _silent_seconds(path)
            if holder.get("host") == socket.gethostname():
                who = f"{who}, which started {holder.get('started_at')} and is gone"
            elif silent < STALE_S:
                raise _refused(path, holder, silent)
            else:
                who = f"{who} on {holder.get('host')}, without a heartbeat for {silent:.0f} s"
            say(f"took over the lock of {who}")
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
                folder.rmdir()  # if it is empty
    finally:
        os.close(descriptor)


def holder(folder: Path) -> dict[str, Any] | None:
    """The holder of the folder's lock: pid, host, started_at and `alive`; None if free.

    `alive` is None for a holder on another machine, whose processes are not visible here.
    """
    try:
        descriptor = os.open(folder / FILE_NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        content = _read(descriptor) or {}
        here = content.get("host", socket.gethostname()) == socket.gethostname()
        return {**content, "alive": not _lock(descriptor, shared=True) if here else None}
    finally:
        os.close(descriptor)


class _Heartbeat:
    """Touches the lock file every BEAT_S, and notices when another process has taken it over."""

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
        """Touch the file, which needs no space on a full disk."""
        with contextlib.suppress(OSError):
            if self.path.read_bytes() != self.mine:
                self.lost = True
                self.on_lost()
                return
            os.utime(self.path)


def _silent_seconds(path: Path) -> float:
    """Age of the lock file by the clock of its file system, which all its machines share."""
    probe = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    except OSError:
        return 0.0
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _open(path: Path) -> tuple[int, dict[str, Any] | None]:
    """The locked file and the text that its last holder left; none after a clean end."""
    until = time.monotonic() + 2.0
    while True:
        descriptor = _create(path)
        if _lock(descriptor):
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor, _read(descriptor)
            os.close(descriptor)  # its holder has just removed it: take the new one
            continue
        content = _read(descriptor) or {}
        os.close(descriptor)
        # a killed sweep's lock is held for a moment by a child that was just being started
        if _alive(content) or time.monotonic() > until:
            raise _refused(path, content)
        time.sleep(0.02)


def _create(path: Path) -> int:
    """Open the lock file; its last holder may remove the folder at any moment."""
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
    """Whether the lock is ours now; on a file system without locks the file's text decides."""
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
        beat = "" if silent is None else f", last heartbeat {max(0.0, silent):.0f} s ago"
        return UserError(
            f"{message}{beat}; if that sweep is gone, delete {path} (after {STALE_S:.0f} s without "
            "a heartbeat it is taken over)"
        )
    return UserError(f"{message}; wait for it, or use another --results")


def _myself() -> dict[str, Any]:
    pid, host = os.getpid(), socket.gethostname()
    return {"pid": pid, "born": _born(pid), "host": host, "started_at": utc_now()}


def _alive(holder: dict[str, Any]) -> bool:
    """Whether the holder, not a later process with its number, still runs on this machine."""
    pid = holder.get("pid")
    return isinstance(pid, int) and psutil.pid_exists(pid) and _born(pid) == holder.get("born")


def _born(pid: int) -> str | None:
    """When a process started, in the kernel's ticks since a boot; None where /proc is missing."""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        return f"{boot}/{stat.rpartition(')')[2].split()[19]}"
    return None


def _read(descriptor: int) -> dict[str, Any] | None:
    try:
        content = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
