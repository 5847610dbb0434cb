from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sample_records import A100_HOST, CPU_HOST, ML_100K, grid, make_attempt, make_run, make_suite

from bench.analysis.group import group
from bench.analysis.metrics import BEST_HR, THROUGHPUT
from bench.records.identity import Machine
from bench.stats.summary import Missing
from bench.suite.model import Rule, cells


def grouped(suite, attempts, **options):
    return group(cells(suite), suite.seeds, attempts, **options)


def rate_of(block, ranks, precision):
    row = next(row for row in block.rows if row.ranks == ranks)
    return row.pools[precision].summary(THROUGHPUT)


def single(**changes):
    """A suite of one cell with two seeds."""
    return make_suite(axes={"ranks": (1,), "precision": ("fp32",)}, seeds=(1, 2), **changes)


def two_runs(change):
    """Two good runs of one cell; the second is changed."""
    suite = single()
    cell = cells(suite)[0]
    attempts = [make_attempt(cell, seed, make_run(seed=seed)) for seed in (1, 2)]
    return grouped(suite, [attempts[0], change(attempts[1])])


def test_runs_of_one_cell_are_pooled_seed_by_seed():
    suite = make_suite()

    (block,) = grouped(suite, grid(suite)).blocks

    assert [len(pool.runs) for pool in block.pools] == [3, 3, 3, 3]
    assert [run.seed for run in block.pools[0].runs] == [1, 2, 3]
    assert block.precisions == ("fp32", "amp")
    assert block.span == ("2026-11-30T08:00:00Z", "2026-11-30T08:11:50Z")


def test_the_order_of_the_attempts_does_not_matter():
    suite = make_suite()
    attempts = grid(suite)
    shuffled = random.Random(3).sample(attempts, len(attempts))

    assert grouped(suite, shuffled) == grouped(suite, attempts)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: replace(a, run=replace(a.run, dataset=replace(ML_100K, hash="other"))),
        lambda a: replace(a, run=replace(a.run, dataset=replace(ML_100K, protocol="unique"))),
        lambda a: replace(a, run=replace(a.run, dataset=replace(ML_100K, candidates_hash="x"))),
        lambda a: replace(a, run=replace(a.run, topk=5)),
        lambda a: replace(a, run=replace(a.run, versions={**a.run.versions, "tensorflow": "2.15"})),
        lambda a: replace(a, run=replace(a.run, versions={**a.run.versions, "code": "abc"})),
        lambda a: replace(a, host=A100_HOST),
        lambda a: replace(a, host={**CPU_HOST, "cpu_model": "Another CPU"}),
        lambda a: replace(a, host={**CPU_HOST, "cores": 4}),
        lambda a: replace(a, host={**CPU_HOST, "machine_id": "another of the same kind"}),
    ],
    ids=[
        "data",
        "protocol",
        "candidates",
        "k",
        "version",
        "code",
        "gpus",
        "cpu",
        "cores",
        "machine",
    ],
)
def test_runs_that_differ_in_what_numbers_mean_are_never_pooled(change):
    found = two_runs(change)

    assert [[len(pool.runs) for pool in block.pools] for block in found.blocks] == [[1], [1]]


@pytest.mark.parametrize("key", ["name", "memory_bytes"])
def test_another_gpu_or_driver_is_another_machine(key):
    other = {**A100_HOST, "gpus": [{**A100_HOST["gpus"][0], key: 1}] * 8}

    assert Machine.of(other) != Machine.of(A100_HOST)
    assert Machine.of({**A100_HOST, "driver": "560"}) != Machine.of(A100_HOST)
    assert Machine.of({**A100_HOST, "gpus": A100_HOST["gpus"][:4]}) != Machine.of(A100_HOST)


def test_some_mebibytes_less_memory_is_the_same_machine():
    later = {**CPU_HOST, "memory_bytes": CPU_HOST["memory_bytes"] - 5 * 2**20}

    assert Machine.of(later) == Machine.of(CPU_HOST)


def test_horovod_not_being_loaded_by_one_rank_does_not_split_a_table():
    suite = make_suite()

    assert len(grouped(suite, grid(suite)).blocks) == 1


def test_a_seed_counts_once_with_its_last_good_attempt():
    suite = single()
    cell = cells(suite)[0]
    attempts = [
        make_attempt(cell, 1, make_run(rate=100_000.0), number=1),
        make_attempt(cell, 1, make_run(rate=200_000.0), number=2),
        make_attempt(cell, 1, status="oom", number=3),
    ]

    (block,) = grouped(suite, attempts).blocks

    assert rate_of(block, 1, "fp32").n == 1
    assert rate_of(block, 1, "fp32").median == pytest.approx(200_000)
    assert block.tallies[0].unresolved == {}


def test_records_of_another_machine_stand_beside_ours_not_in_their_place():
    suite = single()
    cell = cells(suite)[0]
    theirs = [
        replace(
            make_attempt(cell, seed, make_run(rate=1e6), host={**CPU_HOST, "machine_id": "theirs"}),
            finished_at="2026-01-01T00:00:00Z",
        )
        for seed in (1, 2)
    ]
    ours = [make_attempt(cell, 1, make_run(rate=2e5), number=2)]

    first, second = grouped(suite, theirs + ours).blocks

    assert (rate_of(first, 1, "fp32").n, rate_of(second, 1, "fp32").n) == (1, 2)  # newest first
    assert rate_of(second, 1, "fp32").median == pytest.approx(1e6)
    assert first.tallies[0].not_run == 1


def test_failures_are_counted_by_type_and_missing_runs_apart():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32",)}, seeds=(1, 2, 3, 4, 5))
    cell = cells(suite)[0]
    attempts = [
        make_attempt(cell, 1, make_run()),
        make_attempt(cell, 2, status="oom", number=1),
        make_attempt(cell, 2, make_run(seed=2), number=2),
        make_attempt(cell, 3, status="oom"),
        make_attempt(cell, 4, status="nan", number=1),
        make_attempt(cell, 4, status="timeout", number=2),
    ]

    tally = grouped(suite, attempts).blocks[0].tallies[0]

    assert tally.good == (1, 2)
    assert tally.unresolved == {"oom": 1, "timeout": 1}  # by the last attempt of each seed
    assert [attempt.status for attempt in tally.failed] == ["oom", "oom", "nan", "timeout"]
    assert tally.not_run == 1
    assert not tally.complete


def test_failures_stay_with_their_machine_even_if_nothing_there_is_good():
    suite = single()
    cell = cells(suite)[0]
    attempts = [
        make_attempt(cell, 1, make_run(), minute=1),
        make_attempt(cell, 2, status="crash", host=A100_HOST, minute=2),
    ]

    failed, good = grouped(suite, attempts).blocks

    assert (failed.condition, failed.machine) == (None, Machine.of(A100_HOST))
    assert failed.tallies[0].unresolved == {"crash": 1}
    assert good.tallies[0].failed == ()


def test_attempts_outside_the_grid_are_strays_and_enter_no_number():
    suite = single()
    stray = cells(make_suite(train={"epochs": 99}))[0]

    found = grouped(suite, [make_attempt(stray, 1, make_run())])

    assert [attempt.cell for attempt in found.strays] == [stray]
    assert found.blocks[0].runs == ()


def test_an_empty_store_is_one_block_in_which_everything_is_missing():
    suite = make_suite()

    (block,) = grouped(suite, []).blocks

    assert (block.condition, block.machine, block.span) == (None, None, None)
    assert [tally.not_run for tally in block.tallies] == [3, 3, 3, 3]
    assert block.pools[0].summary(BEST_HR) == Missing("no good run")


def test_a_cell_that_the_machine_cannot_run_says_why():
    suite = make_suite(axes={"ranks": (1, 2), "precision": ("fp32",)})
    attempts = [a for a in grid(suite) if a.cell.ranks == 1]

    (block,) = grouped(suite, attempts, why_not=lambda host, cell: f"{host['cores']} cores").blocks

    assert [tally.unavailable for tally in block.tallies] == [None, "2 cores"]


def test_protocol_axis_makes_one_table_per_protocol():
    suite = make_suite(
        axes={"ranks": (1, 2), "precision": ("fp32",), "protocol": ("nvidia", "unique")}
    )
    attempts = [
        replace(a, run=replace(a.run, dataset=replace(ML_100K, protocol=a.cell.axes["protocol"])))
        for a in grid(suite)
    ]

    blocks = grouped(suite, attempts).blocks

    assert sorted(block.condition.dataset.protocol for block in blocks) == ["nvidia", "unique"]
    for block in blocks:
        assert {row.rest for row in block.rows} == {
            (("protocol", block.condition.dataset.protocol),)
        }
        assert [row.ranks for row in block.rows] == [1, 2]


def test_half_a_grid_on_new_versions_loses_no_run():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32", "amp")})
    attempts = [
        replace(
            a,
            run=replace(
                a.run, versions={"tensorflow": "2.21" if a.cell.precision == "amp" else "2.20"}
            ),
        )
        for a in grid(suite)
    ]

    blocks = grouped(suite, attempts).blocks

    assert sorted(len(block.runs) for block in blocks) == [3, 3]


def test_a_row_is_scaled_against_one_rank_with_the_same_other_options():
    suite = make_suite(axes={"ranks": (1, 2), "precision": ("fp32",), "batch_size": (1024, 2048)})
    (block,) = grouped(suite, grid(suite)).blocks
    row = next(row for row in block.rows if row.ranks == 2 and row.rest == (("batch_size", 2048),))

    base = block.baseline(row, "fp32")

    assert base.tally.cell.axes == {"ranks": 1, "precision": "fp32", "batch_size": 2048}
    assert [part.rows[0].rest for part in block.slices()] == [
        (("batch_size", 1024),),
        (("batch_size", 2048),),
    ]


def test_rows_of_a_sparse_grid_are_ordered_by_size():
    suite = make_suite(
        axes={"ranks": (1, 2), "batch_size": (512, 1024, 2048), "parallel": ("user", "all")},
        excludes=(Rule({"ranks": (1,), "batch_size": (512, 1024)}),),
    )

    (block,) = grouped(suite, grid(suite)).blocks

    sizes = [dict(row.rest)["batch_size"] for row in block.rows]
    assert sizes == [512, 512, 1024, 1024, 2048, 2048, 2048, 2048]
    assert [dict(row.rest)["parallel"] for row in block.rows[:4]] == ["user", "all"] * 2
