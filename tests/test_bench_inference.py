"""Inference in the report: rates, latencies, ranking, and the published figures beside them."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from sample_inference import SUITE, infer_run, inference_blocks, inference_grid
from sample_records import A100_HOST, ML_100K, grid, make_attempt, make_suite
from test_bench_plots import WHERE, assert_readable, figure_of, texts
from test_bench_published import CSV

from bench import inference, inference_plots, inference_published, plots, view, whole_plots
from bench.document import page
from bench.formats import markdown_page
from bench.inference_measures import batches, latency, scores_rate, timed, users_rate
from bench.notation import DEFAULT, Notation
from bench.page import Heading, Tabled, Text
from bench.published import read, select
from bench.run_lists import run_lists
from bench.stats import Missing
from bench.suite import cells
from bench.tables import markdown
from ncf.record import Latencies

FIGURES = read(CSV)
A100 = "DGX A100 1x A100 40GB"
ONE_A100 = {**A100_HOST, "gpus": A100_HOST["gpus"][:1]}


def with_calls(seconds, work="pairs", batch=8, scores=8):
    return replace(infer_run(), inference=(Latencies(work, batch, scores, 3, tuple(seconds)),))


def cell(table, row, header):
    return table.rows[row][table.headers.index(header)]


def rows_of(table, **wanted):
    lines = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
    return [line for line in lines if all(line[k] == v for k, v in wanted.items())]


def test_a_rate_is_the_pairs_of_all_calls_over_their_seconds():
    run = with_calls([0.1, 0.3])

    assert scores_rate("pairs", 8).of(run) == pytest.approx(2 * 8 / 0.4)
    assert scores_rate("pairs", 16).of(run) == Missing("not measured")
    assert scores_rate("ranking", 8).of(run) == Missing("not measured")


def test_ranking_counts_users_and_scores():
    run = with_calls([0.5, 0.5], "ranking", batch=64, scores=64 * 1000)

    assert users_rate(64).of(run) == 128.0
    assert scores_rate("ranking", 64).of(run) == 128_000.0
    assert batches([run], "ranking") == (64,)
    assert timed(run, "pairs", 64) is None


@pytest.mark.parametrize(
    ("n", "known"),
    [(9, ()), (10, ("p90",)), (19, ("p90",)), (20, ("p90", "p95")), (100, ("p90", "p95", "p99"))],
)
def test_a_percentile_needs_enough_calls_and_lies_within_them(n, known):
    run = with_calls([0.001 * (i + 1) for i in range(n)])

    for what in ("p90", "p95", "p99"):
        value = latency("pairs", 8, what).of(run)
        if what in known:
            assert 0.001 <= value <= 0.001 * n
        else:
            assert "needs" in value.reason
            assert f"n={n}" in value.reason
    assert latency("pairs", 8, "max").of(run) == 0.001 * n


def test_ten_calls_of_1_to_10_ms():
    run = with_calls([0.001 * i for i in range(1, 11)])

    assert latency("pairs", 8, "p50").of(run) == pytest.approx(0.0055)
    assert latency("pairs", 8, "mean").of(run) == pytest.approx(0.0055)
    assert latency("pairs", 8, "p90").of(run) == pytest.approx(0.0091)


@pytest.mark.parametrize("seconds", [(), (0.0, 0.0), (float("inf"),)])
def test_no_time_is_no_rate(seconds):
    assert isinstance(scores_rate("pairs", 8).of(with_calls(seconds)), Missing)


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
    assert found.number.value == pytest.approx(1.5, rel=0.03)
    assert found.number.low < 1.5 < found.number.high


def test_formulations_are_compared_by_batch_size():
    block = inference_blocks().blocks[0]

    table = inference.compared(block, SUITE.compare[0], "pairs")

    assert len(table.rows) == 2 * 4
    assert cell(table, 0, "Compared") == "fast / reference"
    assert cell(table, 7, "Throughput ratio").number.value == pytest.approx(2.0, rel=0.03)
    assert inference.compared(block, SUITE.compare[0], "else") is None


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


def on_a100(precisions=("tf32", "amp")):
    suite = replace(
        SUITE,
        axes={"formulation": ("reference", "fast"), "precision": precisions},
        published_systems=(A100,),
    )
    return suite, inference_grid(suite, host=ONE_A100, dtype="float16")


def published_part(suite, attempts, notation=DEFAULT):
    text = markdown_page(page(suite, inference_blocks(suite, attempts), FIGURES, (), {}, notation))
    return text.partition("## Published figures\n\n")[2].partition("\n\n## ")[0]


def test_the_published_inference_stands_beside_ours_on_the_same_device():
    golden.check("inference_published.md", published_part(*on_a100()) + "\n")


def test_ours_over_theirs_is_the_ratio_of_the_unrounded_rates():
    suite, attempts = on_a100()
    block = inference_blocks(suite, attempts).blocks[0]
    own = select(FIGURES, system=A100, source="nvidia-dle-ncf-tf1-2020-06")

    table = inference_published.side_by_side(block, inference_published.of_inference(own))

    (line,) = rows_of(table, formulation="fast", Precision="TF32", Batch="1,024")
    ours = line["Samples/s ours"].number.value
    assert line["Samples/s published"] == "1.67 M"
    assert line["Ours / published"].number.value == pytest.approx(ours / 1_670_000)
    assert line["p99 (ms) published"] == "0.7"
    (missing,) = rows_of(table, formulation="fast", Precision="TF32", Batch="1")
    assert missing["Samples/s published"] == "-"
    assert missing["p99 (ms) published"] == "-"
    (absent,) = rows_of(table, formulation="fast", Precision="TF32", Batch="4,096")
    assert absent["Samples/s ours"] == "n/a (not measured)"
    assert absent["Ours / published"] == "-"


def test_a_precision_that_only_they_have_is_not_in_the_suite():
    suite, attempts = on_a100(("fp32", "amp"))
    block = inference_blocks(suite, attempts).blocks[0]
    own = inference_published.of_inference(select(FIGURES, system=A100))

    table = inference_published.side_by_side(block, own)

    (line,) = rows_of(table, Precision="TF32", Batch="1,024")
    assert line["Samples/s ours"] == "n/a (not in the suite)"
    assert line["Samples/s published"] == "1.67 M"


@pytest.mark.parametrize(
    ("host", "change", "system", "reason"),
    [
        (None, {}, A100, "another device (no GPU)"),
        (ONE_A100, {"data": ML_100K}, A100, "other tables (943 users, 1,682 items)"),
        (ONE_A100, {"factors": 8}, A100, "another model size"),
        (ONE_A100, {}, "DGX-1 1x V100 32GB", "another device (1x NVIDIA A100-SXM4-40GB"),
        (ONE_A100, {}, "DGX-1 8x V100 16GB", "the source does not state its batch size"),
    ],
)
def test_what_differs_is_named_and_the_published_table_stands_alone(host, change, system, reason):
    suite = replace(SUITE, seeds=(1,), published_systems=(system,))

    def changed(one):
        run = one.run
        if "data" in change:
            run = replace(run, dataset=change["data"])
        if "factors" in change:
            run = replace(run, config={**run.config, "factors": 8})
        return replace(one, run=run)

    text = published_part(suite, [changed(one) for one in inference_grid(suite, host=host)])

    assert (
        f"For orientation only, not comparable with the runs above: {reason}"
        in text.replace("another device (1x NVIDIA A100-SXM4-40GB (40.0 GiB)); ", "")
        or reason in text
    )
    assert "ours" not in text.replace("Ours", "")


def test_a_training_suite_shows_no_published_inference():
    suite = make_suite(published_systems=("DGX-1 8x V100 16GB",))

    nodes = page(suite, inference_blocks(suite, grid(suite)), FIGURES, (), {}, DEFAULT)

    assert not any("Inference" in node.text for node in nodes if isinstance(node, Heading | Text))


def test_markdown_of_the_ranking_table():
    block = inference_blocks().blocks[0]

    golden.check("ranking.md", markdown(inference.ranking(block)) + "\n")


def one_line():
    suite = replace(SUITE, axes={"precision": ("fp32",)}, seeds=(1,))
    return inference_blocks(suite, inference_grid(suite, ranking=False))


def with_a_hole():
    suite = replace(SUITE, axes={"ranks": (1, 2), **SUITE.axes})
    last = cells(suite)[-1]
    kept = [a for a in inference_grid(suite) if a.cell.key != last.key]
    return inference_blocks(suite, [*kept, make_attempt(last, 1, status="oom")])


SITUATIONS = {
    "two formulations": inference_blocks,
    "one cell, one run, no ranking": one_line,
    "beside the published": lambda: inference_blocks(*on_a100()),
    "a cell without a good run": with_a_hole,
}


def pictures_of(block, systems=(A100,)):
    title = "Inference (ml-20m)"
    return {
        "throughput": lambda: inference_plots.throughput(block, title, WHERE, FIGURES, systems),
        "latency": lambda: inference_plots.latencies(block, title, WHERE),
    }


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", ["throughput", "latency"])
def test_no_label_of_a_picture_is_cut_off_or_lies_on_another(name, situation, monkeypatch):
    figure = figure_of(pictures_of(SITUATIONS[situation]().blocks[0])[name])

    assert_readable(figure, monkeypatch)
    everything = " ".join(" ".join(texts(figure)).split())
    assert "2026-11-30 to 2026-12-01" in everything
    assert "n=6" in everything or "n=1" in everything


def test_both_axes_are_logarithmic_and_published_lines_only_beside_the_same_device():
    ours = figure_of(pictures_of(inference_blocks().blocks[0])["throughput"])
    beside = figure_of(pictures_of(inference_blocks(*on_a100()).blocks[0])["throughput"])

    assert all((ax.get_xscale(), ax.get_yscale()) == ("log", "log") for ax in ours.axes)
    assert not any("published" in text for text in texts(ours))
    assert sum("published: " in text for text in texts(beside)) == 4
    pairs, ranking = beside.axes
    assert pairs.get_xlim()[1] > 1048576
    assert ranking.get_xlim()[1] < 1024


def test_a_percentile_that_too_few_calls_cannot_tell_has_no_point():
    figure = figure_of(pictures_of(one_line().blocks[0])["latency"])

    (ax,) = figure.axes
    points = [list(line.get_xdata()) for line in ax.lines]
    assert points == [
        [1, 1024, 262144, 1048576],
        [1, 1024, 262144, 1048576],
        [1, 1024, 262144],
        [1, 1024],
        [1, 1024, 262144, 1048576],
    ]


def test_a_suite_of_inference_has_these_pictures_and_training_none_of_them():
    block = inference_blocks().blocks[0]

    drawn = whole_plots.draw(SUITE, block, "Inference (ml-20m)", WHERE, FIGURES)

    assert list(drawn) == ["inference-throughput", "inference-latency"]
    assert plots.draw(block, "t", WHERE) == {}
    suite = make_suite()
    assert whole_plots.draw(suite, inference_blocks(suite, grid(suite)).blocks[0], "t", "w") == {}


def test_the_list_of_every_run_shows_what_inference_is_about():
    (first, *_) = run_lists(inference_blocks(), inference_grid())

    assert first.table.headers[3:6] == (
        "Samples/s at batch 1,048,576",
        "p50 at batch 1 (ms)",
        "Users/s, 512 a call",
    )
    assert first.table.rows[0][4].startswith("0.20")
    (training, *_) = run_lists(
        inference_blocks(make_suite(), grid(make_suite())), grid(make_suite())
    )
    assert training.table.headers[3] == "Best HR"


def test_a_sweep_tells_the_rate_at_the_largest_batch():
    (attempt, *_) = inference_grid()

    assert view.run_result(attempt, None) == "1,004,196 samples/s at batch 1,048,576, 50.0 s"
