from __future__ import annotations

import json

import golden
import pytest
from sample_records import A100_HOST, CPU_HOST, grid, make_attempt, make_run, make_suite

from bench.errors import UserError
from bench.gate.baseline import Baseline, Signed, from_text, to_text
from bench.gate.samples import side
from bench.records.identity import differences, fact_text
from bench.suite.model import cells, make_cell

SUITE = make_suite(axes={"ranks": (1, 2), "precision": ("fp32",)}, seeds=(1, 2, 3))
SAVED = Signed("A. Person", "before the new kernel", "2026-11-30T09:00:00Z")


def made(attempts=None, **changes):
    found = side("sample", grid(SUITE) if attempts is None else attempts)
    return Baseline("first", "sample", SAVED, found, **changes)


def test_a_baseline_reads_back_as_it_was_written():
    baseline = made()

    read = from_text(to_text(baseline), "here")

    assert (read.name, read.suite, read.saved) == ("first", "sample", SAVED)
    assert read.side.cells == baseline.side.cells
    assert read.side.label == "baseline first"


def test_every_sample_of_every_metric_is_in_it_unrounded():
    rate = 100_000 / 3
    attempts = [make_attempt(cells(SUITE)[0], s, make_run(seed=s, rate=rate)) for s in (1, 2, 3)]

    (cell,) = json.loads(to_text(made(attempts)))["cells"]

    assert cell["samples"]["throughput"] == pytest.approx([rate] * 3, rel=1e-15)
    assert set(cell["samples"]) >= {"throughput", "best_hr", "time_to_target", "peak_memory"}
    assert "energy" not in cell["samples"], "what no run has is not there, not 0"
    assert cell["runs"]["seed"] == [1, 2, 3]


def test_the_text_is_for_people_too():
    golden.check("baseline.json", to_text(made()))


@pytest.mark.parametrize("version", [1, 2])
def test_baselines_of_earlier_schemas_load_and_compare(version):
    text = (golden.FOLDER / f"baseline-v{version}.json").read_text(encoding="utf-8")

    baseline = from_text(text, "old")

    assert json.loads(text)["schema_version"] == version
    now = made().side.cells
    assert all(
        differences(cell.facts, now[key].facts) == () for key, cell in baseline.side.cells.items()
    )
    assert baseline.saved == SAVED
    assert [cell.label for cell in baseline.side.cells.values()] == [
        "ranks 1, precision fp32",
        "ranks 2, precision fp32",
    ]
    assert len(next(iter(baseline.side.cells.values())).values("throughput")) == 3


def test_facts_written_as_text_are_read_as_values():
    host = {**A100_HOST, "gpus": [{"name": "A, B (C)", "memory_bytes": 2**39}, *A100_HOST["gpus"]]}
    options = {"layers": (256, 128), "fast": True, "learning_rate": 1e-4, "protocol": "given-99"}
    cell = make_cell({"ranks": 1, "precision": "fp32"}, options, SUITE.data)
    baseline = made([make_attempt(cell, 1, make_run(), host=host)])
    data = json.loads(to_text(baseline))
    (facts,) = (cell["facts"] for cell in data["cells"])
    for part in facts:
        facts[part] = {name: fact_text(name, value) for name, value in facts[part].items()}
    assert facts["hardware"]["gpus"].startswith("1x A, B (C) (512.0 GiB), 8x NVIDIA A100")

    read = from_text(json.dumps({**data, "schema_version": 2}), "old")

    assert read.side.cells == baseline.side.cells


def broken(change):
    data = json.loads(to_text(made()))
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.update(schema_version=99), "schema_version 99"),
        (lambda d: d.update(kind="attempt"), "not a baseline"),
        (lambda d: d.pop("saved"), "missing required field `saved`"),
        (lambda d: d["cells"][0]["samples"]["throughput"].pop(), "has 2 values for 3 runs"),
        (lambda d: d["cells"][0]["samples"].update(speeed=[1, 2, 3]), "unknown metric 'speeed'"),
        (lambda d: d["cells"][0]["runs"]["seed"].pop(), "the runs of cell"),
    ],
)
def test_what_is_no_baseline_is_told_in_one_line_with_its_file(change, told):
    with pytest.raises(UserError, match="file") as caught:
        from_text(broken(change), "file.json")

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_trap_45_a_zero_baseline_is_a_broken_baseline():
    text = broken(lambda d: d["cells"][0]["samples"].update(throughput=[0.0, 1.0, 2.0]))

    with pytest.raises(UserError, match=r"broken baseline: throughput of cell .* has the value 0"):
        from_text(text, "file.json")


def test_half_a_file_is_no_baseline():
    with pytest.raises(UserError, match="not JSON"):
        from_text(to_text(made())[:200], "file.json")


def test_promoting_keeps_the_history_of_what_gates_used():
    first = made().promote(Signed("A", "start", "2026-11-01T00:00:00Z"), None)
    second = made().promote(Signed("B", "new driver", "2026-12-01T00:00:00Z"), first)

    assert [(item.name, item.who) for item in second.promoted] == [
        ("first", "A"),
        ("first", "B"),
    ]
    assert from_text(to_text(second), "here").promoted == second.promoted


def test_a_side_takes_the_newest_condition_and_the_last_good_run_of_a_seed():
    cell = cells(SUITE)[0]
    attempts = [
        make_attempt(cell, 1, make_run(rate=1.0), minute=1, host=A100_HOST),
        make_attempt(cell, 1, make_run(rate=2.0), minute=2, host=CPU_HOST),
        make_attempt(cell, 1, make_run(rate=3.0), minute=3, number=2, host=CPU_HOST),
        make_attempt(cell, 2, minute=4),
    ]

    (last,) = side("here", attempts).cells.values()
    (every,) = side("here", attempts, every=True).cells.values()

    assert last.values("throughput") == pytest.approx([3.0])
    assert every.values("throughput") == pytest.approx([2.0, 3.0])
