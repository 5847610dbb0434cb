"""Runs that could not be stored, or whose sweep was killed, are accounted for by the next."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path

import pytest
from fake_nvml import FakeNvml, card
from sample_records import make_suite
from sweep_world import EVERYTHING, HOST, SUITE, a_world  # noqa: F401 - a fixture

from bench.host.gpus import Gpu
from bench.host.telemetry import Monitor
from bench.process.supervise import new_token
from bench.records.store import Store
from bench.sweep import recovery


def test_sweep_stops_when_a_run_cannot_be_stored(world, monkeypatch):
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
    recovery.recover(world.store, said.append)
    assert len(said) == 1, "the run that could not be stored is accounted for"
    assert "its record was there and is stored" in said[0]
    assert len(world.good()) == 4
    world.go()
    assert world.good() == EVERYTHING
    attempts = world.store.load().attempts
    assert len(attempts) == 12
    assert [a.flags for a in attempts if a.flags] == [("stored_later",)]


def test_unstored_bad_run_is_not_taken_for_a_good_one(world, monkeypatch):
    monitor = Monitor(3600.0, FakeNvml(card(reasons=0x20)))
    host = dataclasses.replace(HOST, gpus=(Gpu("NVIDIA A100", "GPU-aaaa"),), driver="535")
    suite = make_suite(train=SUITE.train, axes={"precision": ("fp32",)}, seeds=(1,))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", full)
        with pytest.raises(OSError, match="No space"):
            world.go(host=host, monitor=monitor, suite=suite)
    recovery.recover(world.store, lambda _: None)
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


def marked_attempt(world, seed=1):
    result, _ = world.go("stop")
    attempt = result.attempts[0]
    path = world.store.path(attempt.cell.key, attempt.seed, 1)
    path.unlink()
    return attempt, path


def test_a_marker_left_by_a_killed_sweep_becomes_an_interrupted_attempt(world):
    attempt, path = marked_attempt(world)
    recovery.begin(world.store, attempt, new_token())
    said = []
    recovery.recover(world.store, said.append)
    (stored,) = world.store.load().attempts
    assert (stored.status, stored.seed, stored.attempt) == ("interrupted", attempt.seed, 1)
    assert "killed" in stored.failure.message
    assert stored.wall_seconds >= 0
    assert "stored as interrupted" in said[0]
    assert path.exists()
    recovery.recover(world.store, said.append)
    assert len(said) == 1


def test_a_marker_of_an_attempt_that_was_stored_adds_nothing(world):
    result, _ = world.go("stop")
    recovery.begin(world.store, result.attempts[0], new_token())
    said = []
    recovery.recover(world.store, said.append)
    assert said == []
    assert len(world.store.load().attempts) == 1


@pytest.mark.parametrize("text", ["", "{", "{}", '{"attempt": {}, "token": "x", "host": "y"}'])
def test_a_marker_that_cannot_be_used_is_removed_and_said_so(text, world):
    world.store.temporary.mkdir(parents=True)
    recovery.marker(world.store).write_text(text)
    said = []
    recovery.recover(world.store, said.append)
    assert len(said) == 1
    assert not recovery.marker(world.store).exists()
    assert world.store.load().attempts == []


def test_processes_of_a_killed_sweep_are_ended_by_the_next(world):
    import os
    import subprocess
    import sys

    from bench.process import reaper

    token = new_token()
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, reaper.MARK: token},
        start_new_session=True,
    )
    attempt, _ = marked_attempt(world)
    recovery.begin(world.store, attempt, token)
    recovery.recover(world.store, lambda _: None)
    assert left.wait(20) == -signal.SIGKILL


def test_processes_are_not_looked_for_when_another_machine_was_killed(world, monkeypatch):
    attempt, _ = marked_attempt(world)
    recovery.begin(world.store, attempt, "token")
    content = json.loads(recovery.marker(world.store).read_text())
    recovery.marker(world.store).write_text(json.dumps({**content, "host": "dgx-7"}))
    monkeypatch.setattr(recovery.reaper, "kill_marked", lambda _: pytest.fail("looked for"))
    recovery.recover(world.store, lambda _: None)
    assert len(world.store.load().attempts) == 1
