from __future__ import annotations

import math

import pytest
from sample_values import arm
from scipy import stats

from bench.stats.welch import shift, without_outliers


def test_without_outliers_it_is_welchs_test():
    a, b = arm(10, 0.0, 0.02, 1), arm(7, -0.05, 0.04, 2)

    found = shift(a, b)

    welch = stats.ttest_ind(b, a, equal_var=False)
    assert found.value == pytest.approx(-0.05)
    assert found.p_below() == pytest.approx(welch.pvalue / 2, rel=1e-9)
    assert found.p_above() == pytest.approx(1 - welch.pvalue / 2, rel=1e-9)
    interval = welch.confidence_interval(0.9)
    assert found.value - found.half_width(0.05) == pytest.approx(interval.low, rel=1e-9)
    assert (found.n, found.aside) == ((10, 7), (0, 0))


def test_a_slow_run_is_set_aside_and_counted():
    quiet, disturbed = arm(10, 0.0, 0.02, 1), [*arm(9, 0.0, 0.02, 2), -0.3]

    found = shift(quiet, disturbed)

    assert found.aside == (0, 1)
    assert found.n == (10, 10), "it is one of ten, even so"
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert shift(quiet, disturbed, robust=False).value == pytest.approx(-0.03)


def test_what_a_third_of_the_runs_do_is_no_outlier():
    often = [*arm(7, 0.0, 0.005, 1), -0.3, -0.31, -0.32]

    assert shift(arm(10, 0.0, 0.005, 2), often).aside == (0, 0)


def test_runs_without_spread_are_compared_exactly():
    assert shift([1.0] * 4, [1.0] * 4).p_below() == 1.0
    assert shift([1.0] * 4, [0.9] * 4).p_below() == 0.0
    assert shift([1.0] * 4, [1.1] * 4).p_above() == 0.0
    assert without_outliers([[1.0] * 4, [1.0, 1.0, 1.0, 0.9]])[1] == [1.0, 1.0, 1.0, 0.9]


def test_session_drift_widens_the_interval_whatever_the_runs():
    a, b = arm(10, 0.0, 0.02, 1), arm(10, 0.0, 0.02, 2)

    plain, drifting = shift(a, b), shift(a, b, between=0.03**2)

    assert drifting.error == pytest.approx(math.sqrt(plain.error**2 + 2 * 0.03**2))
    assert drifting.freedom > plain.freedom, "it is taken as known"
    many = shift(arm(1000, 0.0, 0.02, 1), arm(1000, 0.0, 0.02, 2), between=0.03**2)
    assert many.error > math.sqrt(2) * 0.03
