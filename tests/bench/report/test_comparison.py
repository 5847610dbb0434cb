"""Speed and memory over a reference's, for the axes that a suite asks about."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from pictures import WHERE, assert_readable, figure_of, texts
from sample_records import grid, make_attempt, make_suite
from table_cells import cell, comparison_table, shown_rows

from bench.analysis.aggregate import DEFAULT, Notation
from bench.analysis.group import group
from bench.plots.bars import comparison as draw_comparison
from bench.plots.places import Subject
from bench.render.formats import markdown_page
from bench.render.model import Tabled
from bench.report.document import page
from bench.suite.model import Contrast, Rule, cells

FORMULATION = Contrast({"formulation": "reference"})
SUITE = make_suite(
    axes={"formulation": ("reference", "fast"), "precision": ("fp32", "amp")},
    seeds=(1, 2, 3, 4, 5, 6),
    compare=(FORMULATION,),
)


def attempts_of(suite, times=3.0):
    """The fast formulation is `times` as fast and takes a quarter of the memory."""

    def changed(one):
        if one.cell.axes["formulation"] != "fast":
            return one
        epochs = tuple(replace(e, timed_seconds=e.timed_seconds / times) for e in one.run.epochs)
        run = replace(one.run, epochs=epochs, peak_memory_bytes_per_rank=(2**28,))
        return replace(one, run=run)

    return [changed(one) for one in grid(suite)]


def made(suite=SUITE, attempts=None, notation=DEFAULT):
    attempts = attempts_of(suite) if attempts is None else attempts
    (block,) = group(cells(suite), suite.seeds, attempts).blocks
    return comparison_table(block, suite.compare[0], notation)


def test_the_section_of_a_comparison():
    grouped = group(cells(SUITE), SUITE.seeds, attempts_of(SUITE))
    text = markdown_page(page(SUITE, grouped, (), (), {}, DEFAULT))

    part = text.partition("## Comparison of formulation")[2].partition("\n\n## ")[0]
    golden.check("comparison.md", f"## Comparison of formulation{part}\n")


def test_ratio_has_an_interval_and_the_runs_of_both_arms():
    table = made()

    found = cell(table, 0, "Throughput ratio")
    assert found.item.value == pytest.approx(3.0, rel=0.05)
    assert found.item.low < 3.0 < found.item.high
    assert "[" in found
    assert [key.rpartition("-")[0] for key in found.item.sources] == [
        "precision=fp32,formulation=fast",
        "precision=fp32,formulation=reference",
    ]
    assert cell(table, 0, "Memory ratio") == "0.25 [0.25 to 0.25]"
    assert cell(table, 1, "Compared") == "fast / reference"


@pytest.mark.parametrize("aggregate", ["mean", "best"])
def test_ratios_of_means_and_bests_have_no_interval(aggregate):
    assert "[" not in cell(made(notation=Notation(aggregate)), 0, "Throughput ratio")


def test_a_missing_reference_and_a_missing_arm_are_named():
    kept = [one for one in attempts_of(SUITE) if one.cell.axes != dict(cells(SUITE)[0].axes)]
    failed = make_attempt(cells(SUITE)[0], 1, status="oom")

    table = made(attempts=[*kept, failed])

    assert cell(table, 0, "Throughput ratio") == "n/a (reference: no good run)"
    assert cell(table, 0, "Reference (samples/s)") == "n/a (n=0/6, 1 oom, 5 not run)"
    assert cell(table, 1, "Throughput ratio").startswith("2.9")
    without_fast = [a for a in attempts_of(SUITE) if a.cell.axes["formulation"] == "reference"]
    assert cell(made(attempts=without_fast), 0, "Throughput ratio") == "n/a (no good run)"


def test_single_runs_have_a_ratio_without_spread():
    suite = replace(SUITE, seeds=(1,))

    assert cell(made(suite), 0, "Throughput ratio").endswith("(spread n/a)")


def test_other_global_batch_is_compared_only_on_request():
    def halved(one):
        fast = one.cell.axes["formulation"] == "fast"
        return replace(one, run=replace(one.run, global_batch=8192)) if fast else one

    table = made(attempts=[halved(one) for one in attempts_of(SUITE)])
    assert cell(table, 0, "Throughput ratio") == "n/a (global batch differs)"

    suite = make_suite(axes={"batch_size": (1024, 2048)}, compare=(Contrast({"batch_size": 1024}),))
    runs = [
        replace(a, run=replace(a.run, global_batch=a.cell.axes["batch_size"])) for a in grid(suite)
    ]
    table = made(suite, runs)
    assert cell(table, 0, "Compared") == "batch_size 2048 / batch_size 1024"
    assert cell(table, 0, "Throughput ratio").item.value is not None


def test_only_cells_beside_a_reference_have_a_line():
    suite = replace(SUITE, excludes=(Rule({"formulation": ("reference",), "precision": ("amp",)}),))

    assert [row[1] for row in shown_rows(made(suite, attempts_of(suite)))] == ["FP32"]


def test_a_suite_that_asks_for_nothing_has_no_such_section():
    suite = make_suite()
    nodes = page(suite, group(cells(suite), suite.seeds, grid(suite)), (), (), {}, DEFAULT)

    assert not [n for n in nodes if isinstance(n, Tabled) and n.name == "comparison"]


def with_more_places():
    suite = replace(SUITE, axes={"ranks": (1, 2), **SUITE.axes}, seeds=(1, 2, 3))
    kept = attempts_of(suite)[:-3]
    failed = make_attempt(cells(suite)[-1], 1, status="oom")
    return group(cells(suite), suite.seeds, [*kept, failed]).blocks[0]


def three_levels():
    levels = ("reference", "fast", "other")
    suite = replace(SUITE, axes={**SUITE.axes, "formulation": levels}, seeds=(1,))
    return group(cells(suite), suite.seeds, attempts_of(suite)).blocks[0]


def as_shipped():
    return group(cells(SUITE), SUITE.seeds, attempts_of(SUITE)).blocks[0]


def picture(block):
    title = "Formulations (synthetic-20m-2m)"
    return figure_of(draw_comparison, Subject(block, title, WHERE, FORMULATION))


@pytest.mark.parametrize("block", [as_shipped, with_more_places, three_levels])
def test_no_label_of_the_picture_is_cut_off_or_lies_on_another(block, monkeypatch):
    assert_readable(picture(block()), monkeypatch)


def test_the_picture_has_a_bar_an_arm_and_the_ratio_above():
    figure = picture(as_shipped())

    (ax,) = figure.axes
    assert len(ax.patches) == 4
    everything = " ".join(texts(figure))
    assert "3.05x [2.91 to 3.17]" in everything
    assert "n = 6" in everything
    assert texts(picture(with_more_places())).count("n/a") == 1
