"""Whether two precisions reach the same accuracy: Welch's TOST, its power, and the n still needed.

Pure. Two one-sided t-tests (Schuirmann 1987) at level 5 % each, with Welch's degrees of freedom:
the verdict compares the 90 % interval of the difference of means with the margin.
tools/simulate_verdicts.py counts its errors.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.stats.summary import POWER, Missing, Value, smallest_count, summarize
from bench.stats.welch import critical_value, welch

if TYPE_CHECKING:
    from collections.abc import Sequence

EQUIVALENT, DIFFERENT, INCONCLUSIVE = "EQUIVALENT", "DIFFERENT", "INCONCLUSIVE"


@dataclass(frozen=True)
class Verdict:
    """The comparison of a tested arm with a reference arm, in the quantity's own unit.

    `difference` is tested - reference; `low` and `high` are its 90 % interval. `power` is the
    chance that arms of this size and spread had of EQUIVALENT, were there no difference at all.
    `needed` runs per arm would decide with a chance of 90 %; None where the answer is there, or
    where no affordable number would do.
    """

    answer: str
    margin: float
    n: tuple[int, int]
    sd: tuple[float | None, float | None]
    difference: float
    low: float | None
    high: float | None
    power: Value
    needed: int | None
    reason: str = ""


def compare(
    reference: Sequence[float],
    tested: Sequence[float],
    margin: float,
    sd_if_unknown: float | None = None,
) -> Verdict:
    """EQUIVALENT: the interval lies inside the margin; DIFFERENT: it lies outside; else neither.

    Args:
        reference: one value a run, at least one.
        tested: likewise.
        margin: the difference that would matter, > 0.
        sd_if_unknown: the spread from which `needed` is computed where an arm has one run.
    """
    a, b = summarize(reference), summarize(tested)
    difference = b.mean - a.mean
    sizes, spreads = (a.n, b.n), (a.sd, b.sd)
    if a.sd is None or b.sd is None:
        known = next((sd for sd in (a.sd, b.sd, sd_if_unknown) if sd), None)
        return Verdict(
            INCONCLUSIVE,
            margin,
            sizes,
            spreads,
            difference,
            None,
            None,
            Missing("one run has no spread"),
            needed(margin, known, known) if known else None,
            "an arm with one run has no spread",
        )
    error, freedom = welch(a.sd, a.n, b.sd, b.n)
    half = critical_value(freedom) * error
    low, high = difference - half, difference + half
    if -margin < low and high < margin:
        answer = EQUIVALENT
    elif low > margin or high < -margin:
        answer = DIFFERENT
    else:
        answer = INCONCLUSIVE
    more = None
    if answer == INCONCLUSIVE:
        more = needed(margin, a.sd, b.sd)
        if more is not None and more <= min(sizes):  # enough for no difference, so there is one
            more = needed(margin, a.sd, b.sd, difference)
    return Verdict(
        answer,
        margin,
        sizes,
        spreads,
        difference,
        low,
        high,
        power(margin, a.sd, b.sd, a.n, b.n),
        more,
        "" if answer != INCONCLUSIVE else "the interval reaches across the margin",
    )


def power(
    margin: float, sd_a: float, sd_b: float, n_a: int, n_b: int, difference: float = 0.0
) -> float:
    """Chance that arms of these sizes end in the right answer, if the difference is as given.

    The right answer is EQUIVALENT for a difference below the margin, DIFFERENT beyond it. Normal
    approximation with the critical value of Student's t; tests/bench/stats/test_equivalence.py
    measures how far it is off (a few hundredths from 10 runs on; below that, it is too low).
    """
    error, freedom = welch(sd_a, n_a, sd_b, n_b)
    if error == 0:
        return 1.0
    critical = critical_value(freedom)
    inside, outside = (margin - difference) / error, (margin + difference) / error
    if abs(difference) > margin:
        return _normal((abs(difference) - margin) / error - critical)
    return max(0.0, _normal(inside - critical) + _normal(outside - critical) - 1)


def needed(margin: float, sd_a: float, sd_b: float, difference: float = 0.0) -> int | None:
    """Runs per arm that decide with 90 % chance; None beyond a million (or never)."""
    if abs(difference) == margin:
        return None
    return smallest_count(lambda n: power(margin, sd_a, sd_b, n, n, difference) >= POWER, least=2)


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def diagnostics(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    """P-values of Kolmogorov-Smirnov and Mann-Whitney; None below 4 runs.

    They ask whether the distributions differ in any way, however small, and decide nothing here:
    with enough runs every two programs differ.
    """
    if min(len(a), len(b)) < 4:
        return None, None
    if len({*a, *b}) == 1:
        return 1.0, 1.0
    from scipy import stats

    with warnings.catch_warnings():
        # Ties make the exact KS distribution unusable; scipy then takes the asymptotic one.
        warnings.simplefilter("ignore", RuntimeWarning)
        ks = stats.ks_2samp(a, b)
    return float(ks.pvalue), float(stats.mannwhitneyu(a, b).pvalue)
