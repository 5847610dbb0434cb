from __future__ import annotations

from dataclasses import replace

import pytest
from sample_blocks import one_rank_block
from sample_figures import FIGURES
from sample_records import ML_20M
from sample_values import arm
from table_cells import shown_rows, verdict_table

from bench.analysis import contrasts
from bench.report import verdicts

MARGIN = 5e-4


def cell(table, header, row=0):
    return shown_rows(table)[row][table.headers.index(header)]


def test_400_and_400_runs_with_the_published_means_are_equivalent():
    block = one_rank_block({"fp32": arm(400, 0.95917, 4e-4, 1), "amp": arm(400, 0.95915, 4e-4, 2)})

    table = verdict_table(block, MARGIN)

    assert cell(table, "Verdict") == "EQUIVALENT"
    assert cell(table, "Compared") == "AMP (bfloat16) - FP32"
    assert cell(table, "Difference") == "-0.000020 [-0.000067 to +0.000027]"
    assert cell(table, "SD") == "0.00040, 0.00040"
    assert cell(table, "Runs") == "400, 400"
    assert cell(table, "Power") == "1.00"
    assert cell(table, "Margin") == "0.0005"


def test_a_shift_of_a_thousandth_is_different():
    block = one_rank_block({"fp32": arm(400, 0.95917, 4e-4, 1), "amp": arm(400, 0.95817, 4e-4, 2)})

    assert cell(verdict_table(block, MARGIN), "Verdict") == "DIFFERENT"


def test_four_runs_each_are_inconclusive_with_a_number():
    block = one_rank_block({"fp32": arm(4, 0.95917, 4e-4, 1), "amp": arm(4, 0.95915, 4e-4, 2)})

    assert cell(verdict_table(block, MARGIN), "Verdict") == "INCONCLUSIVE (needs 15 runs each)"


def test_one_run_each_has_no_spread_and_no_significance():
    table = verdict_table(one_rank_block({"fp32": [0.959], "amp": [0.9595]}), MARGIN)

    assert cell(table, "Verdict") == "INCONCLUSIVE (an arm with one run has no spread)"
    assert cell(table, "SD") == "n/a, n/a"
    assert cell(table, "Difference") == "+0.000500"
    assert cell(table, "Difference").item.low is None
    assert cell(table, "Power") == "n/a (one run has no spread)"
    assert (cell(table, "KS p"), cell(table, "Mann-Whitney p")) == ("n/a", "n/a")


def test_tf32_is_compared_too_and_is_the_reference_where_there_is_no_fp32():
    three = one_rank_block(
        {p: arm(5, 0.959, 4e-4, i) for i, p in enumerate(("fp32", "tf32", "amp"))}
    )
    two = one_rank_block({p: arm(5, 0.959, 4e-4, i) for i, p in enumerate(("tf32", "amp"))})

    rows = shown_rows(verdict_table(three, MARGIN))
    assert [row[1] for row in rows] == ["TF32 - FP32", "AMP (bfloat16) - FP32"]
    assert cell(verdict_table(two, MARGIN), "Compared") == "AMP (bfloat16) - TF32"


def test_one_precision_or_no_runs_have_no_verdict():
    assert verdict_table(one_rank_block({"fp32": arm(5, 0.959, 4e-4, 1)}), MARGIN) is None
    assert (
        verdict_table(one_rank_block({"fp32": arm(5, 0.959, 4e-4, 1), "amp": []}), MARGIN) is None
    )


def test_runs_that_did_not_converge_are_counted_and_stay_in_the_numbers():
    good, bad = arm(5, 0.959, 4e-4, 1), [*arm(4, 0.959, 4e-4, 2), 0.5]

    table = verdict_table(one_rank_block({"fp32": good, "amp": bad}), MARGIN)

    assert cell(table, "Not converged") == "1, 0"
    assert cell(table, "Runs") == "5, 5"
    assert cell(table, "Difference").startswith("-0.09")


def test_a_missed_target_is_no_convergence():
    values = arm(5, 0.959, 4e-4, 1)
    missed = sum(value < 0.959 for value in values)

    block = one_rank_block({"fp32": values, "amp": values}, target=0.959)

    assert cell(verdict_table(block, MARGIN), "Not converged") == f"{missed}, {missed}"


def test_one_run_far_above_its_siblings_is_too_good():
    values = [*arm(19, 0.959, 4e-4, 1), 0.9999]
    block = one_rank_block({"fp32": values, "amp": arm(20, 0.959, 4e-4, 2)})

    (warning,) = [w for w in verdicts.too_good(block, ()) if "robust" in w]
    assert warning.startswith("1 of 20 runs of ranks 1, precision fp32")
    assert verdicts.too_good(one_rank_block({"fp32": arm(20, 0.959, 4e-4, 1)}), FIGURES) == []


def test_an_accuracy_that_nobody_ever_published_is_too_good():
    block = one_rank_block({"fp32": arm(20, 0.98, 4e-4, 1)})

    (warning,) = verdicts.too_good(block, FIGURES)
    assert "more than 0.005 above every published one (0.96)" in warning
    other = one_rank_block(
        {"fp32": arm(20, 0.98, 4e-4, 1)}, data=replace(ML_20M, protocol="unique")
    )
    assert verdicts.too_good(other, FIGURES) == []


@pytest.mark.parametrize(("shift", "warned"), [(2e-3, True), (-2e-3, False), (0.0, False)])
def test_reduced_precision_that_beats_full_precision_is_too_good(shift, warned):
    block = one_rank_block(
        {"fp32": arm(20, 0.959, 4e-4, 1), "amp": arm(20, 0.959 + shift, 4e-4, 2)}
    )

    contrast = contrasts.precisions(block)
    lines = verdicts.verdicts_of(block, MARGIN, contrast)
    assert bool(verdicts.better_than_full(block, contrast, lines)) is warned
