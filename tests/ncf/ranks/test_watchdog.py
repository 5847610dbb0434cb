"""The watching thread of a rank: a real key-value store, real processes, no TensorFlow."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from paths import ROOT

from ncf.ranks import watchdog as watch
from ncf.ranks.heartbeat import Pulse
from ncf.ranks.watchdog import Activity, Board, Watch, from_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")


class Store(BaseHTTPRequestHandler):
    """The protocol of Horovod's rendezvous server: PUT and GET of /scope/key."""

    def do_PUT(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.texts[self.path] = self.rfile.read(length)  # type: ignore[attr-defined]
        self._answer(200, b"")

    def do_GET(self) -> None:
        text = self.server.texts.get(self.path)  # type: ignore[attr-defined]
        self._answer(404 if text is None else 200, text or b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    server.texts = {}  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


RANK = """
import os, signal, sys, threading, time
from ncf.ranks import watchdog as watch
from ncf.ranks.watchdog import Board, Watch
watch.GRACE_SECONDS = 1.0
rank, kind, port, patience = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
mine = Watch(Board("127.0.0.1", port), rank, 2, patience)
watch.start(mine)
until = time.monotonic() + patience * 4
if kind == "stall":
    def here_it_stands():
        time.sleep(100)
    here_it_stands()
if kind == "freeze":
    time.sleep(0.5); os.kill(os.getpid(), signal.SIGSTOP)
if kind == "vanish":
    os._exit(0)
if kind == "join":
    with watch.joining():
        while time.monotonic() < until:
            sum(range(10000))
while time.monotonic() < until:
    if kind == "wait":
        time.sleep(0.1)
    else:
        sum(range(10000))
mine.stop()
print("ended well", flush=True)
"""


def ranks(port: int, *kinds: str, patience: float = 2.0) -> list[tuple[int, str]]:
    """Run one process per kind; exit code and output of each. Frozen ones are killed at the end."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), kind, str(port), str(patience)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )
        for rank, kind in enumerate(kinds)
    ]
    for process, kind in zip(started, kinds, strict=True):
        if kind != "freeze":
            process.wait(60)
    for process in started:
        process.kill()
    return [(p.wait(), p.communicate()[0]) for p in started]


@linux
def test_a_stalled_rank_shows_where_it_stands_and_both_end(port: int) -> None:
    (code0, said0), (code1, said1) = ranks(port, "wait", "stall")
    assert {code0, code1} <= {watch.STALLED, watch.LOST}
    assert code1 == watch.STALLED
    assert "in here_it_stands" in said1
    assert "stalled: nothing done for" in said1.splitlines()[-1]
    assert "stalled: nothing done for" in said0


@linux
def test_waiting_rank_counts_as_idle(
    port: int,
) -> None:
    (code0, said0), (code1, said1) = ranks(port, "join", "stall")
    assert (code0, code1) == (watch.LOST, watch.STALLED)
    assert "in here_it_stands" in said1
    assert "rank 1 stalled: nothing done for" in said0


@linux
def test_ranks_that_all_look_for_each_other_are_left_alone(port: int) -> None:
    assert [code for code, _ in ranks(port, "join", "join", patience=3.0)] == [0, 0]


@linux
def test_a_frozen_rank_is_named_by_the_other(port: int) -> None:
    (code0, said0), _ = ranks(port, "wait", "freeze")
    assert code0 == watch.LOST
    assert said0.startswith("ncf: lost: rank 1 gives no sign of life")


@linux
def test_the_first_rank_is_missed_by_the_others_too(port: int) -> None:
    _, (code1, said1) = ranks(port, "freeze", "wait")
    assert code1 == watch.LOST
    assert said1.startswith("ncf: lost: rank 0 gives no sign of life")


@linux
def test_a_rank_that_works_keeps_a_waiting_one_alive_beyond_all_patience(port: int) -> None:
    assert [code for code, _ in ranks(port, "wait", "work", patience=3.0)] == [0, 0]


@linux
def test_without_a_launcher_a_rank_ends_itself() -> None:
    (code, said), _ = ranks(1, "work", "vanish", patience=1.0)  # nothing listens on port 1
    assert code == watch.LOST
    assert "ncf: lost: the launcher has not answered for" in said


def test_a_rank_that_leaves_in_order_tells(port: int) -> None:
    board = Board("127.0.0.1", port)
    mine = Watch(board, 1, 2)
    assert mine.look() is None
    assert not Pulse.from_text(board.get("pulse.1") or "").done
    mine.stop()
    assert Pulse.from_text(board.get("pulse.1") or "").done
    assert board.get("pulse.7") is None


def test_an_answer_that_is_no_http_is_an_unreachable_store(monkeypatch: Any) -> None:
    import http.client

    def broken(*_: Any) -> None:
        raise http.client.BadStatusLine("x")

    monkeypatch.setattr(http.client.HTTPConnection, "request", broken)
    with pytest.raises(OSError, match="x"):
        Board("127.0.0.1", 9).get("key")


def test_a_rank_inside_tensorflow_waits_even_behind_a_generated_wrapper(tmp_path: Path) -> None:
    # Horovod's operations are called through code that TensorFlow has made up ("<string>").
    board = Notes()
    mine = Watch(board, 1, 2)  # type: ignore[arg-type]
    library = tmp_path / "horovod" / "mpi_ops.py"
    library.parent.mkdir()
    wrapper: dict[str, Any] = {}
    exec(compile("def op(call): call()", "<string>", "exec"), wrapper)
    space: dict[str, Any] = {"op": wrapper["op"]}
    code = "def allreduce(call): op(eval(compile('lambda: call()', '<string>', 'eval'), locals()))"
    exec(compile(code, str(library), "exec"), space)
    mine._main = threading.get_ident()
    mine.look()
    assert not board.last.waits
    frames = sys._current_frames

    def seen_from_inside() -> None:
        inside = frames()[threading.get_ident()].f_back.f_back  # the wrappers
        sys._current_frames = lambda: {threading.get_ident(): inside}
        try:
            mine.look()
        finally:
            sys._current_frames = frames

    space["allreduce"](seen_from_inside)
    assert board.last.waits
    assert "mpi_ops.py" in board.last.where


class Notes:
    """A board that keeps the last pulse."""

    last: Pulse

    def put(self, _: str, text: str) -> None:
        self.last = Pulse.from_text(text)

    def get(self, _: str) -> None:
        return None


@linux
def test_work_resets_the_idle_time_and_polling_threads_do_not_count() -> None:
    activity = Activity(time.monotonic())
    activity.leave_out(watch.threads() - {threading.get_native_id()})
    first = time.monotonic()
    activity.idle_seconds(first)
    while time.monotonic() - first < 0.2:
        sum(range(1000))
    assert activity.idle_seconds(time.monotonic()) == 0.0
    activity.leave_out({threading.get_native_id()})
    now = time.monotonic()
    assert activity.idle_seconds(now + 7.0) == pytest.approx(7.0, abs=0.5)


def test_only_ranks_that_a_gloo_launcher_started_are_watched() -> None:
    gloo = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": "80"}
    assert from_environment({}, 0, 2) is None
    assert from_environment(gloo, 0, 1) is None
    assert from_environment({**gloo, "NCF_STALL_SECONDS": "0"}, 0, 2) is None
    assert from_environment(gloo, 0, 2) is not None


@pytest.mark.parametrize(
    ("text", "seconds"), [("45", 45.0), ("0", 0.0), ("x", 30.0), ("-1", 30.0), ("inf", 30.0)]
)
def test_the_patience_can_be_set(text: str, seconds: float) -> None:
    assert watch.patience({"NCF_STALL_SECONDS": text}) == seconds
    assert watch.patience({}) == watch.PATIENCE_SECONDS
