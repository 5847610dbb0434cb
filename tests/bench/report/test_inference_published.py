"""Inference beside the published figures, where device, data, model and batch agree."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from sample_figures import FIGURES
from sample_inference import A100, ONE_A100, SUITE, inference_blocks, inference_grid, on_a100
from sample_records import ML_100K, grid, make_suite
from table_cells import rows_of

from bench.analysis.aggregate import DEFAULT
from bench.published import comparability
from bench.published.figures import select
from bench.render.formats import markdown_page
from bench.render.model import Heading, Text
from bench.report import published
from bench.report.document import page


def published_part(suite, attempts, notation=DEFAULT):
    text = markdown_page(page(suite, inference_blocks(suite, attempts), FIGURES, (), {}, notation))
    return text.partition("## Published figures\n\n")[2].partition("\n\n## ")[0]


def test_the_published_inference_stands_beside_ours_on_the_same_device():
    golden.check("inference_published.md", published_part(*on_a100()) + "\n")


def test_ours_over_theirs_is_the_ratio_of_the_unrounded_rates():
    suite, attempts = on_a100()
    block = inference_blocks(suite, attempts).blocks[0]
    own = select(FIGURES, system=A100, source="nvidia-dle-ncf-tf1-2020-06")

    table = published.inference_side_by_side(block, comparability.of_inference(own))

    (line,) = rows_of(table, formulation="fast", Precision="TF32", Batch="1,024")
    ours = line["Samples/s ours"].item.value
    assert line["Samples/s published"] == "1.67 M"
    assert line["Ours / published"].item.value == pytest.approx(ours / 1_670_000)
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
    own = comparability.of_inference(select(FIGURES, system=A100))

    table = published.inference_side_by_side(block, own)

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
