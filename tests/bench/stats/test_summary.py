from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from bench.stats.summary import (
    Missing,
    common_bins,
    order_statistic_rank,
    quantile,
    ratio,
    ratio_of_medians,
    ratio_to_constant,
    summarize,
)

finite = st.floats(-1e9, 1e9)


def test_summary_of_four_runs_in_literal_numbers():
    summary = summarize([4.0, 1.0, 3.0, 2.0])

    assert (summary.n, summary.median, summary.mean) == (4, 2.5, 2.5)
    assert (summary.min, summary.max) == (1.0, 4.0)
    assert summary.sd == pytest.approx(1.2909944487358056)


def test_one_run_has_no_spread_and_is_null_in_json():
    summary = summarize([100.0])

    assert (summary.sd, summary.low, summary.high) == (None, None, None)
    assert json.loads(json.dumps(asdict(summary)))["sd"] is None


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_below_six_runs_there_is_no_interval(n):
    summary = summarize([float(value) for value in range(n)])

    assert (summary.low, summary.high) == (None, None)
    assert summary.sd is not None


@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (25, 8), (50, 18), (2400, 1152)]
)
def test_interval_of_the_median_is_the_one_in_the_textbooks(n, rank):
    values = [float(value) for value in range(1, n + 1)]

    summary = summarize(values)

    assert (summary.low, summary.high) == (rank, n + 1 - rank)


@pytest.mark.parametrize("n", [*range(6, 60), 400])
def test_interval_covers_95_percent_and_the_next_narrower_does_not(n):
    rank = order_statistic_rank(n)

    assert 1 - 2 * scipy_stats.binom.cdf(rank - 1, n, 0.5) >= 0.95
    assert 1 - 2 * scipy_stats.binom.cdf(rank, n, 0.5) < 0.95 or rank == n // 2


@given(st.lists(finite, min_size=1, max_size=30))
def test_median_mean_and_interval_lie_within_the_data(values):
    summary = summarize(values)

    for inside in (summary.median, summary.mean, summary.low, summary.high):
        assert inside is None or min(values) <= inside <= max(values)


def test_equal_values_have_their_own_mean_and_no_deviation():
    summary = summarize([0.1] * 7)

    assert (summary.mean, summary.sd, summary.low, summary.high) == (0.1, 0.0, 0.1, 0.1)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_no_values_or_non_finite_ones_are_an_error_not_a_number(values):
    with pytest.raises(ValueError, match="summarise"):
        summarize(values)


@given(st.lists(finite, min_size=1, max_size=20), st.floats(0, 1))
def test_quantile_is_numpys(values, q):
    assert quantile(sorted(values), q) == pytest.approx(np.quantile(values, q), abs=1e-3)


def test_a_zero_baseline_is_no_baseline():
    assert ratio(1.0, 0.0) == Missing("baseline is 0")
    assert ratio_of_medians(summarize([1.0]), summarize([0.0])) == Missing("baseline is 0")
    assert ratio_to_constant(summarize([1.0]), 0.0) == Missing("baseline is 0")


def test_nothing_is_rounded_before_dividing():
    assert ratio(0.004, 1.0) == 0.004
    assert ratio(20_027_840, 9_529_271) == 20_027_840 / 9_529_271


def test_ratio_of_a_non_finite_number_is_missing():
    assert isinstance(ratio(math.nan, 1.0), Missing)


def test_ratio_of_single_runs_has_no_spread():
    found = ratio_of_medians(summarize([200.0]), summarize([100.0]))

    assert (found.value, found.low, found.high, found.min, found.max) == (2.0, *[None] * 4)


def test_ratio_of_few_runs_has_extremes_but_no_interval():
    found = ratio_of_medians(summarize([190.0, 200.0, 220.0]), summarize([95.0, 100.0, 110.0]))

    assert found.value == 2.0
    assert (found.low, found.high) == (None, None)
    assert (found.min, found.max) == (190 / 110, 220 / 95)


def test_ratio_of_many_runs_has_an_interval_that_turns_over_with_it():
    fast = summarize([190.0, 195.0, 200.0, 200.0, 205.0, 220.0])
    slow = summarize([95.0, 98.0, 100.0, 100.0, 102.0, 110.0])

    up, down = ratio_of_medians(fast, slow), ratio_of_medians(slow, fast)

    assert up.low < up.value < up.high
    assert (1 / down.high, 1 / down.low) == pytest.approx((up.low, up.high))
    assert up.low == pytest.approx(2 * math.exp(-math.hypot(math.log(200 / 190), math.log(1.1))))


def test_ratio_of_values_that_are_not_all_positive_is_missing():
    assert isinstance(ratio_of_medians(summarize([1.0, -1.0, 2.0]), summarize([1.0])), Missing)


@pytest.mark.parametrize(("n", "m"), [(6, 6), (7, 20), (20, 20)])
def test_ratio_interval_covers_the_truth_in_94_percent_or_more(n, m):
    # 1,500 pairs of skewed samples with a true ratio of 2; the binomial error is 0.6 %.
    rng = np.random.default_rng(2026)
    above = 2 * np.exp(0.1 * rng.standard_exponential((1500, n)))
    below = np.exp(0.1 * rng.standard_exponential((1500, m)))
    found = [
        ratio_of_medians(summarize(a), summarize(b)) for a, b in zip(above, below, strict=True)
    ]

    assert np.mean([one.low <= 2 <= one.high for one in found]) >= 0.94


def test_ratio_to_a_published_number_keeps_our_spread():
    found = ratio_to_constant(summarize([90.0, 100.0, 120.0]), 50.0)

    assert (found.value, found.min, found.max, found.low) == (2.0, 1.8, 2.4, None)


@given(
    st.lists(st.integers(0, 943), min_size=1, max_size=60),
    st.sampled_from([1, 7, 943, 138493]),
)
def test_every_value_lies_inside_a_bin_and_on_no_edge(hits, users):
    values = [hit / users for hit in hits]

    edges = common_bins(values, 1 / users)

    assert edges[0] < min(values)
    assert max(values) < edges[-1]
    nearest = min(abs(edge - value) for edge in edges for value in values)
    assert nearest > 0.4 / users
    assert len(edges) <= 43


@given(st.lists(st.integers(0, 943), min_size=2, max_size=60))
def test_bins_are_equally_wide_and_no_finer_than_the_quantity(hits):
    edges = common_bins([hit / 943 for hit in hits], 1 / 943)

    widths = np.diff(edges) * 943
    assert np.allclose(widths, widths[0])
    assert widths[0] == pytest.approx(round(widths[0]))


def test_equal_values_share_one_bin():
    assert len(common_bins([0.5, 0.5], 1 / 943)) == 2
