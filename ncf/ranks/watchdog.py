"""Ends a job of several ranks when one of them is lost or stalled; `ncf.ranks.heartbeat` decides.

A thread of every rank shows its pulse on the launcher's key-value store, the one through which
Horovod's Gloo ranks find each other, so it needs neither Horovod nor TensorFlow and watches over
the start, too. Rank 0 listens to all; the others listen to rank 0 and to its verdict. A rank that
can no longer reach the launcher (killed, or behind a broken link) ends itself.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from ncf.ranks.heartbeat import Keeper, Pulse, Verdict, cut_off

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PATIENCE_SECONDS = 30.0
START_SECONDS = 40.0
"""How long the first pulse of a rank may take: the ranks do not start in the same moment."""
INTERVAL_SECONDS = 2.0
GRACE_SECONDS = 10.0
"""How long the others let a stalled rank print its stack, and the launcher end them."""

STALLED, LOST = 70, 71
"""Exit codes: of the rank that stalled, and of one that lost another."""

LOST_MARK = "ncf: lost:"
"""Begins the line with which a rank ends because of another; `bench` looks for the other then."""

_BUSY_SHARE = 0.1  # of one core; a waiting rank only polls
_WAITING_IN = (f"{os.sep}tensorflow{os.sep}", f"{os.sep}horovod{os.sep}")


class Board:
    """The launcher's key-value store (horovod/runner/http/http_server.py)."""

    SCOPE = "ncf_pulse"

    def __init__(self, host: str, port: int, timeout_s: float = 5.0) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s

    def put(self, key: str, text: str) -> None:
        """Store a text.

        Raises:
            OSError: the store cannot be reached.
        """
        self._ask("PUT", key, text.encode())

    def get(self, key: str) -> str | None:
        """A text, or None if nobody has stored it.

        Raises:
            OSError: the store cannot be reached.
        """
        return self._ask("GET", key, None)

    def _ask(self, method: str, key: str, body: bytes | None) -> str | None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(method, f"/{self.SCOPE}/{key}", body)
            answer = connection.getresponse()
            text = answer.read().decode()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from None
        finally:
            connection.close()
        return text if answer.status == http.client.OK else None


class Activity:
    """How long this process has neither computed nor waited for a core or a disk."""

    def __init__(self, now: float) -> None:
        self.joins = False
        self._left_out: set[int] = set()
        self._ticks: dict[int, int] = {}
        self._looked = self._active = now

    def leave_out(self, threads: set[int]) -> None:
        """Threads that poll while they wait (Horovod's), and the watching one."""
        self._left_out |= threads

    def idle_seconds(self, now: float) -> float:
        """Seconds since the last activity, measured now."""
        ticks, waits = self._look()
        if ticks is None:  # no /proc: never idle, so never stalled
            return 0.0
        used = sum(n - self._ticks.get(thread, 0) for thread, n in ticks.items())
        seconds = used / os.sysconf("SC_CLK_TCK")
        busy = waits or seconds > _BUSY_SHARE * (now - self._looked)
        # A rank that looks for the others polls without a pause; that is not work.
        if busy and not self.joins:
            self._active = now
        self._ticks, self._looked = ticks, now
        return now - self._active

    def _look(self) -> tuple[dict[int, int] | None, bool]:
        """Clock ticks of every thread, and whether one waits for a disk (D) or for a core (R)."""
        current = threads()
        ticks, waits = {}, False
        for thread in current - self._left_out:
            with contextlib.suppress(OSError, IndexError, ValueError):
                text = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="ascii")
                values = text.rpartition(")")[2].split()  # state is field 3 of proc(5)
                waits |= values[0] in "DR"
                ticks[thread] = int(values[11]) + int(values[12])
        return (ticks if current else None), waits


def threads() -> set[int]:
    """Ids of this process's threads in the kernel; empty where there is no /proc."""
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208 - names only
    except OSError:
        return set()


class Watch:
    """The watching thread of one rank. Nothing happens before `start`."""

    def __init__(
        self,
        board: Board,
        rank: int,
        size: int,
        patience_s: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board, self._rank = board, rank
        self._patience_s, self._clock = patience_s, clock
        # with many ranks each polls the launcher less often; rank 0 polls for all of them
        self._interval_s = min(max(INTERVAL_SECONDS, size / 64), patience_s / 5)
        now = clock()
        self.activity = Activity(now)
        heard = range(size) if rank == 0 else range(1)
        self._keeper = Keeper(heard, patience_s, max(START_SECONDS, patience_s), now)
        self._number, self._reached, self._looked = 0, now, now
        self._stop = threading.Event()
        self._main = threading.main_thread().ident
        self._thread = threading.Thread(target=self._run, name="ncf-watch", daemon=True)

    def start(self) -> Watch:
        """Begin; returns itself."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """This rank leaves the job in order."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._number += 1
            self._board.put(f"pulse.{self._rank}", Pulse(self._number, done=True).to_text())

    def _run(self) -> None:
        self.activity.leave_out({threading.get_native_id()})
        while not self._stop.is_set() and not self._keeper.finished:
            verdict = self.look()
            if verdict and not self._stop.is_set():
                self._end(verdict)
            self._stop.wait(self._interval_s)

    def look(self) -> Verdict | None:
        """Show a pulse, listen to the others; what to do about it."""
        now = self._clock()
        if now - self._looked > 5 * self._interval_s + self._patience_s / 3:
            self._keeper.forgive(now)
            self._reached = now
        self._looked = now
        try:
            verdict = self._listen(self._pulse(now), now)
        except OSError:
            silence = now - self._reached
            return cut_off(silence) if silence > self._patience_s else None
        self._reached = now
        return verdict

    def _pulse(self, now: float) -> Pulse:
        self._number += 1
        frame = sys._current_frames().get(self._main or 0)  # noqa: SLF001 - the documented way
        while frame and frame.f_code.co_filename.startswith("<"):  # generated wrappers of an op
            frame = frame.f_back
        path = frame.f_code.co_filename if frame else ""
        where = f"{frame.f_code.co_name} ({Path(path).name}:{frame.f_lineno})" if frame else ""
        joins = self.activity.joins
        waits = joins or any(part in path for part in _WAITING_IN)
        return Pulse(self._number, self.activity.idle_seconds(now), waits, where, joins=joins)

    def _listen(self, own: Pulse, now: float) -> Verdict | None:
        self._board.put(f"pulse.{self._rank}", own.to_text())
        if self._rank != 0:
            if text := self._board.get("verdict"):
                return Verdict.from_text(text)
            if text := self._board.get("pulse.0"):
                self._keeper.hear(0, Pulse.from_text(text), now)
            return self._keeper.silent(now)
        self._keeper.hear(0, own, now)
        for rank in self._keeper.others(0):
            if text := self._board.get(f"pulse.{rank}"):
                self._keeper.hear(rank, Pulse.from_text(text), now)
        verdict = self._keeper.silent(now) or self._keeper.stalled()
        if verdict:
            self._board.put("verdict", verdict.to_text())
        return verdict

    def _end(self, verdict: Verdict) -> None:
        """End this process, whatever its main thread waits for."""
        if self._rank in verdict.ranks:
            frame = sys._current_frames().get(self._main or 0)  # noqa: SLF001
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            _say(f"{stack}ncf: error: {verdict.text}")
            os._exit(STALLED)
        if verdict.kind == "stalled":
            time.sleep(GRACE_SECONDS)
        _say(f"{LOST_MARK} {verdict.text}")
        os._exit(LOST)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())  # no lock that the main thread may hold


_current: Watch | None = None
"""The watch of this process, if it is one of several ranks."""


def start(watch: Watch | None) -> None:
    """Begin to watch, if there is a watch."""
    global _current  # noqa: PLW0603 - a process is one rank
    _current = watch.start() if watch else None


def stop() -> None:
    """This rank leaves the job in order."""
    if _current:
        _current.stop()


def running() -> bool:
    """Whether this rank is watched."""
    return _current is not None


@contextlib.contextmanager
def joining() -> Iterator[None]:
    """This rank looks for the others: threads started meanwhile poll from then on.

    Neither their clock ticks nor the search itself is work.
    """
    if not _current:
        yield
        return
    activity, before = _current.activity, threads()
    activity.joins = True
    try:
        yield
    finally:
        activity.joins = False
        activity.leave_out(threads() - before)


def from_environment(environment: Mapping[str, str], rank: int, size: int) -> Watch | None:
    """The watch of a rank that horovodrun (Gloo) has started; None without a key-value store.

    NCF_STALL_SECONDS sets the patience; 0 switches the watch off.
    """
    host = environment.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = environment.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    patience_s = patience(environment)
    if size < 2 or not host or not port.isdecimal() or not patience_s:
        return None
    return Watch(Board(host, int(port)), rank, size, patience_s)


def patience(environment: Mapping[str, str]) -> float:
    """NCF_STALL_SECONDS, or the default if it is not set or not a number from 0."""
    try:
        seconds = float(environment.get("NCF_STALL_SECONDS", PATIENCE_SECONDS))
    except ValueError:
        return PATIENCE_SECONDS
    return seconds if 0 <= seconds < float("inf") else PATIENCE_SECONDS
