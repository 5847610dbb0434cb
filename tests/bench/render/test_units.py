from __future__ import annotations

import pytest

from bench.render import units
from bench.stats.summary import Missing, Ratio, summarize


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (units.count, 20027840, "20,027,840"),
        (units.count, 151120.4, "151,120"),
        (units.compact, 20027840, "20.03 M"),
        (units.compact, 151234, "151.23 k"),
        (units.compact, 999_999, "1.00 M"),
        (units.compact, 2.5e9, "2.50 G"),
        (units.compact, 9.89e14, "989.00 T"),
        (units.percent, 0.3127, "31.3 %"),
        (units.compact, 12.345, "12.35"),
        (units.millions, 790000, "0.79 M"),
        (units.exact, 131072, "131,072"),
        (units.exact, 1048576 / 24, "43,690.7"),
        (units.hit_rate, 0.959015, "0.9590"),
        (units.hit_rate, 0.6, "0.6000"),
        (units.ratio, 2.1017, "2.10"),
        (units.ratio, 0.004, "0.0040"),
        (units.ratio, 0, "0.00"),
        (units.seconds, 0.0059, "0.00590"),
        (units.seconds, 59.41, "59.4"),
        (units.seconds, 1234.5, "1,234"),
        (units.milliseconds, 0.000346, "0.346"),
        (units.duration, 45.2, "45 s"),
        (units.duration, 600, "10 min"),
        (units.duration, 11_100, "3 h 05 min"),
        (units.size, 6 * 2**30, "6.0 GiB"),
        (units.size, 100, "100 B"),
    ],
)
def test_numbers_print_as_documented(form, value, text):
    assert form(value) == text


def test_hit_rates_over_many_users_deserve_a_fifth_digit():
    assert units.hit_rate_digits(943) == 4
    assert units.hit_rate_digits(138493) == 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"),
        (Missing("no timed steps"), "n/a (no timed steps)"),
        (float("nan"), "n/a (not finite)"),
        (0.0, "0"),
    ],
)
def test_a_missing_number_is_not_available_with_its_reason_and_never_zero(value, text):
    assert units.show(value, units.count) == text


def test_spread_of_one_three_and_six_runs():
    assert units.summary(summarize([100.0]), units.count) == "100 (spread n/a)"
    assert units.summary(summarize([90.0, 100.0, 120.0]), units.count) == "100 (90 to 120)"
    six = [90.0, 95.0, 100.0, 100.0, 105.0, 120.0]
    assert units.summary(summarize(six), units.count) == "100 [90 to 120]"


def test_ratio_prints_interval_extremes_or_neither():
    assert units.ratio_summary(Ratio(2.1, 2.0, 2.2, 1.9, 2.3)) == "2.10 [2.00 to 2.20]"
    assert units.ratio_summary(Ratio(2.1, None, None, 1.9, 2.3)) == "2.10 (1.90 to 2.30)"
    assert units.ratio_summary(Ratio(2.1, None, None, None, None)) == "2.10 (spread n/a)"
    assert units.ratio_summary(Missing("baseline is 0")) == "n/a (baseline is 0)"
