"""Sweeps as processes that are killed, stopped and started twice, with the stub trainer."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from stub_world import World, close, wait_until

from bench.records.store import load

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="looks for orphans in Linux's /proc"
)


def survive(tmp_path, kills, seeds, seed):
    """Kill sweeps at random moments until enough have been hit; then let the last one end."""
    rng = random.Random(seed)
    worlds = [World(tmp_path / "0", seeds)]
    hit = 0
    while hit < kills:
        process = worlds[-1].start(STUB_SECONDS="0.1")
        try:
            process.communicate(timeout=rng.uniform(0.05, 1.5))
        except subprocess.TimeoutExpired:
            process.kill()
            hit += 1
            close(process)
        else:
            assert process.returncode == 0
            worlds[-1].check_complete(seeds)
            worlds.append(World(tmp_path / str(len(worlds)), seeds))
    code, out, err = worlds[-1].finish()
    assert code == 0, out + err
    worlds[-1].check_complete(seeds)
    code, out, _ = worlds[-1].finish()
    assert (code, "nothing to run" in out) == (0, True)


def test_killed_at_any_moment_a_sweep_ends_with_exactly_its_runs(tmp_path):
    survive(tmp_path, kills=8, seeds=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_three_hundred_times_a_sweep_of_sixty_runs_ends_with_sixty(tmp_path):
    survive(tmp_path, kills=300, seeds=15, seed=2)


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_no_trainer_outlives_a_killed_sweep_even_without_a_resume(ranks, tmp_path):
    world = World(tmp_path)
    process = world.start("stub.toml", "--ranks", ranks, "--no-report", STUB_DO="deaf")
    assert wait_until((tmp_path / "trace").exists)
    process.kill()
    close(process)
    assert wait_until(lambda: world.orphans() == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_stores_an_interrupted_run_and_exits_with_130(number, tmp_path):
    world = World(tmp_path, seeds=1)
    process = world.start(STUB_DO="hang")
    assert wait_until((tmp_path / "trace").exists)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert ": interrupted (" in out
    assert "FAILED" not in out, "what the user wished is no failure"
    assert "interrupted (run again to continue)" in out
    assert [a.status for a in load(world.results).attempts] == ["interrupted"]
    assert world.orphans() == []
    assert world.finish()[0] == 0
    world.check_complete(1)


def test_a_stop_while_data_are_prepared_exits_with_130_too(tmp_path):
    world = World(tmp_path, seeds=1)
    process = world.start(STUB_PREPARE="hang")
    while "preparing" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted while the data were being prepared" in out
    assert world.orphans() == []
    assert world.finish()[0] == 0


def test_of_two_sweeps_at_once_the_second_says_who_holds_the_lock(tmp_path):
    world = World(tmp_path, seeds=1)
    first = world.start(STUB_UNTIL=str(tmp_path / "go"))
    assert wait_until((tmp_path / "trace").exists)
    code, out, err = world.finish()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"ncf-bench: error: results/stub is in use by process {first.pid} on " in err
    code, out, _ = world.finish("status", "stub.toml")
    assert f"a sweep is running: process {first.pid}" in out
    (tmp_path / "go").touch()
    first.communicate(timeout=120)
    assert first.returncode == 0
    world.check_complete(1)


def test_after_a_kill_the_next_sweep_says_what_it_took_over(tmp_path):
    world = World(tmp_path, seeds=1)
    first = world.start(STUB_DO="hang")
    assert wait_until((tmp_path / "trace").exists)
    first.kill()
    close(first)
    _, out, _ = world.finish("status", "stub.toml")
    assert f"a sweep was killed: process {first.pid}" in out
    code, out, _ = world.finish()
    assert code == 0
    assert f"took over the lock of process {first.pid}" in out
    assert "stored as interrupted" in out
    world.check_complete(1)


def test_finished_run_of_a_killed_sweep_is_stored(tmp_path):
    world = World(tmp_path, seeds=1)
    first = world.start("stub.toml", "--no-report", "--ranks", "1", STUB_DO="linger")
    assert wait_until((world.results / "tmp" / "run.json").exists)
    first.kill()
    close(first)
    code, out, _ = world.finish()
    assert code == 0
    assert "its record was there and is stored" in out
    attempts = load(world.results).attempts
    assert Counter(a.status for a in attempts) == {"ok": 4}
    assert [a.flags for a in attempts if a.flags] == [("stored_later",)]
    world.check_complete(1)


def test_a_crashing_rank_does_not_stop_the_sweep_and_the_next_run_mends_it(tmp_path):
    world = World(tmp_path)
    (tmp_path / "counts").mkdir()
    env = {"STUB_DO_SEED2": "crash,ok", "STUB_COUNTS": str(tmp_path / "counts")}
    code, out, _ = world.finish("stub.toml", "--no-report", "--ranks", "2", **env)
    assert code == 1
    assert out.count("FAILED: crash (rank 1, exit code 1") == 2
    assert "    | ValueError: rank 1 fell over" in out
    assert "4 of 6 runs are stored; failed: 2 crash (run again to continue)" in out
    assert world.orphans() == []
    code, out, _ = world.finish("stub.toml", "--no-report", **env)
    assert code == 1, "the runs of one rank had their first failure now"
    code, out, _ = world.finish("stub.toml", "--no-report", **env)
    assert code == 0
    attempts = load(world.results).attempts
    assert Counter(a.status for a in attempts) == {"ok": 12, "crash": 4}
    assert {a.attempt for a in attempts if a.seed == 2 and a.ok} == {2}


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("abort", "crash"),
        ("oom", "oom"),
        ("nan", "nan"),
        ("invalid", "invalid"),
        ("tf32", "invalid"),
        ("rubbish", "invalid"),
        ("norecord", "invalid"),
        ("wrongseed", "invalid"),
        ("otherdata", "invalid"),
        ("hang", "timeout"),
    ],
)
def test_every_way_to_fail_has_its_type_on_one_rank_and_on_two(word, status, tmp_path):
    world = World(tmp_path, seeds=1)
    limit = "2" if word == "hang" else "60"
    words = ("stub.toml", "--no-report", "--precision", "amp", "--seeds", "1", "--timeout", limit)
    code, _, err = world.finish(*words, STUB_DO=word)
    assert (code, err) == (1, "")
    attempts = load(world.results).attempts
    assert [(a.cell.ranks, a.status) for a in attempts] == [(1, status), (2, status)]
    assert world.orphans() == []


def test_a_changed_suite_makes_new_cells_and_keeps_the_old_records(tmp_path):
    world = World(tmp_path, seeds=1)
    world.finish()
    text = (tmp_path / "stub.toml").read_text()
    (tmp_path / "stub.toml").write_text(text.replace("epochs = 2", "epochs = 3"))
    _, out, _ = world.finish("plan", "stub.toml")
    assert "4 to run, 0 of 4 stored" in out
    assert "4 stored attempts belong to cells that the suite no longer has" in out
    code, out, err = world.finish()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert ": epochs 2 is now 3): the suite was changed" in err
    assert "--accept_plan_change" in err
    assert len(load(world.results).attempts) == 4, "nothing was run"
    code, out, _ = world.finish("stub.toml", "--no-report", "--accept-plan-change")
    assert code == 0
    assert "accepted: 4 stored attempts belong to cells that stub no longer has" in out
    assert len(load(world.results).attempts) == 8
    code, out, _ = world.finish()
    assert code == 0, "what was accepted is not asked about again"
    assert "nothing to run" in out


def test_a_suite_that_only_grew_is_not_a_changed_one(tmp_path):
    world = World(tmp_path, seeds=1)
    world.finish("stub.toml", "--no-report", "--ranks", "1")
    text = (tmp_path / "stub.toml").read_text()
    (tmp_path / "stub.toml").write_text(text.replace("[1, 2]", "[1, 2, 3]"))
    code, _, err = world.finish("stub.toml", "--no-report", "--ranks", "2")
    assert (code, err) == (0, "")
    assert len(load(world.results).attempts) == 4


def test_json_for_programs_is_alone_on_stdout(tmp_path):
    world = World(tmp_path, seeds=1)
    code, out, err = world.finish("run", "stub.toml", "--no-report", "--json", STUB_DO_SEED1="nan")
    data = json.loads(out)
    assert code == data["exit_code"] == 1
    assert [run["status"] for run in data["ran"]] == ["nan"] * 4
    assert data["ran"][0]["failure"]["exit_code"] == 3
    assert "FAILED: nan" in err
