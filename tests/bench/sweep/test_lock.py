from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from paths import ROOT
from stub_world import wait_until

from bench.errors import UserError
from bench.sweep import lock

HOLD = (
    "import sys; from pathlib import Path; from bench.sweep import lock\n"
    "with lock.held(Path(sys.argv[1]), print):\n    print('held', flush=True); sys.stdin.read()"
)


def holder_process(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def other(tmp_path):
    process = holder_process(tmp_path / "smoke")
    yield process
    process.communicate()


def test_a_second_sweep_is_told_who_holds_the_lock_and_since_when(tmp_path, other):
    with pytest.raises(UserError) as caught, lock.held(tmp_path / "smoke", print):
        pass
    message = str(caught.value)
    assert f"is in use by process {other.pid} on {socket.gethostname()} since 20" in message
    assert "\n" not in message
    found = lock.holder(tmp_path / "smoke")
    assert (found["pid"], found["alive"]) == (other.pid, True)


def test_the_lock_of_a_killed_sweep_is_taken_over_and_said_so(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert lock.holder(tmp_path / "smoke")["alive"] is False
    said = []
    with lock.held(tmp_path / "smoke", said.append):
        assert lock.holder(tmp_path / "smoke")["pid"] == os.getpid()
    (line,) = said
    assert f"took over the lock of process {other.pid}" in line


def test_a_clean_end_leaves_nothing_and_says_nothing(tmp_path):
    said = []
    for _ in range(2):
        with lock.held(tmp_path / "smoke", said.append):
            assert (tmp_path / "smoke" / ".lock").exists()
        assert not (tmp_path / "smoke").exists(), "an empty folder is tidied away"
    assert said == []
    assert lock.holder(tmp_path / "smoke") is None


def test_a_folder_with_content_stays(tmp_path):
    with lock.held(tmp_path, print):
        (tmp_path / "records").mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_an_error_inside_releases_the_lock(tmp_path):
    with pytest.raises(ZeroDivisionError), lock.held(tmp_path / "smoke", print):
        raise ZeroDivisionError
    with lock.held(tmp_path / "smoke", print):
        pass


def test_another_machine_on_a_shared_folder_is_never_taken_for_dead(tmp_path):
    there = {"pid": 1, "host": "dgx-7", "started_at": "2026-11-30T08:00:00Z"}
    (tmp_path / ".lock").write_text(json.dumps(there))
    gone = r"on dgx-7 since 2026.*if that sweep is gone, delete"
    with pytest.raises(UserError, match=gone), lock.held(tmp_path, print):
        pass
    assert lock.holder(tmp_path)["alive"] is None
    assert json.loads((tmp_path / ".lock").read_text()) == there


def silence(path, seconds):
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_another_machine_without_heartbeat_is_taken_over_and_said_so(tmp_path):
    there = {"pid": 1, "host": "dgx-7", "started_at": "2026-11-30T08:00:00Z"}
    (tmp_path / ".lock").write_text(json.dumps(there))
    silence(tmp_path / ".lock", lock.STALE_S - 30)
    with (
        pytest.raises(UserError, match=r"last heartbeat 1[45]. s ago"),
        lock.held(tmp_path, print),
    ):
        pass
    silence(tmp_path / ".lock", 60)
    said = []
    with lock.held(tmp_path, said.append):
        assert lock.holder(tmp_path)["pid"] == os.getpid()
    (line,) = said
    assert "took over the lock of process 1 on dgx-7, without a heartbeat for" in line
    assert not tmp_path.exists(), "nothing came of it"


def test_the_holder_touches_its_lock(monkeypatch, tmp_path):
    monkeypatch.setattr(lock, "BEAT_S", 0.01)
    with lock.held(tmp_path, print):
        path = tmp_path / ".lock"
        silence(path, 1000)
        old = path.stat().st_mtime
        assert wait_until(lambda: path.stat().st_mtime > old + 900)


def test_sweep_notices_a_lost_lock_and_leaves_it_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(lock, "BEAT_S", 0.01)
    lost = threading.Event()
    with lock.held(tmp_path, print, on_lost=lost.set):
        (tmp_path / ".lock").write_text('{"pid": 1, "host": "dgx-7"}')
        assert lost.wait(10)
    assert json.loads((tmp_path / ".lock").read_text())["host"] == "dgx-7"


def test_a_later_process_with_the_same_number_is_not_the_holder(monkeypatch, tmp_path):
    # Where the file system knows no locks, the text alone decides.
    def no_locks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    mine = lock._myself()
    (tmp_path / ".lock").write_text(json.dumps(mine))
    with pytest.raises(UserError, match="in use"), lock.held(tmp_path, print):
        pass
    (tmp_path / ".lock").write_text(json.dumps({**mine, "born": "an earlier boot/1"}))
    with lock.held(tmp_path, print):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}'])
def test_a_lock_file_that_says_nothing_useful_does_not_block_for_ever(text, tmp_path):
    (tmp_path / ".lock").write_text(text)
    said = []
    if text == '{"pid": "x"}':  # no host: it may be anybody's
        with pytest.raises(UserError), lock.held(tmp_path, said.append):
            pass
        return
    with lock.held(tmp_path, said.append):
        pass


def test_of_many_sweeps_at_once_one_has_the_lock_at_any_time(tmp_path):
    inside, most, entered = [], [], []

    def compete():
        for _ in range(25):
            with contextlib.suppress(UserError), lock.held(tmp_path / "smoke", print):
                inside.append(1)
                most.append(len(inside))
                entered.append(1)
                inside.pop()

    threads = [threading.Thread(target=compete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert entered


def test_unwritable_folder_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"directory|exists"), lock.held(tmp_path / "file", print):
        pass
