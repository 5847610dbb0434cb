from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from sample_figures import FIGURES
from table_cells import shown_rows

from bench.published import tables as published_tables
from bench.published.figures import select
from bench.render.formats import markdown_page
from bench.render.model import markdown
from bench.stats.summary import Missing

NGC = select(FIGURES, source="nvidia-ngc-ncf-2019")
PYTORCH = select(FIGURES, source="nvidia-dle-ncf-pytorch-2021-06", section="training-throughput")


def column(table, header):
    return [row[table.headers.index(header)] for row in shown_rows(table)]


def test_all_published_tables_cell_by_cell():
    golden.check("published.md", markdown_page(published_tables.document(FIGURES)))


@pytest.mark.parametrize(
    ("system", "section", "metric", "speedups"),
    [
        ("DGX-1 8x V100 16GB", "training-throughput", "train_throughput", ["2.10", "1.91", "1.81"]),
        ("DGX-1 8x V100 32GB", "training-throughput", "train_throughput", ["2.05", "1.86", "1.77"]),
        ("DGX-1 8x V100 16GB", "inference-throughput", "inference_throughput", ["2.03"]),
        ("DGX-1 8x V100 32GB", "inference-throughput", "inference_throughput", ["1.94"]),
    ],
)
def test_computed_speedups_are_the_printed_ones(system, section, metric, speedups):
    figures = select(NGC, system=system, section=section)

    table = published_tables.throughput(figures, metric)

    assert column(table, "Speed-up AMP/FP32") == speedups
    assert "agree within rounding" in published_tables.check_text(figures)


# Copied from the README itself (June 2021), as printed there: the speed-up is full / mixed.
@pytest.mark.parametrize(
    ("system", "full", "inverted", "scaling_full", "scaling_mixed"),
    [
        ("DGX A100 8x A100 40GB", "TF32", (0.66, 0.77), (1, 4.88), (1, 4.19)),
        ("DGX-1 8x V100 16GB", "FP32", (0.48, 0.63), (1, 5.76), (1, 4.39)),
        ("DGX-1 8x V100 32GB", "FP32", (0.49, 0.64), (1, 5.77), (1, 4.44)),
        ("DGX-2 16x V100 32GB", "FP32", (0.49, 0.63, 0.68), (1, 5.7, 8.46), (1, 4.45, 6.09)),
    ],
)
def test_the_inverted_source_is_printed_upright(
    system, full, inverted, scaling_full, scaling_mixed
):
    table = published_tables.throughput(select(PYTORCH, system=system))

    upright = [float(text) for text in column(table, f"Speed-up AMP/{full}")]
    assert [round(1 / value, 2) for value in upright] == pytest.approx(inverted, abs=0.011)
    assert all(value > 1 for value in upright)
    assert [float(v) for v in column(table, f"Strong scaling {full}")] == list(scaling_full)
    assert [float(v) for v in column(table, "Strong scaling AMP")] == list(scaling_mixed)


def test_only_the_inverted_source_is_flagged():
    pages = markdown_page(published_tables.document(FIGURES)).split("\n## ")

    flagged = [page.partition("\n")[0] for page in pages if "inverted" in page]
    assert flagged == ["NVIDIA DeepLearningExamples, NCF for PyTorch, README of June 2021"]


def test_a_printed_speedup_that_does_not_follow_is_named():
    wrong = [replace(f, text="1.50", value=1.5) if f.text == "2.10" else f for f in NGC]

    text = published_tables.check_text(select(wrong, system="DGX-1 8x V100 16GB"))

    assert "1 GPUs: printed 1.50" in text


def test_a_printed_speedup_without_throughputs_cannot_be_checked():
    figures = select(NGC, metric="speedup")

    assert all(
        value == Missing("no throughput")
        for _, value in published_tables.computed_speedups(figures)
    )


def test_a_missing_cell_is_a_dash_and_never_zero():
    figures = [
        f
        for f in PYTORCH
        if not (f.system.startswith("DGX-2") and f.gpus == 8 and f.precision == "amp")
    ]

    table = published_tables.throughput(select(figures, system="DGX-2 16x V100 32GB"))

    assert shown_rows(table)[1][3:5] == ("-", "-")
    assert shown_rows(table)[1][6] == "-"
    assert "| 0 |" not in markdown(table)


def test_latencies_keep_the_digits_they_were_printed_with():
    coarse = select(FIGURES, source="nvidia-dle-ncf-tf1-2020-06", system="DGX A100 1x A100 40GB")
    fine = select(FIGURES, source="nvidia-dle-ncf-pytorch-2021-06", system="DGX A100 1x A100 40GB")

    assert shown_rows(published_tables.inference(coarse))[0][3:] == ("0.6", "0.6", "0.7", "0.7")
    assert shown_rows(published_tables.inference(fine))[0][3:] == (
        "0.346",
        "0.37",
        "0.374",
        "0.383",
    )
