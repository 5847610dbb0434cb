"""The roofline: shares of what the machine can do, as numbers, as a table and as a picture."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from pictures import WHERE, assert_readable, figure_of, texts, whole_pictures
from sample_records import grid, make_attempt, make_run, make_suite
from sample_resources import probed
from table_cells import shown_rows

from bench.analysis import metrics
from bench.analysis.aggregate import DEFAULT
from bench.analysis.group import group
from bench.plots.places import Subject
from bench.plots.roofline import roofline as draw_roofline
from bench.render.formats import markdown_page
from bench.report import resources as roofline
from bench.report import sections
from bench.stats.summary import Missing
from bench.suite.model import cells

SUITE = make_suite(
    axes={"formulation": ("reference", "fast"), "precision": ("fp32", "amp")},
    seeds=(1, 2, 3, 4, 5, 6),
)


def attempts_of(suite, rate=100_000.0):
    return [
        replace(one, run=probed(one.run, one.cell.axes.get("formulation", "fast")))
        for one in grid(suite, rate=rate)
    ]


def block_of(suite, attempts=None):
    attempts = attempts_of(suite) if attempts is None else attempts
    return group(cells(suite), suite.seeds, attempts).blocks[0]


def test_the_limit_is_the_lower_of_the_two_roofs():
    by_compute = probed(make_run(rate=100_000.0))
    by_memory = probed(make_run(rate=100_000.0), copy=0.5e9)

    assert metrics.intensity(by_compute) == 150.0
    assert metrics.flops_limit(by_compute) == 150e9
    assert metrics.flops_limit(by_memory) == 75e9
    assert metrics.achieved_flops(by_compute) == pytest.approx(45e9)
    assert metrics.share_of_limit(by_memory) == pytest.approx(0.6)
    assert metrics.share_of_matmul(by_memory) == pytest.approx(0.3)


def test_what_is_reached_is_that_of_one_rank_like_the_peaks():
    two = probed(make_run(rate=100_000.0, ranks=2))

    assert metrics.achieved_flops(two) == pytest.approx(22.5e9)
    assert metrics.share_of_limit(two) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"roofline": None}, "not recorded"),
        ({"epochs": ()}, "no timed steps"),
    ],
)
def test_a_run_that_was_not_probed_or_not_timed_has_no_share(change, reason):
    run = replace(probed(make_run()), **change)

    assert metrics.share_of_limit(run) == Missing(reason)
    assert metrics.share_of_matmul(run) == Missing(reason)


@pytest.mark.parametrize("field", ["bytes_per_sample", "matmul_flops_per_second"])
def test_counts_and_peaks_of_zero_are_no_numbers(field):
    run = probed(make_run())
    broken = replace(run, roofline=replace(run.roofline, **{field: 0.0}))

    assert isinstance(metrics.flops_limit(broken), Missing)
    assert isinstance(metrics.share_of_limit(broken), Missing)


def test_the_section_of_the_roofline():
    text = markdown_page(sections.reach(block_of(SUITE), 1, DEFAULT))

    golden.check("roofline.md", text)


def test_missing_and_single_runs_stay_readable():
    suite = replace(SUITE, seeds=(1,))
    first = cells(suite)[0]
    kept = [one for one in attempts_of(suite) if one.cell.key != first.key]
    unprobed = replace(kept[0], run=replace(kept[0].run, roofline=None))
    attempts = [unprobed, *kept[1:], make_attempt(first, 1, status="oom")]

    table = roofline.table(block_of(suite, attempts))

    rows = [dict(zip(table.headers, row, strict=True)) for row in shown_rows(table)]
    assert rows[0]["Of the limit"] == "n/a (n=0/1, 1 oom)"
    assert (rows[0]["Bound by"], rows[0]["FLOP/byte"]) == ("n/a", "n/a (no good run)")
    assert rows[1]["Of the limit"] == "n/a (not recorded)"
    assert rows[2]["Of the limit"].endswith("% (spread n/a), n=1")


def test_runs_that_nobody_probed_have_no_section_and_no_picture():
    block = block_of(SUITE, grid(SUITE))

    assert sections.reach(block, 1, DEFAULT) == []
    assert whole_pictures(SUITE, block) == {}


def two_ranks():
    return block_of(make_suite())


def one_cell():
    return block_of(make_suite(axes={"ranks": (1,), "precision": ("fp32",)}, seeds=(1,)))


def equal_peaks():
    attempts = [
        replace(
            a, run=replace(a.run, roofline=replace(a.run.roofline, matmul_flops_per_second=9e10))
        )
        for a in attempts_of(SUITE)
    ]
    return block_of(SUITE, attempts)


@pytest.mark.parametrize("block", [lambda: block_of(SUITE), two_ranks, one_cell, equal_peaks])
def test_no_label_of_the_picture_is_cut_off_or_lies_on_another(block, monkeypatch):
    figure = figure_of(draw_roofline, Subject(block(), "Sample (ml-100k)", WHERE))

    assert_readable(figure, monkeypatch)


def test_the_picture_says_share_n_machine_and_date():
    found = block_of(SUITE)
    figure = figure_of(draw_roofline, Subject(found, "Sample (ml-100k)", WHERE))

    everything = " ".join(" ".join(texts(figure)).split())
    assert "fast, FP32: 30." in everything
    assert "(n=6)" in everything
    assert "2026-11-30 to 2026-12-01" in everything
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    roofs = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 3]
    assert sorted(max(ys) for ys in roofs) == [150e9, 600e9]
