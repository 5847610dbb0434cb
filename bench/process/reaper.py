"""Runs one command, and sees to it that nothing of it outlives the sweep.

The sweep starts this file as a process of its own session. The command and all its descendants
carry a mark in their environment: a random token, which no other process can have. When the
sweep dies, however it dies, the pipe that it holds open to here closes, and every marked process
is killed; the same happens to whatever the command leaves behind when it ends. Horovod puts each
rank into a session of its own, so killing a process group would not be enough.

Standard library only and no import of bench: it starts in a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "NCF_BENCH_ATTEMPT"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def marked(token: str) -> list[int]:
    """Processes (without this one) that carry the token; none where there is no /proc."""
    needle = f"{MARK}={token}".encode()
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib would double the start-up time
    except FileNotFoundError:
        return []
    others = (int(name) for name in names if name.isdecimal() and int(name) != os.getpid())
    return [pid for pid in others if needle in environment(pid)]


def environment(pid: int) -> list[bytes]:
    """The variables of a process; empty for a dead process and for another user's.

    During exec the kernel shows no variables for a moment: `env_end` (field 51 of
    /proc/PID/stat, proc(5)) is set last. A process in that moment is read again, for at most a
    second, or a process that has just been started would be missed.
    """
    for _ in range(1000):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - see above
                variables = file.read()
            if variables:
                return variables.split(b"\0")
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()  # field 3 comes first
        except OSError:
            break
        memory_size, env_start, env_end = fields[20], fields[47], fields[48]
        if memory_size == b"0" or env_start == env_end != b"0":  # dead, or without variables
            break
        time.sleep(0.001)
    return []


def kill_marked(token: str, patience_s: float = 10.0) -> list[int]:
    """Kill every process that carries the token; those that do not die in time are returned.

    Looks again until two looks in a row see none, since a process may fork while it is being
    killed, or end just after its child has been started. What survives SIGKILL waits inside the
    kernel, for a disk or a GPU that does not answer.
    """
    until, empty_looks = time.monotonic() + patience_s, 0
    while True:
        alive = marked(token)
        empty_looks = 0 if alive else empty_looks + 1
        if empty_looks == 2 or (alive and time.monotonic() > until):
            return alive
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def main(arguments: list[str]) -> int:
    """Run `arguments[1:]`; `arguments[0]` is the pipe's descriptor. Returns the exit code."""
    lifeline, command = int(arguments[0]), arguments[1:]
    token = os.environ[MARK]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # the command gets these itself; a handler, unlike "ignore", is not inherited by it
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(command, preexec_fn=_die_with_parent())  # noqa: PLW1509 - no thread runs yet
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 127
    threading.Thread(target=_watch, args=(lifeline, token), daemon=True).start()
    code = child.wait()
    kill_marked(token)
    if code < 0:
        _end_by(-code)
    return code


def _watch(lifeline: int, token: str) -> None:
    """Wait until the sweep is gone, then take everything down."""
    os.read(lifeline, 1)
    kill_marked(token)
    os._exit(1)


def _die_with_parent() -> Callable[[], None] | None:
    """For the child to call: be killed if the reaper is killed (Linux)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_by(number: int) -> None:
    """End by the signal that ended the command, so that the sweep sees it; dump no core."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handler to reset
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
