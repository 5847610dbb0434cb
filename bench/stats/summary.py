"""Statistics over runs: the run is the unit, and no number leaves here without its sample size.

Pure: takes numbers, returns numbers. Nothing is rounded here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncf import record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONFIDENCE = 0.95
ALPHA = 0.05
"""Share of wrong answers that each way of erring is allowed: each end of a 90 % interval."""
ALPHA_GATE = 0.005
"""Share of gates that may call no loss a loss by the test alone. The gate promises 1 %; the rest is
room for what no test sees: drift from run to run, outliers (both in the simulation)."""
FALSE_ALARMS = 0.01
"""Share of gates that may call no loss a loss: the promise, which `noise_margin` is made for."""
POWER = 0.9
"""Chance of an answer that numbers of runs are computed for."""
MIN_RUNS = 6
"""Runs per side below which a gate has no verdict: three or four runs agree by luck too easily."""
MOST_RUNS = 1_000_000
"""Beyond this no number of runs is affordable."""
TARGET_LOSS = 0.05
"""The loss that a gate should find."""
TARGET_POWER = 0.95
"""How often a gate should find it."""
OUTLIER_Z = 3.5
"""Robust standard deviations from the median beyond which a run is set aside (Iglewicz and
Hoaglin, How to Detect and Handle Outliers, 1993: the modified z-score)."""
MOST_OUTLIERS = 0.2
"""If more of a side lies that far out, they are not outliers but the way the side behaves."""
NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

# One rule for what is printed by the trainer and what is printed here.
FEWEST, quantile = record.FEWEST, record.quantile


@dataclass(frozen=True)
class Missing:
    """A number that does not exist, with the reason; it prints as n/a, never as 0."""

    reason: str


Value = float | Missing
"""A number, or why there is none."""


@dataclass(frozen=True)
class Summary:
    """What n runs say about one quantity, in the quantity's own unit.

    `low` and `high` bound the median with at least 95 % confidence and assume nothing about the
    distribution; below 6 runs no such interval exists and both are None. `sd` needs 2 runs.
    """

    n: int
    median: float
    mean: float
    min: float
    max: float
    sd: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians with its 95 % interval (None unless both sides have one).

    `min` and `max` are the extremes over pairs of runs, None when both sides are single runs.
    """

    value: float
    low: float | None
    high: float | None
    min: float | None
    max: float | None


def summarize(values: Sequence[float]) -> Summary:
    """Summarise one quantity over runs.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    ordered = sorted(float(value) for value in values)
    if not ordered:
        raise ValueError("no values to summarise")
    if not all(math.isfinite(value) for value in ordered):
        raise ValueError("a value to summarise is not finite")
    n = len(ordered)
    mean = math.fsum(ordered) / n
    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in ordered) / (n - 1)) if n > 1 else None
    rank = order_statistic_rank(n)
    return Summary(
        n=n,
        median=quantile(ordered, 0.5),
        # fsum / n may land an ulp outside the data; a mean lies within them.
        mean=min(max(mean, ordered[0]), ordered[-1]),
        min=ordered[0],
        max=ordered[-1],
        sd=sd,
        low=None if rank is None else ordered[rank - 1],
        high=None if rank is None else ordered[n - rank],
    )


def order_statistic_rank(n: int, confidence: float = CONFIDENCE) -> int | None:
    """The k for which the k-th smallest and k-th largest of n values bound the median.

    The count of values below the true median is Binomial(n, 1/2), so this pair covers it with
    probability 1 - 2 P(count < k), whatever the distribution (David & Nagaraja, Order Statistics,
    section 7.1). The largest k that keeps the confidence is returned; None where none does
    (n < 6 at 95 %).
    """
    total = 2**n
    below, term, rank = 0, 1, None  # term = C(n, k - 1), exact integers: no rounding, any n
    for k in range(1, n // 2 + 1):
        below += term
        if 2 * below / total > 1 - confidence:
            break
        rank = k
        term = term * (n - k + 1) // k
    return rank


def tail(values: Sequence[float], q: float) -> Value:
    """A high percentile, such as a latency's p99; Missing where there are too few values for it.

    Args:
        values: one a request.
        q: 0.90, 0.95 or 0.99.
    """
    found = record.tail(values, q)
    if found is None:
        return Missing(f"p{q * 100:.0f} needs {FEWEST[q]} values, n={len(values)}")
    return found


def ratio(numerator: float, denominator: float) -> Value:
    """Numerator / denominator, unrounded; Missing where the denominator is no baseline."""
    if not (math.isfinite(numerator) and math.isfinite(denominator)):
        return Missing("not finite")
    if denominator == 0:
        return Missing("baseline is 0")
    return numerator / denominator


def ratio_of_medians(numerator: Summary, denominator: Summary) -> Ratio | Missing:
    """Ratio of two independent medians of positive quantities, with an interval.

    The interval joins the two order-statistic intervals on the log scale (MOVER: Zou & Donner
    2008; for medians Bonett & Price 2020): no resampling, so the same runs give the same digits
    everywhere. tests/bench/stats/test_summary.py measures its coverage.
    """
    if denominator.median == 0:
        return Missing("baseline is 0")
    if numerator.min <= 0 or denominator.min <= 0:
        return Missing("not all values are positive")
    value = numerator.median / denominator.median
    low = high = None
    if numerator.low is not None and denominator.low is not None:
        assert numerator.high is not None
        assert denominator.high is not None
        log = math.log
        up_a, down_a = log(numerator.high / numerator.median), log(numerator.median / numerator.low)
        up_b = log(denominator.high / denominator.median)
        down_b = log(denominator.median / denominator.low)
        low = value * math.exp(-math.hypot(down_a, up_b))
        high = value * math.exp(math.hypot(up_a, down_b))
    single = numerator.n == 1 and denominator.n == 1
    return Ratio(
        value=value,
        low=low,
        high=high,
        min=None if single else numerator.min / denominator.max,
        max=None if single else numerator.max / denominator.min,
    )


def ratio_to_constant(numerator: Summary, denominator: float) -> Ratio | Missing:
    """Ratio of a median to a number without spread, such as a published one."""
    if denominator == 0:
        return Missing("baseline is 0")

    def scaled(value: float | None) -> float | None:
        return None if value is None else value / denominator

    single = numerator.n == 1
    return Ratio(
        value=numerator.median / denominator,
        low=scaled(numerator.low),
        high=scaled(numerator.high),
        min=None if single else scaled(numerator.min),
        max=None if single else scaled(numerator.max),
    )


def smallest_count(
    enough: Callable[[int], bool], least: int = 1, most: int = MOST_RUNS
) -> int | None:
    """The smallest n from `least` to `most` for which `enough(n)`; None if not even `most` is.

    Args:
        enough: false up to some n and true from there on.
        least: where to begin.
        most: where to give up.
    """
    if not enough(most):
        return None
    return least + bisect_left(range(least, most), x=True, key=enough)


def common_bins(values: Sequence[float], step: float, most: int = 40) -> list[float]:
    """Bin edges that several histograms share.

    Widths are the narrower of Freedman-Diaconis and Sturges (numpy's "auto"), a whole number of
    `step` (the resolution of the quantity: a hit rate over u users moves by 1/u; narrower bins
    would show a comb), and edges lie half a step beside the values: no value sits on an edge.

    Args:
        values: all values of all histograms, at least one.
        step: smallest distance between two possible values, > 0.
        most: upper bound of the number of bins.
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    spread = quantile(ordered, 0.75) - quantile(ordered, 0.25)
    sturges = (high - low) / (math.log2(len(ordered)) + 1)
    width = min(2 * spread / len(ordered) ** (1 / 3) or sturges, sturges)
    width = max(width, (high - low) / most, step)
    width = math.ceil(width / step - 1e-9) * step
    count = math.ceil((high - low + step) / width - 1e-9)
    # Centre the bins on the data, so that the empty part of the last one is shared by both ends.
    spare = max(0, round((count * width - (high - low)) / step) - 1)  # in steps
    start = low - step / 2 - (spare // 2) * step
    return [start + index * width for index in range(count + 1)]
