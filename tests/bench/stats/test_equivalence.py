from __future__ import annotations

import pytest
import simulate_verdicts
from sample_values import arm
from scipy import stats

from bench.stats.equivalence import (
    DIFFERENT,
    EQUIVALENT,
    INCONCLUSIVE,
    compare,
    diagnostics,
    needed,
    power,
)
from bench.stats.summary import MOST_RUNS, Missing

MARGIN = 5e-4


def test_the_published_histogram_is_equivalent():
    verdict = compare(arm(400, 0.95917, 4e-4, 1), arm(400, 0.95915, 4e-4, 2), MARGIN)

    assert verdict.answer == EQUIVALENT
    assert verdict.difference == pytest.approx(-2e-5, abs=1e-9)
    assert verdict.sd == pytest.approx((4e-4, 4e-4))
    assert (verdict.low, verdict.high) == pytest.approx((-6.66e-5, 2.66e-5), abs=1e-7)
    assert verdict.power == pytest.approx(1.0)
    assert verdict.needed is None


def test_a_shift_of_two_margins_is_different():
    up = compare(arm(400, 0.95917, 4e-4, 1), arm(400, 0.96017, 4e-4, 2), MARGIN)
    down = compare(arm(400, 0.95917, 4e-4, 1), arm(400, 0.95817, 4e-4, 2), MARGIN)

    assert (up.answer, down.answer) == (DIFFERENT, DIFFERENT)
    assert up.difference == pytest.approx(1e-3)
    assert down.difference == pytest.approx(-1e-3)


def test_four_runs_are_inconclusive_and_say_how_many_are_needed():
    verdict = compare(arm(4, 0.95917, 4e-4, 1), arm(4, 0.95915, 4e-4, 2), MARGIN)

    assert verdict.answer == INCONCLUSIVE
    assert verdict.needed == 15
    assert power(MARGIN, 4e-4, 4e-4, 15, 15) >= 0.9 > power(MARGIN, 4e-4, 4e-4, 14, 14)


def test_the_sizes_that_the_margins_were_chosen_for():
    assert power(5e-4, 4e-4, 4e-4, 20, 20) == pytest.approx(0.98, abs=0.01)
    assert needed(0.006, 0.008, 0.008) == 39


def test_an_unequal_spread_is_weighed_as_welch_does():
    a, b = arm(10, 0.0, 1.0, 1), arm(5, 0.0, 4.0, 2)

    verdict = compare(a, b, margin=10.0)

    welch = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.9)
    assert (verdict.low, verdict.high) == pytest.approx((welch.low, welch.high), rel=1e-9)
    assert verdict.high == pytest.approx(3.80766, abs=1e-5)


def test_a_real_difference_below_the_margin_needs_more_runs_than_none():
    verdict = compare(arm(30, 0.959, 4e-4, 1), arm(30, 0.959 + 4e-4, 4e-4, 2), MARGIN)

    assert verdict.answer == INCONCLUSIVE
    assert 200 < verdict.needed < 400


def test_a_difference_of_exactly_the_margin_can_never_be_decided():
    assert needed(MARGIN, 4e-4, 4e-4, MARGIN) is None
    assert needed(1e-9, 4e-4, 4e-4) is None, f"more than {MOST_RUNS} runs"


def test_one_run_has_no_spread_and_no_verdict():
    verdict = compare([0.95], [0.96], MARGIN)

    assert (verdict.answer, verdict.low, verdict.needed) == (INCONCLUSIVE, None, None)
    assert verdict.power == Missing("one run has no spread")
    assert compare([0.95], arm(5, 0.95, 4e-4, 1), MARGIN).needed == 15


def test_runs_without_any_spread_are_compared_exactly():
    assert compare([0.9] * 3, [0.9] * 3, MARGIN).answer == EQUIVALENT
    assert compare([0.9] * 3, [0.91] * 3, MARGIN).answer == DIFFERENT


def test_significance_alone_changes_no_verdict():
    reference, tested = arm(400, 0.95917, 4e-4, 1), arm(400, 0.95937, 4e-4, 2)

    ks, mann_whitney = diagnostics(reference, tested)

    assert max(ks, mann_whitney) < 1e-6
    assert compare(reference, tested, MARGIN).answer == EQUIVALENT


def test_diagnostics_need_four_runs_and_take_ties():
    assert diagnostics([0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]) == (None, None)
    assert diagnostics([0.5] * 4, [0.5] * 5) == (1.0, 1.0)
    ks, mann_whitney = diagnostics([0.5, 0.5, 0.5, 0.6], [0.5, 0.5, 0.7, 0.7])
    assert 0 < ks <= 1
    assert 0 < mann_whitney <= 1


@pytest.mark.parametrize(("n", "shift"), [(10, 0.0), (20, 0.0), (20, 0.5), (20, 1.5)])
def test_the_power_formula_agrees_with_counting(n, shift):
    answers = simulate_verdicts.simulate(n, 4e-4, 4e-4, shift, pairs=1000, seed=5)

    right = answers[DIFFERENT if shift > 1 else EQUIVALENT] / 1000
    assert right == pytest.approx(power(MARGIN, 4e-4, 4e-4, n, n, shift * MARGIN), abs=0.05)


def test_a_margin_that_is_estimated_errs_little_more_than_five_percent():
    at_margin = simulate_verdicts.simulate_spread(40, 1.0, pairs=2000, seed=1)
    beyond = simulate_verdicts.simulate_spread(40, 1.5, pairs=500, seed=1)

    assert max(simulate_verdicts.errors(at_margin, 1.0).values()) <= 0.10
    assert simulate_verdicts.errors(beyond, 1.5)[EQUIVALENT] <= 0.01


@pytest.mark.parametrize("situation", simulate_verdicts.SITUATIONS)
def test_wrong_answers_stay_within_five_percent(situation):
    n, sd_a, sd_b, shift = situation
    pairs = 200 if n == 400 else 1000

    answers = simulate_verdicts.simulate(n, sd_a, sd_b, shift, pairs, seed=1)

    # On the margin itself 5 % is what the test is built to reach: chance lies around it (3 SE).
    allowed = 0.05 + (3 * (0.05 * 0.95 / pairs) ** 0.5 if shift == 1 else 0)
    assert max(simulate_verdicts.errors(answers, shift).values()) <= allowed
