from __future__ import annotations

import dataclasses
import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from sample_records import make_attempt, make_run, make_suite

from bench import files
from bench.records.attempt import Attempt, Failure
from bench.records.store import Store, load
from bench.suite.model import cells

CELL = cells(make_suite())[3]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "sample")


def good(seed=1, number=1):
    run = make_run(seed=seed, ranks=2, precision="amp")
    return make_attempt(CELL, seed, run, number=number)


def test_an_attempt_comes_back_as_it_was_written(store):
    written = dataclasses.replace(
        good(), command=("python", "-m", "ncf"), log="logs/x.log", telemetry={"power_w": None}
    )
    path = store.write(written)
    assert path == store.folder / "records" / CELL.key / "seed1-a1.json"
    (read,) = store.load().attempts
    assert read.run == written.run
    assert read == written
    assert read.cell.axes == {"ranks": 2, "precision": "amp"}


def test_a_failed_attempt_comes_back_too(store):
    failed = dataclasses.replace(
        make_attempt(CELL, 2, status="oom"), failure=Failure("OOM", rank=1, exit_code=1)
    )
    store.write(failed)
    (read,) = load(store.folder).attempts
    assert read.failure == Failure("OOM", rank=1, exit_code=1)
    assert not read.ok
    assert read.run is None


def test_lists_in_a_cell_come_back_as_the_suite_has_them(store):
    from bench.suite.model import DataSpec, make_cell

    cell = make_cell({"layers": (64, 32)}, {"layers": (4, 2)}, DataSpec("tiny"))
    store.write(make_attempt(cell, 1))
    (read,) = store.load().attempts
    assert read.cell.axes == {"layers": (64, 32)}
    assert read.cell.options == {"layers": (4, 2)}


def test_the_file_has_the_promised_form(store):
    data = json.loads(store.write(good()).read_text(encoding="utf-8"))
    assert list(data) == [
        "schema_version",
        "kind",
        "suite",
        "cell",
        "seed",
        "attempt",
        "status",
        "failure",
        "started_at",
        "finished_at",
        "wall_seconds",
        "command",
        "log",
        "host",
        "flags",
        "telemetry",
        "run",
        "sha256",
    ]
    assert (data["schema_version"], data["kind"], data["telemetry"]) == (1, "attempt", None)
    assert data["cell"]["key"] == CELL.key


def test_an_attempt_of_before_there_were_flags_is_read(store):
    path = store.write(good())
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["flags"], data["sha256"]
    path.write_text(json.dumps(data), encoding="utf-8")
    (read,) = store.load().attempts
    assert (read.ok, read.flags) == (True, ())


def test_a_later_field_that_is_missing_in_an_old_record_has_its_default(store):
    path = store.write(good())
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["flags"], data["sha256"]
    for name in ("false_negatives", "negatives_checked", "inference", "roofline"):
        del data["run"][name]
    path.write_text(json.dumps(data), encoding="utf-8")
    (read,) = store.load().attempts
    assert (read.ok, read.run.inference, read.run.roofline) == (True, None, None)


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "results").glob("*/records")), ids=lambda path: path.parent.name
)
def test_committed_records_load(folder):
    loaded = load(folder.parent)
    assert loaded.unreadable == []
    assert loaded.attempts


def test_equal_parts_of_records_are_kept_in_memory_once(store):
    store.write(good(seed=1))
    store.write(good(seed=2))
    first, second = store.load().attempts
    assert first.host is second.host
    assert first.cell is second.cell
    assert first.run.versions is second.run.versions
    assert first.run.config is second.run.config


def test_a_failed_run_and_one_without_epochs_are_read(store):
    store.write(make_attempt(CELL, 1, status="oom"))
    store.write(dataclasses.replace(good(), seed=2, run=dataclasses.replace(good().run, epochs=())))
    assert [a.status for a in store.load().attempts] == ["oom", "ok"]


def test_a_file_in_another_layout_is_read(store):
    path = store.write(good())
    data = json.loads(path.read_text(encoding="utf-8"))
    for indent in (None, 1, 4):
        path.write_text(json.dumps(data, indent=indent), encoding="utf-8")
        assert len(store.load().attempts) == 1


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_half_a_file_is_not_taken_for_a_whole_one(share, store):
    path = store.write(good())
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    loaded = store.load()
    assert (loaded.attempts, len(loaded.unreadable)) == ([], 1)


def test_damage_inside_a_number_is_seen(store):
    path = store.write(good())
    path.write_bytes(path.read_bytes().replace(b'"loss": 0.', b'"loss": }.', 1))
    assert len(store.load().unreadable) == 1


def test_flags_come_back(store):
    store.write(dataclasses.replace(good(), flags=("busy_host",)))
    assert store.load().attempts[0].flags == ("busy_host",)


def test_an_attempt_is_never_overwritten(store):
    path = store.write(good())
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        store.write(make_attempt(CELL, 1, status="crash"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["seed1-a1.json"]


def test_an_attempt_is_not_overwritten_where_there_are_no_hard_links(store, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(files.os, "link", refuse)
    path = store.write(good())
    with pytest.raises(FileExistsError):
        store.write(good())
    assert [p.name for p in path.parent.iterdir()] == ["seed1-a1.json"]


def test_numbers_go_up_and_count_unreadable_files(store):
    assert store.next_attempt(CELL.key, 1) == 1
    store.write(good(number=1))
    broken = store.path(CELL.key, 1, 12)
    broken.write_text("{", encoding="utf-8")
    store.write(good(seed=2))
    assert store.next_attempt(CELL.key, 1) == 13
    assert store.next_attempt(CELL.key, 2) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"schema_version": 1, "kind": "att', "not JSON"),
        ("[]", "Expected `object`, got `array`"),
        ('{"schema_version": 1, "kind": "run"}', "kind 'run' is not 'attempt'"),
        ('{"schema_version": 99, "kind": "attempt"}', "schema_version 99"),
        ('{"schema_version": 1, "kind": "attempt"}', "missing required field `suite`"),
        (b"\xff\xfe".decode("latin-1"), "not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_listed_and_the_rest_is_kept(store, text, reason):
    store.write(good(seed=1))
    bad = store.path(CELL.key, 2, 1)
    bad.write_text(text, encoding="latin-1")
    loaded = store.load()
    assert [attempt.seed for attempt in loaded.attempts] == [1]
    ((path, why),) = loaded.unreadable
    assert path == bad
    assert reason in why


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "fine"}, "status 'fine' is none of"),
        ({"run": None}, "status ok without the run's record"),
        ({"run": {"schema_version": 1}}, "missing required field `status` - at `$.run`"),
        ({"wall_seconds": "long"}, "Expected `float`, got `str` - at `$.wall_seconds`"),
        ({"failure": {"what": 1}}, "missing required field `message` - at `$.failure`"),
        ({"cell": []}, "Expected `object`, got `array` - at `$.cell`"),
        ({"seed": "1"}, "Expected `int`, got `str` - at `$.seed`"),
        ({"seed": 5}, "stored under cell"),
    ],
)
def test_a_record_that_contradicts_itself_or_its_place_is_listed(store, change, reason):
    path = store.write(good())
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, **change}), encoding="utf-8")
    loaded = store.load()
    assert loaded.attempts == []
    assert reason in loaded.unreadable[0][1]


def test_a_record_copied_under_another_seed_does_not_count_twice(store):
    path = store.write(good(seed=1))
    store.path(CELL.key, 2, 1).write_bytes(path.read_bytes())
    loaded = store.load()
    assert len(loaded.attempts) == 1
    assert "but contains cell" in loaded.unreadable[0][1]


def test_a_later_version_may_add_keys(store):
    path = store.write(good())
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "new": 1}), encoding="utf-8")
    assert len(store.load().attempts) == 1


def test_nothing_stored_is_an_empty_store(tmp_path):
    assert load(tmp_path / "none") == load(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "README").write_text("not a cell")
    assert load(tmp_path).attempts == []


def test_temporary_files_of_a_killed_sweep_are_ignored_and_can_be_removed(store):
    path = store.write(good())
    left = path.parent / ".seed2-a1.json.abc.tmp"
    left.write_text('{"half":')
    assert len(store.load().attempts) == 1
    assert store.load().unreadable == []
    store.remove_leftovers()
    assert [p.name for p in path.parent.iterdir()] == ["seed1-a1.json"]


def test_a_full_disk_changes_nothing(store, monkeypatch):
    store.write(good(seed=1))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.write(good(seed=2))
    assert [p.name for p in (store.records / CELL.key).iterdir()] == ["seed1-a1.json"]
    store.write(good(seed=2))
    assert len(store.load().attempts) == 2


def test_a_write_that_the_system_cuts_short_leaves_no_file(tmp_path):
    # RLIMIT_FSIZE makes the kernel refuse the middle of a file, as a full disk does.
    code = (
        "import sys; from pathlib import Path; from bench.files import write_new\n"
        "write_new(Path(sys.argv[1]), 'x' * 100_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "record.json")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_text_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    real_sync, real_link = os.fsync, os.link
    monkeypatch.setattr(files.os, "fsync", lambda fd: (events.append("sync"), real_sync(fd)))
    monkeypatch.setattr(files.os, "link", lambda a, b: (events.append("name"), real_link(a, b)))
    files.write_new(tmp_path / "a.json", "text")
    assert events == ["sync", "name", "sync"]


def test_not_a_number_is_refused(store):
    with pytest.raises(ValueError, match="JSON"):
        store.write(dataclasses.replace(good(), wall_seconds=float("nan")))
    assert store.load() == load(Path("/nonexistent"))


def test_only_ok_with_a_run_is_good():
    assert good().ok
    run = make_run()
    assert not dataclasses.replace(good(), status="invalid").ok
    assert not Attempt("s", CELL, 1, 1, "crash", "", "", 0.0, run=run).ok
