"""Comparisons of any axis: which cells meet, the verdict on them, its margin and its picture."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from pictures import WHERE, assert_readable, figure_of, texts, whole_pictures
from sample_records import grid, make_attempt, make_suite
from sample_values import arm
from table_cells import shown_rows, verdict_table

from bench.analysis import contrasts as contrast
from bench.analysis.aggregate import DEFAULT
from bench.analysis.group import group
from bench.analysis.metrics import BEST_HR
from bench.plots.accuracy import curves, histogram
from bench.plots.places import Subject
from bench.render.formats import markdown_page
from bench.render.model import Tabled
from bench.report.document import page
from bench.suite.model import Contrast, Rule, cells

BATCHING = Contrast({"batching": "shuffled"})
PARALLEL = Contrast({"ranks": 1, "parallel": "replicated"})
SHARDED = make_suite(
    axes={"ranks": (1, 2), "parallel": ("replicated", "user-sharded")},
    excludes=(
        Rule({"ranks": (1,), "parallel": ("user-sharded",)}),
        Rule({"ranks": (2,), "parallel": ("replicated",)}),
    ),
    equivalence=(PARALLEL,),
    margin_hr=0.006,
)


def grouped(suite, attempts=None):
    return group(cells(suite), suite.seeds, grid(suite) if attempts is None else attempts)


def batching(seeds=40, **changes):
    return make_suite(
        axes={"batching": ("shuffled", "grouped")},
        seeds=tuple(range(1, seeds + 1)),
        **{"equivalence": (BATCHING,), "margin_hr": 0.006, **changes},
    )


def verdict_part(suite, attempts=None):
    found = grouped(suite, attempts)
    text = markdown_page(page(suite, found, (), (), {}, DEFAULT))
    return text.partition("## Verdict on accuracy\n\n")[2].partition("\n\n## ")[0]


def test_cells_that_differ_in_the_compared_axis_alone_meet():
    suite = make_suite(
        axes={"ranks": (1, 2), "batching": ("grouped", "shuffled"), "precision": ("fp32", "amp")}
    )
    (block,) = grouped(suite).blocks

    found = contrast.groups(block, BATCHING)

    assert [one.where for one in found] == [
        (("ranks", ranks), ("precision", precision))
        for ranks in (1, 2)
        for precision in ("fp32", "amp")
    ]
    for one in found:
        assert [arm.axes["batching"] for arm in one.arms] == ["shuffled", "grouped"]
        assert len({arm.pool.tally.cell.precision for arm in one.arms}) == 1
    assert contrast.headers(found) == ("Ranks", "Precision")


def test_several_axes_are_compared_as_one():
    (block,) = grouped(SHARDED).blocks

    (only,) = contrast.groups(block, PARALLEL)

    names = [contrast.level(block, PARALLEL, arm) for arm in only.arms]
    assert names == ["1 rank, replicated", "2 ranks, user-sharded"]


PRECISION = Contrast({"precision": "fp32"})


def test_precisions_are_compared_with_full_precision_as_ever():
    (block,) = grouped(make_suite()).blocks

    assert contrast.precisions(block) == PRECISION
    tables = (verdict_table(block, 0.006), verdict_table(block, 0.006, PRECISION))
    assert shown_rows(tables[0]) == shown_rows(tables[1])


def test_batchings_have_a_verdict_with_their_margin():
    golden.check("verdict_batching.md", verdict_part(batching()) + "\n")


def test_ranks_and_parallel_mode_have_one_verdict():
    golden.check("verdict_parallel.md", verdict_part(SHARDED) + "\n")


def test_margin_may_be_the_spread_of_the_reference_arms():
    text = verdict_part(batching(margin_hr="sd"))

    golden.check("verdict_sd.md", text + "\n")
    assert "Margin: the standard deviation over seeds of shuffled, " in text


def test_the_spread_is_that_of_the_reference_arms_pooled_within_cells():
    suite = make_suite(axes={"ranks": (1, 2), "batching": ("shuffled", "grouped")}, seeds=(1, 2, 3))
    best = {1: (0.60, 0.61, 0.62), 2: (0.70, 0.74, 0.78)}  # SD 0.01 and 0.04

    def with_best(attempt):
        own = 0.5 if attempt.cell.axes["batching"] == "grouped" else best[attempt.cell.ranks]
        value = own if isinstance(own, float) else own[attempt.seed - 1]
        epochs = tuple(replace(epoch, hr_at_k=value) for epoch in attempt.run.epochs)
        return replace(attempt, run=replace(attempt.run, epochs=epochs))

    (block,) = grouped(suite, [with_best(one) for one in grid(suite)]).blocks
    found = contrast.groups(block, BATCHING)

    assert contrast.margin_of(found, "sd", BEST_HR) == pytest.approx(
        ((0.01**2 + 0.04**2) / 2) ** 0.5
    )
    assert contrast.margin_of(found, 0.006, BEST_HR) == 0.006
    assert contrast.margin_of(found, None, BEST_HR) is None


def test_one_run_each_has_no_spread_for_a_margin():
    text = verdict_part(batching(seeds=1, margin_hr="sd"))

    assert text == (
        "None on batching: the margin is the reference's SD over seeds, and no reference has runs "
        "that differ."
    )
    assert "INCONCLUSIVE (an arm with one run has no spread)" in verdict_part(batching(seeds=1))


def test_an_arm_without_a_good_run_is_no_verdict():
    suite = batching(seeds=3)
    kept = [one for one in grid(suite) if one.cell.axes["batching"] == "shuffled"]
    failed = make_attempt(cells(suite)[1], 1, status="oom")

    assert verdict_part(suite, [*kept, failed]) == "None on batching: an arm has no good run."
    assert "None: the suite does not say" in verdict_part(batching(margin_hr=None))


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_arms_with_known_means_get_the_known_answer(shift):
    suite = batching()
    values = {"shuffled": arm(40, 0.66, 0.008, 1), "grouped": arm(40, 0.66 - shift, 0.008, 2)}

    def with_best(one):
        value = values[one.cell.axes["batching"]][one.seed - 1]
        return replace(
            one, run=replace(one.run, epochs=(replace(one.run.epochs[0], hr_at_k=value),))
        )

    (block,) = grouped(suite, [with_best(one) for one in grid(suite)]).blocks
    table = verdict_table(block, 0.006, BATCHING)

    row = dict(zip(table.headers, shown_rows(table)[0], strict=True))
    assert row["Compared"] == "grouped - shuffled"
    assert row["Verdict"] == ("DIFFERENT" if shift else "EQUIVALENT")
    assert row["Difference"].item.value == pytest.approx(-shift, abs=1e-12)


def test_precision_and_another_axis_have_a_table_each():
    suite = make_suite(
        axes={"precision": ("fp32", "amp"), "batching": ("shuffled", "grouped")},
        seeds=tuple(range(1, 8)),
        equivalence=(BATCHING,),
        margin_hr=0.006,
    )
    nodes = page(suite, grouped(suite), (), (), {}, DEFAULT)

    tables = [node for node in nodes if isinstance(node, Tabled) and node.name == "verdict"]
    assert [one.title for one in tables] == ["Verdict on HR@10", "Verdict on HR@10, batching"]
    assert [len(shown_rows(one.table)) for one in tables] == [2, 2]
    assert sum("TOST" in str(node) for node in nodes) == 1


def test_the_picture_shows_every_arm_with_the_margin_around_the_reference():
    suite = batching()
    (block,) = grouped(suite).blocks

    drawn = whole_pictures(suite, block)

    assert list(drawn) == ["curves-of-arms-batching", "equivalence-batching"]
    assert whole_pictures(make_suite(), grouped(make_suite()).blocks[0]) == {}


def two_places():
    suite = make_suite(
        axes={"ranks": (1, 2), "batching": ("shuffled", "grouped"), "precision": ("fp32", "amp")},
        seeds=(1, 2, 3, 4),
    )
    kept = [one for one in grid(suite) if one.cell.key != cells(suite)[-1].key]
    failed = make_attempt(cells(suite)[-1], 1, status="oom")
    return grouped(suite, [*kept, failed]).blocks[0], BATCHING


def one_place():
    return grouped(batching()).blocks[0], BATCHING


def compound():
    return grouped(SHARDED).blocks[0], PARALLEL


@pytest.mark.parametrize("situation", [one_place, two_places, compound])
@pytest.mark.parametrize("kind", ["curves", "histogram"])
def test_no_label_of_a_picture_is_cut_off_or_lies_on_another(kind, situation, monkeypatch):
    block, asked = situation()
    subject = Subject(block, "Batching (ml-100k)", WHERE, asked, margin=0.006)
    figure = figure_of(curves if kind == "curves" else histogram, subject)

    assert_readable(figure, monkeypatch)
    names = " ".join(texts(figure))
    assert "grouped" in names or "2 ranks, user-sharded" in names
    assert "2026-11-30 to 2026-12-01" in " ".join(names.split())
    assert any(size in names for size in ("n=40", "n=4", "n=3"))


def test_every_arm_has_a_curve_and_a_reference_band():
    block, asked = one_place()
    subject = Subject(block, "t", WHERE, asked, margin=0.006)
    (ax,) = figure_of(curves, subject).axes

    assert len(ax.collections) == 2, "a ribbon of quartiles for each arm"
    shapes = figure_of(histogram, subject).axes
    assert len(shapes) == 2
