from __future__ import annotations

import dataclasses
import io
import json
import shutil
import signal
from pathlib import Path

import pytest
from sample_records import ML_100K, make_run, make_suite
from stub_trainer import main as stub

from bench import running
from bench.attempt import Sweep, failure_details, shown
from bench.data import PreparedData
from bench.host import Host
from bench.launch import Ended, Stop, new_token
from bench.plan import Selection, make_plan
from bench.store import Store
from bench.suite import DataIdentity, cells
from bench.sweep import run_sweep
from bench.view import View
from ncf.record import write_json

SUITE = make_suite(train={"epochs": 8, "batch_size": 16384})
HOST = Host("cpu", 2, 8 << 30, no_gpus="none", machine_id="here", horovodrun="/h")


class FakeLauncher:
    """Runs a job in no time: `outcomes` are taken one after the other, then all is well."""

    def __init__(self, *outcomes):
        self.outcomes, self.jobs = list(outcomes), []

    def command(self, job):
        return ("/usr/bin/python", "-m", "ncf", "train", *job.arguments)

    def launch(self, job, stop, on_line):
        self.jobs.append(job)
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.write_text("$ python -m ncf train\nepoch 1/1  HR@10 0.6\nValueError: bad\n")
        on_line("epoch 1/1  HR@10 0.6")
        what = self.outcomes.pop(0) if self.outcomes else "ok"
        if isinstance(what, Exception):
            raise what
        if what == "stop":
            stop.signals.append("SIGINT")
            return Ended("interrupted", 1.0, job.timeout_s)
        if what != "ok":
            return Ended("finished", 2.0, job.timeout_s, exit_code=what)
        given = dict(zip(job.arguments[::2], job.arguments[1::2], strict=True))
        run = make_run(seed=int(given["--seed"]), ranks=job.ranks, precision=job.precision)
        config = {"epochs": 8, "batch_size": 16384, "precision": job.precision}
        record = dataclasses.replace(run, config=config).to_dict()
        write_json(Path(given["--record"]), record)
        return Ended("finished", 3.0, job.timeout_s, exit_code=0)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


class World:
    def __init__(self, folder):
        self.folder, self.store = folder, Store(folder / "results" / "sample")
        self.out, self.err, self.time = io.StringIO(), io.StringIO(), 0.0

    def go(self, *outcomes, suite=SUITE, **options):
        """Plan and run; gives the sweep's result and the launcher."""
        launcher = FakeLauncher(*outcomes)
        data = PreparedData(
            self.folder / "data",
            "ml-100k",
            None,
            DataIdentity(ML_100K.hash, ML_100K.candidates_hash),
        )
        sweep = Sweep(
            suite, self.store, data, HOST, launcher,
            View(self.out, self.err, lambda: self.time), Stop(), 60.0, **options,
        )  # fmt: skip
        plan = make_plan(suite, Selection(), self.store.load().attempts, HOST, data.identity)
        return run_sweep(sweep, plan), launcher

    def good(self):
        return sorted((a.cell.key, a.seed) for a in self.store.load().attempts if a.ok)


EVERYTHING = sorted((cell.key, seed) for cell in cells(SUITE) for seed in SUITE.seeds)


def test_a_sweep_runs_every_cell_and_seed_once(world):
    result, _ = world.go()
    assert world.good() == EVERYTHING
    assert (len(result.attempts), result.failures, result.interrupted) == (12, 0, False)


def test_a_second_sweep_trains_nothing(world):
    world.go()
    _, launcher = world.go()
    assert launcher.jobs == []
    assert world.good() == EVERYTHING


def test_the_trainer_is_told_the_cell_the_seed_the_data_and_where_to_write(world):
    _, launcher = world.go()
    cell_runs = [job for job in launcher.jobs if job.ranks == 2 and job.precision == "amp"]
    words = cell_runs[0].arguments
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given == {
        "--data": str(world.folder / "data"),
        "--epochs": "8",
        "--batch_size": "16384",
        "--precision": "amp",
        "--seed": "1",
        "--record": str(world.store.temporary / "run.json"),
    }
    assert cell_runs[0].timeout_s == 60.0


def test_every_attempt_has_a_mark_of_its_own(world):
    _, launcher = world.go()
    assert len({job.token for job in launcher.jobs}) == 12


def test_a_failure_is_stored_like_a_success_and_the_sweep_goes_on(world):
    result, _ = world.go(1, 3, "ok")
    assert [a.status for a in result.attempts[:3]] == ["crash", "nan", "ok"]
    assert len(result.attempts) == 12
    assert len(world.good()) == 10
    stored = [a for a in world.store.load().attempts if not a.ok]
    assert {a.status for a in stored} == {"crash", "nan"}
    text = world.out.getvalue()
    assert "FAILED: crash (rank 0, exit code 1, 2.0 s): ValueError: bad" in text
    assert "    | ValueError: bad" in text
    assert "    log: " in text


def test_failed_repetitions_are_tried_again_by_the_next_run_and_kept(world):
    world.go(1, 1)
    result, launcher = world.go()
    assert len(launcher.jobs) == 2
    assert [a.attempt for a in result.attempts] == [2, 2]
    assert world.good() == EVERYTHING
    assert len(world.store.load().attempts) == 14


def test_retry_failed_tries_them_once_more_at_the_end(world):
    result, launcher = world.go(1, "ok", 1, retry_failed=True)
    assert len(launcher.jobs) == 14
    assert [a.attempt for a in result.attempts[-2:]] == [2, 2]
    assert world.good() == EVERYTHING
    assert "once more: the 2 runs that failed" in world.out.getvalue()


def test_max_failures_gives_up(world):
    result, launcher = world.go(1, "ok", 1, max_failures=2)
    assert (len(launcher.jobs), result.gave_up) == (3, True)
    assert "stopped after 2 failures (--max_failures)" in world.out.getvalue()


def test_a_stop_stores_the_run_as_interrupted_and_starts_no_other(world):
    result, launcher = world.go("ok", "stop", retry_failed=True)
    assert len(launcher.jobs) == 2
    assert result.interrupted
    assert [a.status for a in world.store.load().attempts if not a.ok] == ["interrupted"]
    world.go()
    assert world.good() == EVERYTHING


def test_every_record_says_what_ran_where_and_how(world):
    result, _ = world.go()
    attempt = result.attempts[0]
    assert attempt.suite == "sample"
    assert attempt.host["cpu_model"] == "cpu"
    assert attempt.host["machine_id"] == "here"
    assert attempt.command[:4] == ("python", "-m", "ncf", "train")
    assert attempt.log == f"logs/{attempt.cell.key}/seed{attempt.seed}-a1.log"
    assert (world.store.folder / attempt.log).exists()
    assert attempt.wall_seconds == 3.0
    assert attempt.run.dataset.hash == ML_100K.hash


def test_the_record_names_no_path_of_the_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command = (
        "/home/me/.venv/bin/python",
        "--data",
        str(tmp_path / "data" / "x"),
        "--o",
        "/mnt/me/y",
    )
    assert shown(command) == ("python", "--data", "data/x", "--o", "y")


def test_no_temporary_file_is_left(world):
    world.go("ok", 1)
    assert not world.store.temporary.exists()


def test_if_a_run_cannot_be_stored_the_sweep_stops_and_what_is_stored_stays(world, monkeypatch):
    from bench import files

    real, calls = files.os.link, []

    def full_after_three(*names):
        calls.append(names)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        return real(*names)

    def no_rename(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "link", full_after_three)
        patch.setattr(Path, "rename", no_rename)
        with pytest.raises(OSError, match="No space"):
            world.go()
    assert len(world.good()) == 3
    said = []
    running.recover(world.store, said.append)
    assert len(said) == 1, "the run that could not be stored is accounted for"
    assert "its record was there and is stored" in said[0]
    assert len(world.good()) == 4
    world.go()
    assert world.good() == EVERYTHING
    attempts = world.store.load().attempts
    assert len(attempts) == 12
    assert [a.flags for a in attempts if a.flags] == [("stored_later",)]


def test_no_run_is_started_that_could_not_be_noted(world):
    world.store.folder.mkdir(parents=True)
    world.store.temporary.write_text("a file where a folder should be")
    launcher = None
    with pytest.raises(OSError, match=r"exists|directory"):
        _, launcher = world.go()
    assert launcher is None
    assert world.good() == []


def test_a_line_per_start_and_end_with_figures_and_time_left(world):
    world.go()
    lines = world.out.getvalue().splitlines()
    assert len(lines) == 24
    assert lines[0].startswith("[ 1/12] ranks=")
    assert lines[1].startswith(
        lines[0] + ": 150,000 samples/s, best HR@10 0.6500, 3.0 s; about 33 s l"
    )
    assert lines[-1].endswith("best HR@10 0.6500, 3.0 s")


def test_epochs_are_echoed_to_a_file_only_now_and_then():
    err = io.StringIO()
    now = [0.0]
    view = View(io.StringIO(), err, lambda: now[0])
    with view.running() as on_line:
        for second in range(60):
            now[0] = float(second)
            on_line(f"[0]<stdout>:epoch {second}/60  loss 0.2")
            on_line("something else")
    assert err.getvalue().splitlines() == [f"    epoch {n}/60  loss 0.2" for n in range(10, 60, 10)]


def test_epochs_are_live_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    err = Terminal()
    with View(io.StringIO(), err).running() as on_line:
        on_line("epoch 3/20  loss 0.2134  HR@10 0.6123")
        on_line("something else")
    assert "epoch 3/20 loss 0.2134 HR@10 0.6123" in err.getvalue()
    assert "something else" not in err.getvalue()


def marked_attempt(world, seed=1):
    result, _ = world.go("stop")
    attempt = result.attempts[0]
    path = world.store.path(attempt.cell.key, attempt.seed, 1)
    path.unlink()
    return attempt, path


def test_a_marker_left_by_a_killed_sweep_becomes_an_interrupted_attempt(world):
    attempt, path = marked_attempt(world)
    running.begin(world.store, attempt, new_token())
    said = []
    running.recover(world.store, said.append)
    (stored,) = world.store.load().attempts
    assert (stored.status, stored.seed, stored.attempt) == ("interrupted", attempt.seed, 1)
    assert "killed" in stored.failure.message
    assert stored.wall_seconds >= 0
    assert "stored as interrupted" in said[0]
    assert path.exists()
    running.recover(world.store, said.append)
    assert len(said) == 1


def test_a_marker_of_an_attempt_that_was_stored_adds_nothing(world):
    result, _ = world.go("stop")
    running.begin(world.store, result.attempts[0], new_token())
    said = []
    running.recover(world.store, said.append)
    assert said == []
    assert len(world.store.load().attempts) == 1


@pytest.mark.parametrize("text", ["", "{", "{}", '{"attempt": {}, "token": "x", "host": "y"}'])
def test_a_marker_that_cannot_be_used_is_removed_and_said_so(text, world):
    world.store.temporary.mkdir(parents=True)
    running.marker(world.store).write_text(text)
    said = []
    running.recover(world.store, said.append)
    assert len(said) == 1
    assert not running.marker(world.store).exists()
    assert world.store.load().attempts == []


def test_processes_of_a_killed_sweep_are_ended_by_the_next(world):
    import os
    import subprocess
    import sys

    from bench import guard

    token = new_token()
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, guard.MARK: token},
        start_new_session=True,
    )
    attempt, _ = marked_attempt(world)
    running.begin(world.store, attempt, token)
    running.recover(world.store, lambda _: None)
    assert left.wait(20) == -signal.SIGKILL


def test_processes_are_not_looked_for_when_another_machine_was_killed(world, monkeypatch):
    attempt, _ = marked_attempt(world)
    running.begin(world.store, attempt, "token")
    content = json.loads(running.marker(world.store).read_text())
    running.marker(world.store).write_text(json.dumps({**content, "host": "dgx-7"}))
    monkeypatch.setattr(running.guard, "kill_marked", lambda _: pytest.fail("looked for"))
    running.recover(world.store, lambda _: None)
    assert len(world.store.load().attempts) == 1


def test_a_lost_log_does_not_stop_the_story(world):
    result, _ = world.go(1)
    shutil.rmtree(world.store.folder / "logs")
    assert "log: " in failure_details(world.store, result.attempts[0])


def test_the_stub_is_a_stand_in_for_the_trainer(capsys):
    assert stub(["options", "--json"]) == 0
    assert "batch_size" in capsys.readouterr().out
