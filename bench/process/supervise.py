"""Runs one command: its output, its end, its time-out; no process of it is left afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typing_extensions import Self

from bench.process import reaper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GRACE_SECONDS = 5.0
"""Seconds that a stopped trainer has to write its record before it is killed."""

STOPPED = "$ stopped"
"""Start of the log line written when the sweep ends a run; later output is a consequence."""


@dataclass(frozen=True)
class Ended:
    """How a process ended. `survivors` are processes that even SIGKILL did not end."""

    cause: Literal["finished", "timeout", "interrupted"]
    wall_seconds: float
    timeout_s: float
    exit_code: int | None = None
    signal: str | None = None
    host_oom_kills: int | None = None
    survivors: tuple[int, ...] = ()


class Stop:
    """A stop request, set by SIGINT, SIGTERM or SIGHUP; waiting code polls it."""

    def __init__(self) -> None:
        self.signals: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.signals)

    @property
    def urgent(self) -> bool:
        """Two requests: do not wait for anything."""
        return len(self.signals) > 1

    def __enter__(self) -> Self:
        self._old = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN  # under nohup, SIGHUP stays ignored
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        self.signals.append(signal.Signals(number).name)


def new_token() -> str:
    """A mark that no other process has."""
    return secrets.token_hex(16)


def supervise(
    command: tuple[str, ...],
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    stop: Stop,
    on_line: Callable[[str], None],
    token: str,
) -> Ended:
    """Run a command under the reaper until it ends, times out or is stopped.

    Args:
        command: program and arguments.
        env: its whole environment, to which the token is added.
        log: receives stdout and stderr; the first line is the command.
        timeout_s: seconds from its start to its end.
        stop: polled ten times a second.
        on_line: called with each line of output, without its line end.
        token: the mark of all its processes.

    Raises:
        OSError: the log cannot be written, or no process can be started.
    """
    oom_kills = _host_oom_kills()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output, log.open("rb") as written:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        written.seek(0, os.SEEK_END)
        lines = _Lines(on_line)
        start = time.monotonic()
        cause: Literal["finished", "timeout", "interrupted"] = "finished"
        process, lifeline = _start(command, {**env, reaper.MARK: token}, output.fileno())
        try:
            while not _wait(process, 0.1):
                lines.feed(written.read())
                if stop or time.monotonic() - start > timeout_s:
                    cause = "interrupted" if stop else "timeout"
                    with contextlib.suppress(
                        OSError
                    ):  # the run ends even if the line cannot be written
                        output.write(b"\n" if lines.rest else b"")
                        output.write(f"{STOPPED}: {cause}\n".encode())
                        output.flush()
                    _end(process, stop)
                    break
        finally:
            survivors = kill(process, token)
            wall_seconds = time.monotonic() - start
            os.close(lifeline)
        lines.feed(written.read() + b"\n")
    code = process.returncode
    now = _host_oom_kills()
    return Ended(
        cause=cause,
        wall_seconds=wall_seconds,
        timeout_s=timeout_s,
        exit_code=code if code is not None and code >= 0 else None,
        signal=signal_name(-code) if code is not None and code < 0 else None,
        host_oom_kills=None if oom_kills is None or now is None else now - oom_kills,
        survivors=tuple(survivors),
    )


def _start(
    command: tuple[str, ...], env: Mapping[str, str], output: int
) -> tuple[subprocess.Popen[bytes], int]:
    """The reaper's process, and our end of the pipe; closing it makes the reaper kill the job."""
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(theirs), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            pass_fds=(theirs,),
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which ends the trainer
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return process, ours


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes], stop: Stop) -> None:
    """Send SIGTERM to the group, and give it GRACE_SECONDS for its record."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    while not _wait(process, 0.1) and time.monotonic() < until and not stop.urgent:
        pass


def kill(process: subprocess.Popen[bytes], token: str) -> list[int]:
    """Kill whatever is left of a job; processes that cannot be killed are returned.

    The reaper and its group die first, so that nothing new is started during the search.
    """
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    survivors = reaper.kill_marked(token)
    _wait(process, GRACE_SECONDS)
    return survivors


_RANK_NAMES = (b"HOROVOD_RANK=", b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")


def processes_of(token: str) -> dict[int, int]:
    """Rank by process number, of all processes of a job; a process without a rank is rank 0."""
    ranks = {}
    for pid in reaper.marked(token):
        variables = reaper.environment(pid)
        words = (variable for variable in variables if variable.startswith(_RANK_NAMES))
        if variables:  # it has not ended since
            with contextlib.suppress(ValueError):
                ranks[pid] = int(next(words, b"=0").partition(b"=")[2])
    return ranks


def carries(pid: int, token: str) -> bool:
    """Whether a process belongs to the job with this token."""
    return f"{reaper.MARK}={token}".encode() in reaper.environment(pid)


class _Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.on_line, self.rest = on_line, b""

    def feed(self, data: bytes) -> None:
        *whole, self.rest = (self.rest + data).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if line and not line.startswith(STOPPED.encode()):
                self.on_line(line.decode("utf-8", "replace"))


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 77` for a number without name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _host_oom_kills() -> int | None:
    """How often the kernel has killed a process for lack of memory (Linux 4.13 on)."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None
