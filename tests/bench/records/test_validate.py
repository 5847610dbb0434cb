from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from paths import ROOT, SUPPORT
from sample_records import make_attempt, make_run, make_suite

from bench.__main__ import main
from bench.cli.check import check_folder
from bench.records.store import Store, is_sealed, sealed
from bench.records.validate import lint
from bench.suite.model import cells
from ncf.record import write_json

SUITE = make_suite(train={"epochs": 8, "batch_size": 16384})
CELL = cells(SUITE)[0]
CONFIG = {"epochs": 8, "batch_size": 16384, "precision": "fp32"}
STUB = (sys.executable, str(SUPPORT / "stub_trainer.py"))


def good(**changes):
    run = dataclasses.replace(make_run(), config=CONFIG)
    return dataclasses.replace(make_attempt(CELL, 1, run), **changes)


def as_written(attempt):
    return json.loads(json.dumps(attempt.to_dict()))


def problems(data, key=CELL.key, seed=1, number=1, suite=SUITE):
    return lint(json.dumps(data).encode(), key, seed, number, suite)


def changed(edit):
    data = as_written(good())
    edit(data)
    return data


def test_what_the_sweep_writes_is_sound():
    assert problems(as_written(good())) == []
    failed = make_attempt(CELL, 1, status="oom")
    assert problems(as_written(failed)) == []


def test_any_change_after_writing_is_seen_to_the_byte():
    text = sealed(json.dumps(as_written(good()), indent=1))
    content = text.encode()
    assert is_sealed(content) is True
    assert json.loads(text)["cell"]["key"] == CELL.key
    for place in range(0, len(content), 97):
        flipped = bytearray(content)
        flipped[place] ^= 1
        assert is_sealed(bytes(flipped)) is not True, place
    assert is_sealed(content[:-1]) is False
    assert is_sealed(content + b" ") is False
    assert is_sealed(json.dumps(as_written(good()), indent=1).encode()) is None


def epoch(**values):
    return lambda data: data["run"]["epochs"][1].update(values)


def run(**values):
    return lambda data: data["run"].update(values)


def dataset(**values):
    return lambda data: data["run"]["dataset"].update(values)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (epoch(hr_at_k=1.2), "epoch 2: hr_at_k 1.2 is not between 0 and 1"),
        (epoch(ndcg_at_k=0.99), "epoch 2: NDCG 0.99 above HR 0.6"),
        (epoch(loss=float("nan")), "not JSON"),
        (epoch(timed_samples=10**9), "timed samples of 495285"),
        (epoch(timed_seconds=1e9), "timed seconds of"),
        (epoch(epoch=7), "epochs 1, 7, 3 are not consecutive"),
        (run(epochs=[]), "epochs (none)"),
        (run(peak_memory_bytes_per_rank=[1, 2]), "memory of 2 ranks; 1 trained"),
        (run(seed=4), "asked for seed 1, used 4"),
        (run(world_size=2), "asked for 1 ranks, 2 trained"),
        (run(config={**CONFIG, "epochs": 9}), "asked for epochs 8, used 9"),
        (run(schema_version=99), "schema_version 99"),
        (
            lambda d: d["run"]["precision"].update(effective="tf32"),
            "fp32 requested, tf32 effective",
        ),
        (dataset(chance_hr_at_k=1.5), "chance_hr_at_k is 1.5"),
        (dataset(effective_candidates_mean=300), "more effective candidates than were drawn"),
        (lambda d: d.update(status="good"), "status 'good' is none of"),
        (lambda d: d.update(status="crash"), "status crash with failure None"),
        (lambda d: d.update(finished_at="2026-01-01T00:00:00Z"), "before it started"),
        (lambda d: d.update(started_at="yesterday"), "invalid times: 'yesterday'"),
        (lambda d: d.update(wall_seconds=-1), "wall_seconds is -1"),
        (lambda d: d["cell"]["options"].update(epochs=7), "its axes and options give the key"),
        (lambda d: d.update(seed=2), "seed 1, attempt 1 but contains cell"),
        (lambda d: d.pop("run"), "status ok without the run's record"),
    ],
)
def test_what_cannot_be_is_named(edit, message):
    assert any(message in found for found in problems(changed(edit))), problems(changed(edit))


def test_without_its_suite_the_rest_is_still_checked():
    assert problems(as_written(good()), suite=None) == []
    assert problems(changed(epoch(hr_at_k=2)), suite=None) != []


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "results" / "sample")
    for cell in cells(SUITE):
        for seed in SUITE.seeds:
            made = make_run(seed=seed, ranks=cell.ranks, precision=cell.precision)
            config = {**CONFIG, "precision": cell.precision}
            found.write(make_attempt(cell, seed, dataclasses.replace(made, config=config)))
    return found


def test_a_sound_folder_has_no_bad_file(store):
    assert check_folder(store.folder, SUITE) == (12, [])


def test_half_a_file_a_missing_attempt_and_a_stranger_are_listed(store):
    half = store.path(CELL.key, 1, 1)
    half.write_text(half.read_text()[:100])
    store.write(dataclasses.replace(good(), attempt=3, seed=2, run=None, status="oom"))
    (store.records / CELL.key / "notes.txt").write_text("mine")
    n, bad = check_folder(store.folder, SUITE)
    found = {path.name: "; ".join(why) for path, why in bad}
    assert n == 13
    assert "not JSON" in found["seed1-a1.json"]
    assert "missing" in found["seed2-a2.json"]
    assert "file name does not match seedN-aN.json" in found["notes.txt"]


def test_the_command_lists_bad_files_and_tells_by_its_exit_code(store, monkeypatch, capsys):
    monkeypatch.chdir(store.folder.parent.parent)
    assert main(["check"], trainer=STUB) == 0
    assert capsys.readouterr().out == "12 records checked, 0 bad\n"
    path = store.path(CELL.key, 1, 1)
    write_json(path, {**json.loads(path.read_text()), "wall_seconds": 1.0})
    assert main(["check", "results/sample"], trainer=STUB) == 1
    out = capsys.readouterr().out
    assert f"{path.relative_to(Path.cwd())}: checksum mismatch" in out
    assert out.endswith("12 records checked, 1 bad\n")
    assert main(["check", "--json"], trainer=STUB) == 1
    assert json.loads(capsys.readouterr().out)["checked"] == 12


def test_nothing_to_check_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check"], trainer=STUB) == 2
    assert "holds no records" in capsys.readouterr().err
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert main(["check", "smoke"]) == 2
    assert "results/smoke holds no records" in capsys.readouterr().err
