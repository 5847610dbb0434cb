"""The record: whole or absent on disk, checked when read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ncf import record

if TYPE_CHECKING:
    from pathlib import Path


def a_run(**changes) -> record.RunRecord:
    data = record.Dataset("toy", "abc", 60, 40, 660, 60, "nvidia", 20, "def", 14.2, 0.3, 0.27)
    epochs = (record.Epoch(1, 10, 1000, 10.0, 700, 7.0, 0.5, 0.2, 0.6, 0.3),)
    values = {
        "status": "ok",
        "started_at": "2026-11-30T08:00:00Z",
        "finished_at": "2026-11-30T08:01:00Z",
        "seed": 1,
        "world_size": 2,
        "topk": 10,
        "target_hr": 0.9562,
        "global_batch": 100,
        "config": {"epochs": 1},
        "precision": record.Precision("fp32", "fp32", "float32"),
        "dataset": data,
        "epochs": epochs,
        "setup_seconds": 1.0,
        "warmup_seconds": 0.5,
        "peak_memory_bytes_per_rank": (1, 2),
        "versions": {"ncf": "0.1.0"},
        "hardware": {"device": "cpu"},
    }
    return record.RunRecord(**{**values, **changes})


def test_a_record_survives_the_trip_through_json(tmp_path: Path) -> None:
    run = a_run()
    record.write_json(tmp_path / "new" / "run.json", run.to_dict())
    assert record.read_run(tmp_path / "new" / "run.json") == run


def test_inference_roofline_and_communication_survive_the_round_trip(
    tmp_path: Path,
) -> None:
    run = a_run(
        inference=(record.Latencies("pairs", 4, 4, 10, (0.5, 0.25)),),
        roofline=record.Roofline("fast", "float32", 2.7e5, 9e3, 2e11, 2e10),
        communication=record.Communication("replicated", 100, 3, (0.5, 0.25), (1.0, 1.0)),
    )
    record.write_json(tmp_path / "run.json", run.to_dict())
    assert record.read_run(tmp_path / "run.json") == run


def test_keys_of_a_later_version_of_the_program_are_ignored() -> None:
    data = {**a_run().to_dict(), "colour": "green"}
    assert record.RunRecord.from_dict(data) == a_run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version 2 is not between 1 and 1"),
        ({"schema_version": None}, "schema_version None"),
        ({"status": "great"}, "status 'great' is none of ok"),
        ({"precision": 3}, "Precision is a int, not an object"),
        ({"epochs": [{}]}, "Epoch lacks"),
    ],
)
def test_a_record_that_cannot_be_trusted_is_refused(change, message: str) -> None:
    with pytest.raises(record.RecordError, match=message):
        record.RunRecord.from_dict({**a_run().to_dict(), **change})


def test_a_missing_key_is_named() -> None:
    data = a_run().to_dict()
    del data["seed"]
    with pytest.raises(record.RecordError, match=r"RunRecord lacks.*seed"):
        record.RunRecord.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"', '{"status": "ok"}'])
def test_a_half_written_or_foreign_file_is_named_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(record.RecordError) as caught:
        record.read_run(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    record.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        record.write_json(path, {"a": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        record.write_text(path, "\ud800")
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
