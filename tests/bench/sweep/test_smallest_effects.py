from __future__ import annotations

import math
import random

import pytest
from sample_records import make_attempt, make_run, make_suite

from bench.stats.welch import critical_value, pooled_spread, smallest_effect
from bench.suite.model import cells
from bench.sweep.plan_text import smallest_effects

CELL = cells(make_suite())[0]


def test_the_smallest_difference_is_the_one_of_the_textbook():
    # t(0.975, 18) = 2.1009, z(0.9) = 1.2816: (2.1009 + 1.2816) * 1 * sqrt(2 / 10) = 1.5127
    assert smallest_effect(10, 1.0) == pytest.approx(1.5127, abs=1e-4)
    assert smallest_effect(10, 4e-4) == pytest.approx(1.5127 * 4e-4, abs=1e-7)


@pytest.mark.parametrize("n", [2, 3, 5, 20, 400])
def test_the_critical_value_is_that_of_students_t(n):
    from scipy import stats

    exact = stats.t.ppf(0.975, 2 * n - 2)
    assert critical_value(2 * n - 2, 0.025) == pytest.approx(exact, rel=1e-12)


def test_it_is_found_about_nine_times_in_ten():
    from scipy import stats

    rng, found = random.Random(1), 0
    shift = smallest_effect(10, 1.0)
    for _ in range(400):
        a = [rng.gauss(0, 1) for _ in range(10)]
        b = [rng.gauss(shift, 1) for _ in range(10)]
        found += stats.ttest_ind(a, b, equal_var=False).pvalue < 0.05
    assert 0.85 < found / 400 < 0.95


def test_one_run_shows_nothing():
    assert smallest_effect(1, 1.0) is None
    (line,) = smallest_effects([(1, [])], "ml-20m", None, None)
    assert "none, one run has no spread" in line


def test_the_spread_is_pooled_within_cells():
    assert pooled_spread([[1.0, 3.0], [10.0, 12.0], [7.0]]) == (pytest.approx(math.sqrt(2)), 4)
    assert pooled_spread([[1.0], []]) is None


def test_effect_without_runs_uses_the_published_spread():
    hr, speed = smallest_effects([(20, []), (20, [])], "ml-20m", 5e-4, None)
    assert "20 runs a cell" in hr
    assert "SD 0.00040, as published code has on ml-20m; the margin is 0.0005" in hr
    (hr, _) = smallest_effects([(20, [])], "ml-20m", "sd", 0.03)
    assert hr.endswith("(SD 0.00040, as published code has on ml-20m; the margin is that SD)")
    assert speed.endswith("unknown until a cell has 2 runs")
    assert "unknown" in smallest_effects([(20, [])], None, None, None)[0]


def test_with_stored_runs_their_own_spread_counts():
    rates = (99_000.0, 101_000.0, 100_000.0)
    runs = [make_attempt(CELL, s, make_run(seed=s, rate=rates[s - 1])) for s in (1, 2, 3)]
    hr, speed = smallest_effects([(3, runs)], None, None, 0.03)
    assert "SD 1.00%, of 3 stored runs; the margin is 3.0%" in speed
    assert "0.00000 (SD 0.00000, of 3 stored runs)" in hr
