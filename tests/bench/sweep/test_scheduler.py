"""A sweep in one process: what is run, retried, rerun, watched and stored."""

from __future__ import annotations

import dataclasses
import shutil
import threading

import pytest
from fake_nvml import FakeNvml, card
from sample_records import ML_100K, make_suite
from stub_trainer import main as stub
from sweep_world import EVERYTHING, HOST, SUITE, FakeLauncher, World, a_world  # noqa: F401 - a fixture

from bench.host.gpus import Gpu
from bench.host.telemetry import Monitor
from bench.records.store import Store
from bench.suite.model import Rule
from bench.sweep.execute import failure_details, shown


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
    assert "retrying the 2 failed runs" in world.out.getvalue()


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


def test_failing_run_is_retried_as_often_as_the_suite_says(world):
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


def test_a_lost_log_does_not_stop_the_story(world):
    result, _ = world.go(1)
    shutil.rmtree(world.store.folder / "logs")
    assert "log: " in failure_details(world.store, result.attempts[0])


def test_the_stub_is_a_stand_in_for_the_trainer(capsys):
    assert stub(["options", "--json"]) == 0
    assert "batch_size" in capsys.readouterr().out
