from __future__ import annotations

import dataclasses
import io
import json
import shutil
import signal
import threading
from pathlib import Path

import pytest
from fake_nvml import FakeNvml, card
from sample_records import ML_100K, make_run, make_suite
from stub_trainer import main as stub

from bench import running
from bench.attempt import Sweep, failure_details, shown
from bench.data import PreparedData
from bench.gpus import Gpu
from bench.host import Host
from bench.launch import Ended, Stop, new_token
from bench.plan import Selection, make_plan
from bench.store import Store
from bench.suite import DataIdentity, Rule, cells
from bench.sweep import run_sweep
from bench.telemetry import Monitor
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

    def go(
        self,
        *outcomes,
        suite=SUITE,
        host=HOST,
        launcher=None,
        rerun=None,
        timeout_s=60.0,
        **options,
    ):
        """Plan and run; gives the sweep's result and the launcher."""
        launcher = launcher or FakeLauncher(*outcomes)
        data = PreparedData(
            self.folder / "data",
            "ml-100k",
            None,
            DataIdentity(ML_100K.hash, ML_100K.candidates_hash),
        )
        sweep = Sweep(
            suite, self.store, data, host, launcher,
            View(self.out, self.err, lambda: self.time), Stop(), timeout_s, **options,
        )  # fmt: skip
        wanted = Selection(rerun=rerun)
        plan = make_plan(suite, wanted, self.store.load().attempts, host, data.identity)
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


def test_the_suite_can_ask_for_retries_and_a_limit_of_failures(world):
    _, launcher = world.go(1, 1, 1, suite=make_suite(train=SUITE.train, retries=2))
    assert len(launcher.jobs) == 15
    assert world.good() == EVERYTHING
    other = World(world.folder / "other")
    result, _ = other.go(1, 1, suite=make_suite(train=SUITE.train, max_failures=2))
    assert result.gave_up


def test_what_fails_every_time_is_retried_as_often_as_the_suite_says_and_no_more(world):
    suite = make_suite(train=SUITE.train, axes={"precision": ("fp32",)}, seeds=(1,), retries=2)
    result, _ = world.go(1, 3, 1, 1, suite=suite)
    assert [a.status for a in result.attempts] == ["crash", "nan", "crash"]


def test_between_runs_the_machine_may_cool_down(world):
    pauses = []
    world.go(suite=make_suite(train=SUITE.train, seeds=(1,), cooldown_s=0.01), sleep=pauses.append)
    assert pauses
    assert max(pauses) <= 0.01


def test_a_cell_can_have_a_timeout_of_its_own(world):
    rule = Rule({"ranks": (2,)}, {}, 600.0)
    suite = make_suite(train=SUITE.train, overrides=(rule,))
    launcher = FakeLauncher()
    world.go(suite=suite, launcher=launcher, timeout_s=None)
    assert {(job.ranks, job.timeout_s) for job in launcher.jobs} == {(1, 300.0), (2, 600.0)}


def statuses(result):
    return sorted((a.cell.key, a.seed) for a in result.attempts)


def test_rerun_makes_only_what_it_names(world):
    first, _ = world.go(1, 4, 3)
    failed = [(a.cell.key, a.seed) for a in first.attempts if not a.ok]
    invalid = [(a.cell.key, a.seed) for a in first.attempts if a.status == "invalid"]
    assert len(invalid) == 1
    result, _ = world.go(4, rerun="invalid")
    assert statuses(result) == invalid
    assert len(world.good()) == 9, "it was invalid again"
    result, _ = world.go(rerun="failed")
    assert statuses(result) == sorted(failed)
    assert world.good() == EVERYTHING
    result, _ = world.go(rerun="failed")
    assert result.attempts == []
    result, _ = world.go(rerun="all")
    assert statuses(result) == EVERYTHING
    assert len(world.store.load().attempts) == 12 + 1 + 3 + 12, "and every attempt is kept"


def test_with_the_driver_watching_every_run_has_telemetry(world):
    monitor = Monitor(3600.0, FakeNvml(card(), card(uuid="GPU-bbbb")))
    gpus = (Gpu("NVIDIA A100", "GPU-aaaa"), Gpu("NVIDIA A100", "GPU-bbbb"))
    host = dataclasses.replace(HOST, gpus=gpus, driver="535")
    result, _ = world.go(host=host, monitor=monitor)
    for attempt in world.store.load().attempts:
        found = attempt.telemetry
        assert [gpu["rank"] for gpu in found["gpus"]] == list(range(attempt.cell.ranks))
        assert found["gpus"][0]["uuid"] == "GPU-aaaa"
        assert {"before", "after", "cpu"} <= set(found)
    assert {a.flags for a in result.attempts} == {()}


def test_a_run_on_a_card_that_protected_itself_is_invalid_and_kept(world):
    monitor = Monitor(3600.0, FakeNvml(card(reasons=0x20)))
    host = dataclasses.replace(HOST, gpus=(Gpu("NVIDIA A100", "GPU-aaaa"),), driver="535")
    suite = make_suite(train=SUITE.train, axes={"precision": ("fp32",)}, seeds=(1,))
    world.go(host=host, monitor=monitor, suite=suite)
    (attempt,) = world.store.load().attempts
    assert (attempt.status, attempt.flags) == ("invalid", ("slowed_down",))
    assert "sw_thermal_slowdown in 100% of the readings of rank 0's GPU" in attempt.failure.message
    assert attempt.run is not None, "what it measured is kept, and enters no table"
    assert not attempt.ok


def test_where_accuracy_is_measured_every_free_gpu_takes_one_run(world):
    gpus = tuple(Gpu("NVIDIA A100", f"GPU-{n}") for n in range(3))
    nvml = FakeNvml(*(card(uuid=gpu.uuid) for gpu in gpus))
    host = dataclasses.replace(HOST, gpus=gpus, driver="535", cores=12)
    suite = make_suite(train=SUITE.train, measures="accuracy", seeds=tuple(range(1, 11)))
    first, together = [], threading.Barrier(3, timeout=20)

    class Together(FakeLauncher):
        def launch(self, job, stop, on_line):
            if len(first) < 3:
                first.append(job)
                together.wait()
            return super().launch(job, stop, on_line)

    launcher = Together()
    result, _ = world.go(suite=suite, host=host, launcher=launcher, monitor=Monitor(3600.0, nvml))
    assert result.failures == 0
    assert len(world.good()) == 40
    narrow = [job for job in launcher.jobs if job.ranks == 1]
    assert {job.visible for job in narrow} == {("GPU-0",), ("GPU-1",), ("GPU-2",)}
    assert {job.cores for job in narrow} == {4}
    wide = [job for job in launcher.jobs if job.ranks == 2]
    assert {job.visible for job in wide} == {()}, "several ranks have the machine to themselves"
    assert len({a.telemetry["gpus"][0]["uuid"] for a in result.attempts}) == 3
    assert not world.store.temporary.exists()


def test_an_error_of_storing_in_one_lane_ends_the_sweep(world, monkeypatch):
    gpus = tuple(Gpu("NVIDIA A100", f"GPU-{n}") for n in range(2))
    host = dataclasses.replace(HOST, gpus=gpus, driver="535")
    nvml = FakeNvml(*(card(uuid=gpu.uuid) for gpu in gpus))
    suite = make_suite(train=SUITE.train, axes={"precision": ("fp32",)}, measures="accuracy")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(OSError, match="No space"):
        world.go(suite=suite, host=host, monitor=Monitor(3600.0, nvml))


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


def test_a_bad_run_that_could_not_be_stored_is_not_taken_for_a_good_one_later(world, monkeypatch):
    monitor = Monitor(3600.0, FakeNvml(card(reasons=0x20)))
    host = dataclasses.replace(HOST, gpus=(Gpu("NVIDIA A100", "GPU-aaaa"),), driver="535")
    suite = make_suite(train=SUITE.train, axes={"precision": ("fp32",)}, seeds=(1,))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", full)
        with pytest.raises(OSError, match="No space"):
            world.go(host=host, monitor=monitor, suite=suite)
    running.recover(world.store, lambda _: None)
    (attempt,) = world.store.load().attempts
    assert (attempt.status, attempt.run) == ("interrupted", None)


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


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_several_runs_have_a_line_each_and_the_sweep_one_below(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal()
    view = View(io.StringIO(), err)
    view.progress("3 of 12 runs done, 1 failed, 2 cells to go; about 2 min left")
    with view.running("[4/12] fp32 seed 1") as first, view.running("[5/12] amp seed 1") as second:
        first("epoch 1/20  loss 0.3  HR@10 0.5000  100,000 samples/s")
        second("epoch 2/20  loss 0.2  HR@10 0.6000  250,000 samples/s")
        drawn = err.getvalue().rpartition("[4/12]")[2]
        assert "HR@10 0.5000 100,000 samples/s" in drawn
        assert "[5/12] amp seed 1: epoch 2/20 loss 0.2 HR@10 0.6000 250,000 samples/s" in drawn
        assert drawn.index("[5/12]") < drawn.index("3 of 12 runs done, 1 failed")
    assert view._live is None, "the lines are gone with the last run"


def test_what_is_said_meanwhile_stays_above_the_live_lines(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    view = View(terminal, terminal)
    with view.running("[1/2] a"), view.running("[2/2] b"):
        view.say("[1/2] a: [bold]as it is[/bold]")
    assert "[1/2] a: [bold]as it is[/bold]" in terminal.getvalue()


def test_a_redirected_output_gets_its_lines_and_the_terminal_the_live_ones(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, err = io.StringIO(), Terminal()
    view = View(out, err)
    with view.running("[1/1] a") as on_line:
        view.say("said")
        on_line("epoch 1/2")
    assert out.getvalue() == "said\n"
    assert "epoch 1/2" in err.getvalue()


def test_epochs_are_live_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
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
