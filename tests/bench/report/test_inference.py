"""Inference in the report: rates, latencies, and ranking."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from sample_figures import FIGURES
from sample_inference import SUITE, infer_run, inference_blocks, inference_grid
from sample_records import as_attempt, grid, make_attempt, make_suite
from table_cells import cell, rows_of, shown_rows

from bench.analysis.aggregate import DEFAULT, Notation
from bench.analysis.grid import has_work
from bench.analysis.metrics import batches, latency, scores_rate, timed, users_rate
from bench.render.formats import markdown_page
from bench.render.model import Heading, Tabled, markdown
from bench.report import inference
from bench.report.build import run_lists
from bench.report.document import page
from bench.stats.summary import Missing
from bench.suite.model import cells
from bench.sweep import progress as view
from ncf.record import Latencies


def with_calls(seconds, work="pairs", batch=8, scores=8):
    return replace(infer_run(), inference=(Latencies(work, batch, scores, 3, tuple(seconds)),))


def test_a_rate_is_the_pairs_of_all_calls_over_their_seconds():
    run = with_calls([0.1, 0.3])

    assert scores_rate("pairs", 8).of(as_attempt(run)) == pytest.approx(2 * 8 / 0.4)
    assert scores_rate("pairs", 16).of(as_attempt(run)) == Missing("not measured")
    assert scores_rate("ranking", 8).of(as_attempt(run)) == Missing("not measured")


def test_ranking_counts_users_and_scores():
    run = with_calls([0.5, 0.5], "ranking", batch=64, scores=64 * 1000)

    assert users_rate(64).of(as_attempt(run)) == 128.0
    assert scores_rate("ranking", 64).of(as_attempt(run)) == 128_000.0
    assert batches([run], "ranking") == (64,)
    assert timed(run, "pairs", 64) is None


@pytest.mark.parametrize(
    ("n", "known"),
    [(9, ()), (10, ("p90",)), (19, ("p90",)), (20, ("p90", "p95")), (100, ("p90", "p95", "p99"))],
)
def test_a_percentile_needs_enough_calls_and_lies_within_them(n, known):
    run = with_calls([0.001 * (i + 1) for i in range(n)])

    for what in ("p90", "p95", "p99"):
        value = latency("pairs", 8, what).of(as_attempt(run))
        if what in known:
            assert 0.001 <= value <= 0.001 * n
        else:
            assert "needs" in value.reason
            assert f"n={n}" in value.reason
    assert latency("pairs", 8, "max").of(as_attempt(run)) == 0.001 * n


def test_ten_calls_of_1_to_10_ms():
    run = with_calls([0.001 * i for i in range(1, 11)])

    assert latency("pairs", 8, "p50").of(as_attempt(run)) == pytest.approx(0.0055)
    assert latency("pairs", 8, "mean").of(as_attempt(run)) == pytest.approx(0.0055)
    assert latency("pairs", 8, "p90").of(as_attempt(run)) == pytest.approx(0.0091)


@pytest.mark.parametrize("seconds", [(), (0.0, 0.0), (float("inf"),)])
def test_no_time_is_no_rate(seconds):
    assert isinstance(scores_rate("pairs", 8).of(as_attempt(with_calls(seconds))), Missing)


def test_a_suite_of_inference_alone_has_no_part_on_training():
    text = markdown_page(page(SUITE, inference_blocks(), FIGURES, (), {}, DEFAULT))

    golden.check("inference.md", text)
    assert "## Training" not in text
    assert "HR@10**" not in text
    assert "Roofline" not in text


@pytest.mark.parametrize("aggregate", ["mean", "best"])
def test_other_conventions_are_named_in_every_heading(aggregate):
    notation = Notation(aggregate, "short")
    nodes = page(SUITE, inference_blocks(), FIGURES, (), {}, notation)

    found = [node.text for node in nodes if isinstance(node, Heading)]
    for name in ("Inference throughput", "Inference latency", "Ranking the whole catalogue"):
        assert f"{name} ({notation.name})" in found
    table = inference.throughput(inference_blocks().blocks[0], notation)
    assert cell(table, 0, "FP32 (samples/s)").endswith("n=6")
    assert " k (" in cell(table, 1, "FP32 (samples/s)")


def test_both_number_styles():
    block = inference_blocks().blocks[0]

    full = cell(inference.throughput(block, Notation("median", "full")), 7, "FP32 (samples/s)")
    short = cell(inference.throughput(block, Notation("median", "short")), 7, "FP32 (samples/s)")

    assert full.startswith("1,991,755 [1,979,517 to ")
    assert short.startswith("1.99 M [1.98 M to ")


def test_the_speedup_of_mixed_precision_stands_upright_with_an_interval():
    table = inference.throughput(inference_blocks().blocks[0])

    found = cell(table, 0, "Speed-up AMP/FP32")
    assert found.item.value == pytest.approx(1.5, rel=0.03)
    assert found.item.low < 1.5 < found.item.high


def test_formulations_are_compared_by_batch_size():
    block = inference_blocks().blocks[0]

    table = inference.compared(block, DEFAULT, SUITE.compare[0], "pairs")

    assert len(shown_rows(table)) == 2 * 4
    assert cell(table, 0, "Compared") == "fast / reference"
    assert cell(table, 7, "Throughput ratio").item.value == pytest.approx(2.0, rel=0.03)
    assert not has_work(block, "else")


def test_latencies_say_how_many_calls_and_runs_are_behind_them():
    table = inference.latencies(inference_blocks().blocks[0])

    assert table.headers[-2:] == ("Calls", "Runs")
    large = rows_of(table, Precision="FP32", Batch="1,048,576", formulation="fast")[0]
    assert (large["Calls"], large["Runs"]) == ("12", "6")
    assert large["p95 (ms)"] == "n/a (p95 needs 20 values, n=12)"
    assert "n/a" not in large["p90 (ms)"]
    small = rows_of(table, Precision="FP32", Batch="1", formulation="fast")[0]
    assert "[" in small["p99 (ms)"]
    assert float(small["p50 (ms)"].split()[0]) < float(small["p99 (ms)"].split()[0])


def test_runs_without_a_batch_size_that_others_have_are_counted_out():
    attempts = inference_grid()
    short = [
        replace(a, run=infer_run(a.seed, a.cell.precision, "reference", sizes={1: 400}))
        if a.cell.key == cells(SUITE)[0].key and a.seed <= 2
        else a
        for a in attempts
    ]

    block = inference_blocks(attempts=short).blocks[0]

    row = rows_of(inference.latencies(block), Precision="FP32", Batch="1,024")[0]
    assert row["Runs"] == "4/6"
    assert row["Mean (ms)"].endswith(", n=4/6")
    assert "n=4" in cell(inference.throughput(block), 1, "FP32 (samples/s)")


def test_failed_missing_and_single_runs_stay_readable():
    suite = replace(SUITE, seeds=(1,))
    first, second = cells(suite)[:2]
    kept = [a for a in inference_grid(suite) if a.cell.key not in (first.key, second.key)]
    block = inference_blocks(suite, [*kept, make_attempt(first, 1, status="oom")]).blocks[0]

    table = inference.throughput(block)
    assert cell(table, 0, "FP32 (samples/s)") == "n/a (n=0/1, 1 oom)"
    assert cell(table, 0, "AMP (samples/s)" if "AMP (samples/s)" in table.headers else
                "AMP (bfloat16) (samples/s)") == "n/a (n=0/1, 1 not run)"  # fmt: skip
    assert cell(table, 0, "Speed-up AMP/FP32") == "n/a (baseline: no good run)"
    assert "spread n/a" in cell(table, 4, "FP32 (samples/s)")
    times = inference.latencies(block)
    assert cell(times, 0, "p50 (ms)") == "n/a (n=0/1, 1 oom)"
    assert (cell(times, 0, "Calls"), cell(times, 0, "Runs")) == ("n/a", "0/1, 1 oom")


def test_training_and_inference_stand_in_one_report():
    suite = make_suite()
    attempts = [
        replace(a, run=replace(a.run, inference=infer_run(a.seed, a.cell.precision).inference))
        for a in grid(suite)
    ]
    nodes = page(suite, inference_blocks(suite, attempts), FIGURES, (), {}, DEFAULT)

    names = [node.name for node in nodes if isinstance(node, Tabled)]
    assert [n for n in names if n in ("throughput", "inference", "latency", "ranking")] == [
        "throughput",
        "inference",
        "latency",
        "ranking",
    ]


def test_markdown_of_the_ranking_table():
    block = inference_blocks().blocks[0]

    golden.check("ranking.md", markdown(inference.ranking(block)) + "\n")


def test_the_list_of_every_run_shows_what_inference_is_about():
    (first, *_) = run_lists(inference_blocks(), inference_grid())

    assert first.table.headers[3:6] == (
        "Samples/s at batch 1,048,576",
        "p50 at batch 1 (ms)",
        "Users/s, 512 a call",
    )
    assert shown_rows(first.table)[0][4].startswith("0.20")
    (training, *_) = run_lists(
        inference_blocks(make_suite(), grid(make_suite())), grid(make_suite())
    )
    assert training.table.headers[3] == "Best HR"


def test_a_sweep_tells_the_rate_at_the_largest_batch():
    (attempt, *_) = inference_grid()

    assert view.run_result(attempt) == "1,004,196 samples/s at batch 1,048,576, 50.0 s"
