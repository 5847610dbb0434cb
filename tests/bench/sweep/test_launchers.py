from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from paths import SUPPORT

from bench.process import reaper
from bench.process.supervise import Stop, new_token, supervise
from bench.suite.model import HostList
from bench.sweep.launchers import Job, LocalLauncher, environment

PYTHON = sys.executable
linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")


def run(code, tmp_path, *, timeout_s=60.0, stop=None, on_line=None, token=None):
    lines = []
    ended = supervise(
        (PYTHON, "-c", code),
        os.environ,
        tmp_path / "log",
        timeout_s,
        Stop() if stop is None else stop,
        on_line or lines.append,
        token or new_token(),
    )
    return ended, lines


def wait_until(true, seconds=20.0):
    """Poll; the machine may be busy, so a slow answer is no failure."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        threading.Event().wait(0.02)
    return true()


def test_output_and_exit_code_return_and_log_starts_with_command(tmp_path):
    ended, lines = run(
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", tmp_path
    )
    assert (ended.cause, ended.exit_code, ended.signal) == ("finished", 7, None)
    assert sorted(lines) == ["err", "out"]
    log = (tmp_path / "log").read_text().splitlines()
    assert log[0].startswith(f"$ {PYTHON} -c")
    assert sorted(log[1:]) == ["err", "out"]


def test_lines_come_whole_whatever_the_pieces_and_the_bytes(tmp_path):
    code = (
        "import sys, time; w = sys.stdout.buffer\n"
        r"w.write(b'one\rtw'); w.flush(); time.sleep(0.25); w.write(b'o\xff\n\nlast'); w.flush()"
    )
    _, lines = run(code, tmp_path)
    assert lines == ["one", "two\ufffd", "last"]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
def test_the_signal_that_ended_a_process_is_named(number, tmp_path):
    ended, _ = run(f"import os; os.kill(os.getpid(), {int(number)})", tmp_path)
    assert (ended.cause, ended.exit_code, ended.signal) == ("finished", None, number.name)


def test_a_program_that_cannot_be_started_is_an_exit_code_with_a_line(tmp_path):
    lines = []
    ended = supervise(
        ("/nonexistent/horovodrun",), {}, tmp_path / "log", 9, Stop(), lines.append, new_token()
    )
    assert ended.exit_code == 127
    assert lines == ["cannot start /nonexistent/horovodrun: No such file or directory"]


def test_a_timeout_ends_the_run_and_keeps_its_output(tmp_path, monkeypatch):
    lines = []

    def clock():  # the time is over when the first line is there, however slow the machine is
        return time.monotonic() + (1000 if lines else 0)

    monkeypatch.setattr("bench.process.supervise.time", SimpleNamespace(monotonic=clock))
    code = "import time; print('started', flush=True); time.sleep(600)"
    ended, _ = run(code, tmp_path, timeout_s=500, on_line=lines.append)
    assert (ended.cause, lines) == ("timeout", ["started"])
    assert ended.timeout_s == 500
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["started", "$ stopped: timeout"]
    assert 1000 <= ended.wall_seconds < 1060


def test_a_stopped_trainer_may_still_write_its_record(tmp_path):
    record = tmp_path / "record"
    code = (
        "import signal, sys, time\n"
        f"end = lambda *_: (open({str(record)!r}, 'w').close(), sys.exit(9))\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    stop = Stop()
    ended, _ = run(code, tmp_path, stop=stop, on_line=lambda _: stop.signals.append("SIGINT"))
    assert ended.cause == "interrupted"
    assert record.exists()


def test_a_second_stop_ends_the_grace_period(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.process.supervise.GRACE_SECONDS", 600)
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True); time.sleep(600)"
    )
    stop = Stop()
    ended, _ = run(code, tmp_path, stop=stop, on_line=lambda _: stop.signals.extend(["SIGINT"] * 2))
    assert (ended.cause, ended.signal) == ("interrupted", "SIGKILL")
    assert ended.wall_seconds < 300


FAMILY = """
import os, subprocess, sys, time
child = "import os, signal, time; os.setsid(); signal.signal(15, signal.SIG_IGN); time.sleep(600)"
family = [subprocess.Popen([sys.executable, "-c", child]) for _ in range(3)]
print("ready", flush=True)
"""


@linux
@pytest.mark.parametrize("rest", ["", "time.sleep(600)", "os.kill(os.getpid(), 9)"])
def test_nothing_of_a_run_is_left_even_in_sessions_of_its_own(rest, tmp_path):
    token, stop, lines = new_token(), Stop(), []

    def on_line(line):
        lines.append(line)
        if "sleep" in rest:
            stop.signals.append("SIGINT")

    ended, _ = run(FAMILY + rest, tmp_path, stop=stop, on_line=on_line, token=token)
    assert lines == ["ready"]
    assert ended.survivors == ()
    assert reaper.marked(token) == []


@linux
def test_an_error_in_the_reader_ends_the_run_too(tmp_path):
    token = new_token()

    def broken(_):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(FAMILY + "time.sleep(600)", tmp_path, on_line=broken, token=token)
    assert reaper.marked(token) == []


@linux
@pytest.mark.parametrize("victim", ["sweep", "reaper"])
def test_everything_dies_with_the_sweep_and_with_the_reaper(victim, tmp_path):
    token = new_token()
    code = (
        "import os, sys; from pathlib import Path; from bench.process.supervise import *\n"
        "def say(line): print(line, flush=True)\n"
        f"supervise((sys.executable, '-c', {FAMILY + 'time.sleep(600)'!r}), os.environ,"
        f" Path({str(tmp_path / 'log')!r}), 600, Stop(), say, {token!r})"
    )
    sweep = subprocess.Popen([PYTHON, "-c", code], cwd=SUPPORT.parent, stdout=subprocess.PIPE)
    assert sweep.stdout.readline() == b"ready\n"
    assert len(reaper.marked(token)) == 5  # reaper, command, three children
    if victim == "sweep":
        sweep.kill()
    else:
        reapers = [
            pid
            for pid in reaper.marked(token)
            if b"reaper.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(reapers[0], signal.SIGKILL)
    assert wait_until(lambda: reaper.marked(token) == [])
    sweep.wait(20)
    sweep.stdout.close()


@linux
def test_a_process_carries_its_mark_from_its_first_moment():
    for _ in range(50):  # the kernel hides the environment during exec, for microseconds
        token = new_token()
        child = subprocess.Popen(["sleep", "600"], env={**os.environ, reaper.MARK: token})
        seen = reaper.marked(token)
        killed = reaper.kill_marked(token)
        assert (seen, killed, child.wait()) == ([child.pid], [], -signal.SIGKILL)


@linux
def test_a_process_without_variables_and_a_dead_one_have_no_environment():
    child = subprocess.Popen(["sleep", "600"], env={})
    started = time.monotonic()
    assert reaper.environment(child.pid) == []
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert reaper.environment(child.pid) == []
    child.wait()
    assert reaper.environment(child.pid) == []
    assert time.monotonic() - started < 0.9, "none of them was waited for"


@linux
def test_processes_without_the_mark_are_never_touched():
    innocent = subprocess.Popen(
        [PYTHON, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={**os.environ, reaper.MARK: new_token(), "OTHER": f"{reaper.MARK}=decoy"},
    )
    try:
        assert reaper.kill_marked("decoy") == []
        assert reaper.kill_marked(new_token()) == []
        assert innocent.poll() is None
    finally:
        innocent.communicate(b"\n")


def test_a_disk_that_takes_no_log_starts_no_process(tmp_path):
    (tmp_path / "logs").write_text("a file where a folder should be")
    with pytest.raises(OSError, match=r"exists|directory"):
        supervise((PYTHON, "-c", ""), {}, tmp_path / "logs" / "x", 9, Stop(), print, new_token())


def job(ranks, tmp_path, precision="fp32"):
    return Job(("--seed", "1"), ranks, precision, tmp_path / "log", 30.0, new_token())


def test_one_rank_is_the_trainer_itself_and_several_go_through_horovodrun(tmp_path):
    launcher = LocalLauncher("/venv/bin/horovodrun", ("python", "-m", "ncf"))
    assert launcher.command(job(1, tmp_path)) == ("python", "-m", "ncf", "train", "--seed", "1")
    assert launcher.command(job(4, tmp_path)) == (
        *("/venv/bin/horovodrun", "-np", "4", "--gloo"),
        *("python", "-m", "ncf", "train", "--seed", "1"),
    )


def test_horovods_own_launcher_is_started_without_its_look_for_gloo(tmp_path):
    launcher = LocalLauncher(str(Path(PYTHON).parent / "horovodrun"), ("ncf",))
    assert launcher.command(job(2, tmp_path))[:5] == (PYTHON, "-m", "ncf.horovodrun", "-np", "2")


def test_host_lists_are_passed_on_and_one_rank_stays_here(tmp_path):
    hosts = HostList.parse("a:8,b:8", "--hosts")
    launcher = LocalLauncher("/v/horovodrun", ("ncf",), hosts=hosts)
    assert launcher.command(job(16, tmp_path))[:6] == (
        *("/v/horovodrun", "-np", "16", "-H", "a:8,b:8", "--gloo"),
    )
    assert launcher.command(job(1, tmp_path))[0] == "ncf"


def test_mpirun_gets_hosts_and_variables_for_remote_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("NCF_STALL_SECONDS", "60")
    monkeypatch.setenv("SECRET", "x")
    hosts = HostList.parse("a:1,b:1", "--hosts")
    launcher = LocalLauncher(None, ("ncf",), 4, "mpirun", "/usr/bin/mpirun", hosts)
    words = launcher.command(job(2, tmp_path))
    assert words[:5] == ("/usr/bin/mpirun", "-np", "2", "-H", "a:1,b:1")
    passed = {words[i + 1] for i, word in enumerate(words) if word == "-x"}
    assert {"NCF_STALL_SECONDS", "OMP_NUM_THREADS", "PATH", "NVIDIA_TF32_OVERRIDE"} <= passed
    assert "SECRET" not in passed
    assert words[-4:] == ("ncf", "train", "--seed", "1")
    alone = launcher.command(job(1, tmp_path))
    assert alone[:3] == ("/usr/bin/mpirun", "-np", "1")
    assert "-H" not in alone


@pytest.mark.parametrize(("user", "asked"), [(0, True), (1000, False)])
def test_mpirun_as_root_is_asked_for_in_so_many_words(user, asked, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    launcher = LocalLauncher(None, ("ncf",), program="mpirun", mpirun="mpirun")
    assert ("--allow-run-as-root" in launcher.command(job(2, tmp_path))) is asked


def test_ranks_on_several_hosts_divide_the_cores_of_their_own_host(tmp_path):
    code = "import os; print(os.environ['OMP_NUM_THREADS'])"
    program = tmp_path / "horovodrun"
    program.write_text('#!/bin/sh\nshift 5\nexec "$@"\n')  # -np 4 -H list --gloo
    program.chmod(0o755)
    hosts = HostList.parse("a:3,b:1", "--hosts")
    launcher = LocalLauncher(str(program), (PYTHON, "-c", code), 6, hosts=hosts)
    lines = []
    assert launcher.launch(job(4, tmp_path), Stop(), lines.append).exit_code == 0
    assert lines == ["2"]


def test_every_rank_runs_with_the_environment_of_the_launcher(tmp_path):
    code = "import os, sys; print(os.environ['HOROVOD_RANK'], os.environ['OMP_NUM_THREADS'])"
    launcher = LocalLauncher(str(SUPPORT / "stub_horovodrun"), (PYTHON, "-c", code), cores=6)
    lines = []
    ended = launcher.launch(job(2, tmp_path), Stop(), lines.append)
    assert ended.exit_code == 0
    assert sorted(lines) == ["[0]<stdout>:0 3", "[1]<stdout>:1 3"]


@pytest.mark.parametrize(("precision", "override"), [("fp32", "0"), ("tf32", None), ("amp", None)])
def test_tf32_is_forbidden_for_fp32_alone_whatever_the_user_has_set(precision, override):
    for inherited in ({}, {"NVIDIA_TF32_OVERRIDE": "0"}, {"NVIDIA_TF32_OVERRIDE": "1"}):
        env = environment(inherited, 1, precision, 2)
        assert env.get("NVIDIA_TF32_OVERRIDE") == override


def test_ranks_share_the_cores_and_the_users_own_settings_win():
    env = environment({"OMP_NUM_THREADS": "7"}, 2, "fp32", 8)
    assert (env["OMP_NUM_THREADS"], env["TF_NUM_INTRAOP_THREADS"]) == ("7", "4")
    assert environment({}, 8, "fp32", 2)["OMP_NUM_THREADS"] == "1"


def test_stop_takes_the_signals_and_gives_them_back():
    before = signal.getsignal(signal.SIGTERM)
    with Stop() as stop:
        assert not stop
        os.kill(os.getpid(), signal.SIGTERM)
        assert wait_until(lambda: bool(stop), 5)
        assert not stop.urgent
        os.kill(os.getpid(), signal.SIGINT)
        assert wait_until(lambda: stop.urgent, 5)
    assert stop.signals == ["SIGTERM", "SIGINT"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_under_nohup_a_lost_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)
