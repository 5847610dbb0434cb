from __future__ import annotations

import dataclasses

import pytest
from sample_records import ML_100K, make_attempt, make_run, make_suite

from bench.errors import UserError
from bench.host.machine import Gpu, Host
from bench.records.identity import DataIdentity
from bench.suite.model import cells, make_cell
from bench.sweep.plan import Durations, Selection, make_plan, mixtures, require_available

HERE = Host("cpu", 2, 8 << 30, no_gpus="no driver", machine_id="here", horovodrun="/h")
DATA = DataIdentity(ML_100K.hash, ML_100K.candidates_hash)
SUITE = make_suite()
GRID = cells(SUITE)
WHOLE = Selection()


def attempt(cell, seed, status="ok", number=1, host=HERE, wall=50.0, **run):
    made = make_run(seed=seed, ranks=cell.ranks, precision=cell.precision, **run)
    found = make_attempt(
        cell, seed, made if status == "ok" else None, status=status, number=number,
        host=host.to_dict(),
    )  # fmt: skip
    return dataclasses.replace(found, wall_seconds=wall)


def plan(attempts=(), selection=WHOLE, host=HERE, data=DATA, suite=SUITE):
    return make_plan(suite, selection, attempts, host, data)


def test_with_nothing_stored_everything_is_to_run_in_the_suites_order():
    from bench.suite.model import ordered

    made = plan()
    assert made.runs == ordered(SUITE, GRID, SUITE.seeds)
    assert (made.total, made.stored, len(made.runs)) == (12, 0, 12)


def test_with_everything_stored_nothing_is_to_run():
    made = plan([attempt(cell, seed) for cell in GRID for seed in SUITE.seeds])
    assert (made.total, made.stored, made.runs) == (12, 12, ())


def test_exactly_what_is_missing_is_run():
    stored = [attempt(cell, seed) for cell in GRID for seed in SUITE.seeds][:7]
    made = plan(stored)
    done = {(a.cell.key, a.seed) for a in stored}
    to_run = [(cell.key, seed) for cell, seed in made.runs]
    assert len(to_run) == 5
    assert not done & set(to_run)


def test_a_repetition_counts_once_however_often_it_was_run():
    made = plan([attempt(GRID[0], 1, number=n) for n in (1, 2, 3)])
    assert made.cells[0].good == (1,)
    assert made.stored == 1


@pytest.mark.parametrize("status", ["oom", "nan", "timeout", "crash", "invalid", "interrupted"])
def test_a_failed_repetition_is_run_again_until_it_is_good(status):
    failed = attempt(GRID[0], 1, status)
    assert plan([failed]).cells[0].to_run == (1, 2, 3)
    assert plan([failed]).cells[0].to_retry == 1
    assert plan([failed]).cells[0].failed == {status: 1}
    mended = plan([failed, attempt(GRID[0], 1, number=2)])
    assert mended.cells[0].to_run == (2, 3)
    assert mended.cells[0].to_retry == 0


def test_an_invalid_run_with_a_whole_record_is_not_good():
    wrong = dataclasses.replace(attempt(GRID[0], 1), status="invalid")
    assert plan([wrong]).cells[0].good == ()


def test_more_seeds_later_run_only_the_new_ones():
    stored = [attempt(cell, seed) for cell in GRID for seed in SUITE.seeds]
    made = plan(stored, suite=make_suite(seeds=(1, 2, 3, 4)))
    assert [seed for _, seed in made.runs] == [4] * 4


def test_seeds_outside_the_suite_do_not_count():
    assert plan([attempt(GRID[0], 9)]).stored == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"cpu_model": "another"},
        {"cores": 64},
        {"memory_bytes": 16 << 30},
        {"gpus": (Gpu("NVIDIA A100"),)},
        {"machine_id": "elsewhere"},
        {"machine_id": None},
    ],
)
def test_runs_of_another_machine_do_not_stand_for_ours(changed):
    there = dataclasses.replace(HERE, **changed)
    made = plan([attempt(GRID[0], seed, host=there) for seed in (1, 2)])
    assert made.cells[0].good == ()
    assert made.cells[0].to_run == (1, 2, 3)
    assert made.cells[0].elsewhere == 2


def test_records_that_came_with_a_clone_do_not_stand_for_ours():
    # Same hardware, but this installation has made no run and so has no name yet.
    clone = dataclasses.replace(HERE, machine_id=None)
    assert plan([attempt(GRID[0], 1)], host=clone).cells[0].good == ()


def test_another_driver_is_another_machine_only_where_there_are_gpus():
    gpus = dataclasses.replace(HERE, gpus=(Gpu("NVIDIA A100"),) * 2, driver="535")
    newer = dataclasses.replace(gpus, driver="550")
    assert plan([attempt(GRID[0], 1, host=gpus)], host=newer).cells[0].good == ()
    assert plan([attempt(GRID[0], 1, host=gpus)], host=gpus).cells[0].good == (1,)


def test_runs_on_other_data_do_not_stand_for_these():
    other = dataclasses.replace(ML_100K, hash="another")
    candidates = dataclasses.replace(ML_100K, candidates_hash="another")
    stored = [attempt(GRID[0], 1, data=other), attempt(GRID[0], 2, data=candidates)]
    assert plan(stored).cells[0].good == ()
    assert plan(stored).cells[0].elsewhere == 2
    assert plan(stored, data=None).cells[0].good == (1, 2), "data not known yet: nothing to compare"


def test_cells_that_the_machine_cannot_run_have_a_reason_and_no_runs():
    suite = make_suite(axes={"ranks": (1, 8), "precision": ("fp32", "tf32")})
    made = plan(suite=suite)
    reasons = {cell.cell.label: cell.unavailable for cell in made.cells}
    assert reasons["ranks=1,precision=fp32"] is None
    assert "8 GPUs" in reasons["ranks=8,precision=fp32"]
    assert "TF32 needs a GPU" in reasons["ranks=1,precision=tf32"]
    assert {cell.label for cell, _ in made.runs} == {"ranks=1,precision=fp32"}
    assert made.total == 3


def test_if_no_cell_can_run_every_reason_is_given_once():
    suite = make_suite(axes={"ranks": (4, 8), "precision": ("tf32",)})
    with pytest.raises(UserError) as caught:
        require_available(suite, WHOLE, HERE)
    assert str(caught.value).count("TF32 needs a GPU") == 1
    require_available(SUITE, WHOLE, HERE)


def test_filters_choose_a_part_of_the_grid():
    made = plan(selection=Selection(ranks=(2,), precisions=("amp",), seeds=(1, 3)))
    assert [(cell.label, seed) for cell, seed in made.runs] == [
        ("ranks=2,precision=amp", 1),
        ("ranks=2,precision=amp", 3),
    ]
    assert made.total == 2


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(ranks=(4,)), "--ranks 4: the suite has 1, 2"),
        (Selection(precisions=("tf32",)), "--precision tf32: the suite has fp32, amp"),
        (Selection(seeds=(1, 9)), "--seeds 9: the suite has 1, 2, 3"),
    ],
)
def test_a_filter_that_the_suite_does_not_have_is_named(selection, message):
    with pytest.raises(UserError, match=message):
        plan(selection=selection)


def test_cells_that_left_the_suite_are_outside_and_never_pooled():
    old = make_cell({"ranks": 1, "precision": "fp32"}, {"epochs": 7}, SUITE.data)
    made = plan([attempt(old, 1), attempt(GRID[0], 1)])
    assert [a.cell.key for a in made.outside] == [old.key]
    assert made.stored == 1


def test_a_filter_leaves_no_cell_outside():
    stored = [attempt(cell, 1) for cell in GRID]
    assert plan(stored, selection=Selection(ranks=(1,))).outside == ()


def test_expected_time_goes_by_the_cell_then_by_all_then_is_unknown():
    assert plan().expected_seconds is None
    stored = [attempt(GRID[0], 1, wall=10.0), attempt(GRID[0], 2, wall=20.0)]
    # one more run of that cell at 15 s, nine of others at the mean of all, 15 s
    assert plan(stored).expected_seconds == pytest.approx(150.0)
    stored.append(attempt(GRID[1], 1, wall=75.0))
    assert plan(stored).expected_seconds == pytest.approx(15 + 2 * 75 + 6 * 35)


def test_failed_runs_say_nothing_about_time():
    assert plan([attempt(GRID[0], 1, "crash", wall=1.0)]).expected_seconds is None


def test_durations_learn_from_new_runs():
    durations = Durations()
    assert durations.expect([GRID[0]]) is None
    durations.add(GRID[0], 10)
    durations.add(GRID[1], 30)
    assert durations.expect([GRID[0], GRID[1], GRID[2]]) == 10 + 30 + 20
    assert durations.expect([]) == 0


def test_different_data_and_machines_among_good_runs_are_reported():
    there = dataclasses.replace(HERE, machine_id="there")
    other = dataclasses.replace(ML_100K, name="ml-1m", hash="ffff")
    stored = [
        attempt(GRID[0], 1),
        attempt(GRID[0], 2),
        attempt(GRID[1], 1, data=other),
        attempt(GRID[1], 2, host=there),
    ]
    data, machines = mixtures(SUITE, stored)
    assert data == (
        f"good runs from 2 data sets, never pooled: ml-100k {ML_100K.hash}: 3, ml-1m ffff: 1"
    )
    assert machines == "good runs from 2 machines, never pooled: cpu (here): 3, cpu (there): 1"
    assert mixtures(SUITE, stored[:2]) == []


def test_json_has_no_not_a_number_and_says_why_a_cell_is_missing():
    made = plan(suite=make_suite(axes={"ranks": (1, 8)})).to_dict()
    assert made["expected_seconds"] is None
    assert made["cells"][0]["mean_wall_seconds"] is None
    assert "8 GPUs" in made["cells"][1]["not_available"]
    assert (made["runs"], made["stored"], made["to_run"]) == (3, 0, 3)


def test_ten_thousand_runs_are_planned_at_once():
    axes = {"ranks": tuple(range(1, 21)), "epochs": tuple(range(1, 41))}
    suite = make_suite(train={}, axes=axes, seeds=tuple(range(1, 14)))
    host = dataclasses.replace(HERE, cores=64)
    made = plan(suite=suite, host=host)
    assert len(made.runs) == made.total == 10400
