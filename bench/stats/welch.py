"""By how much the runs of one side lie above those of another: estimate, error, p-value. Pure.

The difference of means with Welch's error, after runs that do not belong to their side's bulk were
set aside. For speeds the values are logarithms, so that a difference is a ratio. Why not medians or
ranks: docs/ci.md. tools/simulate_gate.py counts the errors of what is built on this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median, variance
from typing import TYPE_CHECKING

from bench.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FAR = 3.5
"""Robust standard deviations from the median beyond which a run is set aside (Iglewicz and
Hoaglin, How to Detect and Handle Outliers, 1993: the modified z-score)."""
MOST_ASIDE = 0.2
"""If more of a side lies that far out, it is no outlier but the way the side behaves."""


@dataclass(frozen=True)
class Shift:
    """Tested - reference, in the unit of the values.

    Attributes:
        value: difference of the means of the runs that were kept.
        error: its standard error.
        freedom: degrees of freedom of the error.
        n: runs of reference and tested, those set aside included.
        aside: runs that were set aside.
        sd: standard deviation of a run, both sides pooled.
    """

    value: float
    error: float
    freedom: float
    n: tuple[int, int]
    aside: tuple[int, int]
    sd: float

    def half(self, level: float) -> float:
        """Half the width of the interval that errs with `level` on each side."""
        return critical_value(self.freedom, level) * self.error

    def p_below(self, at: float = 0.0) -> float:
        """The chance of a difference this low or lower if the true one is `at`."""
        if self.error == 0:
            return 0.0 if self.value < at else 1.0
        from scipy.special import stdtr

        return float(stdtr(self.freedom, (self.value - at) / self.error))

    def p_above(self, at: float = 0.0) -> float:
        """The chance of a difference this high or higher if the true one is `at`."""
        if self.error == 0:
            return 0.0 if self.value > at else 1.0
        from scipy.special import stdtr

        return float(stdtr(self.freedom, (at - self.value) / self.error))


def shift(
    reference: Sequence[float],
    tested: Sequence[float],
    *,
    robust: bool = True,
    between: float = 0.0,
) -> Shift:
    """Compare two sides of at least 2 runs each.

    Args:
        reference: one value a run.
        tested: likewise.
        robust: whether to set outliers aside; False keeps every run.
        between: variance from one session of runs to another, as `calibrate` measured it; it counts
            once a side, and no number of runs averages it out.
    """
    a, b = kept((reference, tested)) if robust else (reference, tested)
    one, two = summarize(a), summarize(b)
    assert one.sd is not None
    assert two.sd is not None
    own = [(side.sd**2 / side.n, side.n - 1.0) for side in (one, two) if side.sd is not None]
    error, freedom = satterthwaite([*own, (2 * between, math.inf)] if between else own)
    pooled = (one.sd**2 * (one.n - 1) + two.sd**2 * (two.n - 1)) / (one.n + two.n - 2)
    return Shift(
        value=two.mean - one.mean,
        error=error,
        freedom=freedom,
        n=(len(reference), len(tested)),
        aside=(len(reference) - one.n, len(tested) - two.n),
        sd=math.sqrt(pooled),
    )


def kept(sides: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Each side without what lies far from its own bulk; one scale for all."""
    centres = [median(side) for side in sides]
    off = [abs(v - at) for side, at in zip(sides, centres, strict=True) for v in side]
    free = len(off) - len(sides)
    if free < 3:
        return list(sides)
    # 1.4826 makes it the SD of a normal distribution; the rest is the bias of fitted medians.
    limit = FAR * 1.4826 * median(off) * len(off) / free
    return [_near(side, at, limit) for side, at in zip(sides, centres, strict=True)]


def _near(values: Sequence[float], centre: float, limit: float) -> Sequence[float]:
    near = [value for value in values if abs(value - centre) <= limit]
    few = len(values) - len(near) <= MOST_ASIDE * len(values)
    return near if limit > 0 and few else values


LEVEL = 0.05
"""Share of wrong answers that each way of erring is allowed."""


def welch(sd_a: float, n_a: int, sd_b: float, n_b: int) -> tuple[float, float]:
    """Standard error of the difference of means, and Welch's degrees of freedom."""
    a, b = sd_a**2 / n_a, sd_b**2 / n_b
    return satterthwaite(((a, n_a - 1), (b, n_b - 1)))


def satterthwaite(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Root of a sum of estimated variances, and its degrees of freedom (Satterthwaite 1946).

    Args:
        parts: each variance with its own degrees of freedom.
    """
    total = math.fsum(variance for variance, _ in parts)
    if total == 0:
        return 0.0, math.fsum(freedom for _, freedom in parts)
    spread = math.fsum(variance**2 / freedom for variance, freedom in parts)
    return math.sqrt(total), total**2 / spread


def critical_value(freedom: float, level: float = LEVEL) -> float:
    """What Student's t exceeds with this chance."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - level))


EFFECT_ALPHA = 0.05


EFFECT_POWER = 0.9


def smallest_effect(n: int, sd: float) -> float | None:
    """The difference that n runs a side find with 90 % chance; None for n = 1."""
    if n < 2:
        return None
    critical = _student(1 - EFFECT_ALPHA / 2, 2 * n - 2)
    return (critical + NormalDist().inv_cdf(EFFECT_POWER)) * sd * math.sqrt(2 / n)


def _student(p: float, freedom: int) -> float:
    """Quantile of Student's t, 1 % too small for 2 degrees of freedom and soon exact.

    Abramowitz and Stegun 26.7.5; `bench plan` need not wait for scipy.
    """
    z: float = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def pooled_spread(values: Iterable[Sequence[float]]) -> tuple[float, int] | None:
    """SD within cells, pooled over them, and the number of runs; None without a cell of two."""
    usable = [cell for cell in values if len(cell) > 1]
    freedom = sum(len(cell) - 1 for cell in usable)
    if not freedom:
        return None
    pooled = sum(variance(cell) * (len(cell) - 1) for cell in usable) / freedom
    return math.sqrt(pooled), sum(map(len, usable))
