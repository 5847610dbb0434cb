"""Pictures of inference: rates and latencies by batch size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pictures import WHERE, assert_readable, figure_of, slice_pictures, texts, whole_pictures
from sample_figures import FIGURES
from sample_inference import A100, SUITE, inference_blocks, inference_grid, on_a100
from sample_records import grid, make_attempt, make_suite

from bench.plots.inference import latencies, throughput
from bench.plots.places import Subject
from bench.suite.model import cells


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


def drawn(name, situation):
    draw = {"throughput": throughput, "latency": latencies}[name]
    block = situation.blocks[0]
    subject = Subject(block, "Inference (ml-20m)", WHERE, figures=FIGURES, systems=(A100,))
    return figure_of(draw, subject)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", ["throughput", "latency"])
def test_no_label_of_a_picture_is_cut_off_or_lies_on_another(name, situation, monkeypatch):
    figure = drawn(name, SITUATIONS[situation]())

    assert_readable(figure, monkeypatch)
    everything = " ".join(" ".join(texts(figure)).split())
    assert "2026-11-30 to 2026-12-01" in everything
    assert "n=6" in everything or "n=1" in everything


def test_axes_are_logarithmic_and_published_lines_need_the_device():
    ours = drawn("throughput", inference_blocks())
    beside = drawn("throughput", inference_blocks(*on_a100()))

    assert all((ax.get_xscale(), ax.get_yscale()) == ("log", "log") for ax in ours.axes)
    assert not any("published" in text for text in texts(ours))
    assert sum("published: " in text for text in texts(beside)) == 4
    pairs, ranking = beside.axes
    assert pairs.get_xlim()[1] > 1048576
    assert ranking.get_xlim()[1] < 1024


def test_a_percentile_that_too_few_calls_cannot_tell_has_no_point():
    figure = drawn("latency", one_line())

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

    pictures = whole_pictures(SUITE, block, FIGURES)

    assert list(pictures) == ["inference-throughput", "inference-latency"]
    assert slice_pictures(block) == {}
    suite = make_suite()
    assert whole_pictures(suite, inference_blocks(suite, grid(suite)).blocks[0]) == {}
