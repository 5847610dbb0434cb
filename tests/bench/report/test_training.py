from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from pictures import slice_pictures
from sample_records import grid, make_attempt, make_run, make_suite
from table_cells import cell, shown_rows

from bench.analysis.aggregate import DEFAULT
from bench.analysis.group import group
from bench.render import model
from bench.report import document
from bench.report import training as tables
from bench.suite.model import Rule, cells


def block_of(suite, attempts, **options):
    return group(cells(suite), suite.seeds, attempts, **options).blocks[0]


def exact_block(rates, seeds=(1, 2, 3), hit_rates=None):
    """Ranks 1 and 2, fp32 and amp, with given samples/s per (ranks, precision) and seed."""
    suite = make_suite(seeds=seeds)
    attempts = []
    for place in cells(suite):
        for seed, rate in zip(seeds, rates.get((place.ranks, place.precision), ()), strict=False):
            run = make_run(
                seed=seed,
                ranks=place.ranks,
                precision=place.precision,
                rate=rate,
                hit_rates=(hit_rates or {}).get(place.precision, (0.5, 0.6 + seed / 100)),
            )
            attempts.append(make_attempt(place, seed, run))
    return block_of(suite, attempts)


RATES = {
    (1, "fp32"): (100_000.0, 101_000.0, 99_000.0),
    (1, "amp"): (125_000.0, 124_000.0, 126_000.0),
    (2, "fp32"): (180_000.0, 182_000.0, 178_000.0),
    (2, "amp"): (220_000.0, 222_000.0, 218_000.0),
}


def test_throughput_has_the_published_shape():
    golden.check("throughput.md", model.markdown(tables.throughput(exact_block(RATES))) + "\n")


def test_accuracy_stands_beside_popularity_and_chance():
    assert model.markdown(tables.accuracy(exact_block(RATES))) == (
        "|      Ranks |                           FP32 |                 AMP (bfloat16) |\n"
        "|-----------:|-------------------------------:|-------------------------------:|\n"
        "|          1 | 0.6200 (0.6100 to 0.6300), n=3 | 0.6200 (0.6100 to 0.6300), n=3 |\n"
        "|          2 | 0.6200 (0.6100 to 0.6300), n=3 | 0.6200 (0.6100 to 0.6300), n=3 |\n"
        "| popularity |                         0.4104 |                         0.4104 |\n"
        "|     chance |                         0.1018 |                         0.1018 |"
    )


def test_a_speedup_below_one_is_printed_upright():
    slow = {**RATES, (1, "amp"): (50_000.0, 50_000.0, 50_000.0)}

    assert cell(tables.throughput(exact_block(slow)), 0, "Speed-up AMP/FP32").startswith("0.50 ")


def test_one_run_has_no_spread_and_no_interval():
    one = {key: values[:1] for key, values in RATES.items()}

    table = tables.throughput(exact_block(one, seeds=(1,)))

    assert cell(table, 0, "FP32 (samples/s)") == "100,000 (spread n/a), n=1"
    assert cell(table, 1, "Speed-up AMP/FP32") == "1.22 (spread n/a)"


def test_six_runs_have_an_interval():
    six = {key: tuple(values[0] + 1000 * i for i in range(6)) for key, values in RATES.items()}

    table = tables.throughput(exact_block(six, seeds=(1, 2, 3, 4, 5, 6)))

    assert cell(table, 0, "FP32 (samples/s)") == "102,500 [100,000 to 105,000], n=6"
    assert "[" in cell(table, 0, "Speed-up AMP/FP32")


def test_a_missing_baseline_leaves_the_rest_of_the_table_readable():
    table = tables.throughput(exact_block({k: v for k, v in RATES.items() if k != (1, "fp32")}))

    assert cell(table, 0, "FP32 (samples/s)") == "n/a (n=0/3, 3 not run)"
    assert cell(table, 0, "Speed-up AMP/FP32") == "n/a (baseline: no good run)"
    assert cell(table, 0, "Strong scaling FP32") == "n/a (no good run)"
    assert cell(table, 1, "Strong scaling FP32") == "n/a (baseline: no good run)"
    assert cell(table, 1, "Strong scaling AMP") == "1.76 (1.73 to 1.79), 88 %"


def test_a_grid_without_one_rank_has_no_strong_scaling():
    suite = make_suite(axes={"ranks": (2, 4), "precision": ("fp32",)})

    table = tables.throughput(block_of(suite, grid(suite)))

    assert cell(table, 0, "Strong scaling FP32") == "n/a (no cell with 1 rank)"


def test_sharded_speedup_uses_the_single_rank_baseline():
    ways = {"parallel": ("replicated", "user-sharded")}
    suite = make_suite(
        axes={"ranks": (1, 2), "precision": ("fp32",), **ways},
        excludes=(Rule({"ranks": (1,), "parallel": ("user-sharded",)}),),
    )

    block = block_of(suite, grid(suite))

    found = [block.baseline(row, "fp32") for row in block.rows]
    (alone,) = (row for row in block.rows if row.ranks == 1)
    assert len(found) == 3
    assert all(base is alone.pools["fp32"] for base in found)


def test_strong_scaling_needs_the_same_global_batch():
    suite = make_suite(axes={"ranks": (1, 2), "precision": ("fp32",)})
    attempts = [
        replace(a, run=replace(a.run, global_batch=16384 * a.cell.ranks)) for a in grid(suite)
    ]

    table = tables.throughput(block_of(suite, attempts))

    assert cell(table, 1, "Strong scaling FP32") == "n/a (global batch differs)"
    assert [cell(table, row, "Batch per rank") for row in (0, 1)] == ["16,384", "16,384"]


def test_runs_with_zero_duration_have_no_throughput_and_break_nothing():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32", "amp")})
    attempts = [
        replace(
            a,
            run=replace(a.run, epochs=tuple(replace(e, timed_seconds=0.0) for e in a.run.epochs)),
        )
        if a.cell.precision == "fp32"
        else a
        for a in grid(suite)
    ]

    table = tables.throughput(block_of(suite, attempts))

    assert cell(table, 0, "FP32 (samples/s)") == "n/a (no timed steps)"
    assert cell(table, 0, "Speed-up AMP/FP32") == "n/a (baseline: no timed steps)"
    assert "n=3" in cell(table, 0, "AMP (bfloat16) (samples/s)")


def test_sample_sizes_say_what_is_missing():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32",)}, seeds=tuple(range(1, 21)))
    (only,) = cells(suite)
    attempts = [make_attempt(only, seed, make_run(seed=seed)) for seed in range(1, 8)]
    attempts += [make_attempt(only, seed, status="oom") for seed in (8, 9)]

    table = tables.accuracy(block_of(suite, attempts))

    assert shown_rows(table)[0][1].endswith("n=7/20, 2 oom, 11 not run")


def test_a_cell_that_the_suite_excludes_is_no_missing_one():
    suite = make_suite(
        axes={"ranks": (1, 2), "precision": ("fp32", "amp")},
        excludes=(Rule({"ranks": (2,), "precision": ("amp",)}),),
    )
    grouped = group(cells(suite), suite.seeds, grid(suite))
    (block,) = grouped.blocks

    table = tables.throughput(block)

    assert len(block.tallies) == 3
    assert cell(table, 1, "AMP (bfloat16) (samples/s)") == "n/a (not in the grid)"
    assert cell(table, 1, "Speed-up AMP/FP32") == "n/a (not in the grid)"
    assert cell(table, 1, "Strong scaling AMP") == "n/a (not in the grid)"
    assert [row[:2] for row in shown_rows(tables.convergence(block))] == [
        ("1", "FP32"),
        ("1", "AMP (bfloat16)"),
        ("2", "FP32"),
    ]
    assert tables.incomplete(block.tallies) is None
    nodes = document.page(suite, grouped, (), (), {}, DEFAULT)
    assert any("9 good of 9 planned (3 cells)" in str(node) for node in nodes)
    assert set(slice_pictures(block)) == {
        "validation-curves",
        "best-hr-histogram",
        "throughput",
        "strong-scaling",
        "run-order",
    }


def test_nothing_good_at_all_is_still_a_table():
    suite = make_suite()

    table = tables.accuracy(block_of(suite, []))

    assert shown_rows(table)[0] == ("1", "n/a (n=0/3, 3 not run)", "n/a (n=0/3, 3 not run)")


def test_incomplete_lists_failures_missing_runs_and_reasons():
    suite = make_suite(axes={"ranks": (1, 2), "precision": ("fp32", "tf32")})
    attempts = [
        a
        for a in grid(suite)
        if a.cell.precision == "fp32" and not (a.cell.ranks == 2 and a.seed > 1)
    ]
    attempts.append(make_attempt(cells(suite)[2], 2, status="oom", number=1))
    block = block_of(
        suite,
        attempts,
        why_not=lambda _, cell: "TF32 needs a GPU" if cell.precision == "tf32" else None,
    )

    table = tables.incomplete(block.tallies)

    assert shown_rows(table) == (
        ("ranks 1, precision tf32", "0/3", "0", "not available", "TF32 needs a GPU"),
        ("ranks 2, precision fp32", "1/3", "1 oom", "1", "rank 1 ended with oom"),
        ("ranks 2, precision tf32", "0/3", "0", "not available", "TF32 needs a GPU"),
    )


def test_a_retried_failure_is_still_reported():
    suite = make_suite()
    attempts = [*grid(suite), make_attempt(cells(suite)[0], 1, status="timeout", number=9)]
    block = block_of(suite, attempts)

    assert shown_rows(tables.incomplete(block.tallies))[0][1:3] == ("3/3", "1 timeout")
    assert shown_rows(tables.accuracy(block))[0][1].endswith("n=3")


def test_a_complete_grid_has_nothing_to_list():
    suite = make_suite()

    assert tables.incomplete(block_of(suite, grid(suite)).tallies) is None


def test_convergence_counts_runs_that_reached_their_target():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32",)})
    (only,) = cells(suite)
    attempts = [
        make_attempt(only, seed, make_run(seed=seed, target=0.62, hit_rates=(0.5, top)))
        for seed, top in ((1, 0.61), (2, 0.62), (3, 0.63))
    ]

    table = tables.convergence(block_of(suite, attempts))

    assert cell(table, 0, "Reached target") == "2/3"
    assert cell(table, 0, "Best epoch") == "2 (2 to 2), n=3"


def test_other_axes_get_columns_of_their_own():
    suite = make_suite(
        axes={"ranks": (1,), "precision": ("fp32",), "layers": ((256, 64), (128, 32))}
    )

    table = tables.accuracy(block_of(suite, grid(suite)))

    assert table.headers == ("Ranks", "layers", "FP32")
    assert [row[:2] for row in shown_rows(table)] == [
        ("1", "256-64"),
        ("1", "128-32"),
        ("popularity", ""),
        ("chance", ""),
    ]


@pytest.mark.parametrize(("rate", "text"), [(900_000.0, "900,000"), (20_027_840.0, "20.03 M")])
def test_large_rates_are_shown_in_millions(rate, text):
    block = exact_block({(1, "fp32"): (rate,)}, seeds=(1,))

    assert cell(tables.throughput(block), 0, "FP32 (samples/s)").startswith(f"{text} ")


def test_markdown_keeps_trailing_zeros_and_escapes_pipes():
    table = model.Table(("a|b", "c"), (("x|y\nz", "0.9590"),), left=("a|b",))

    assert model.markdown(table).splitlines() == [
        "| a\\|b   |      c |",
        "|:-------|-------:|",
        "| x\\|y z | 0.9590 |",
    ]
