"""By how much the runs of one side lie above those of another: estimate, error, p-value. Pure.

The difference of means with Welch's error, after runs that do not belong to their side's bulk were
set aside. For speeds the values are logarithms, so that a difference is a ratio. Why not medians or
ranks: docs/ci.md. tools/simulate_gate.py counts the errors of what is built on this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, median, variance
from typing import TYPE_CHECKING

from bench.stats.summary import ALPHA, MOST_OUTLIERS, NORMAL_MAD, OUTLIER_Z, POWER, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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

    def half_width(self, level: float) -> float:
        """Half the width of the interval that errs with `level` on each side."""
        return critical_value(self.freedom, level) * self.error

    def p_below(self, at: float = 0.0) -> float:
        """The chance of a difference this low or lower if the true one is `at`."""
        return self._p(self.value - at)

    def p_above(self, at: float = 0.0) -> float:
        """The chance of a difference this high or higher if the true one is `at`."""
        return self._p(at - self.value)

    def _p(self, above: float) -> float:
        if self.error == 0:
            return 0.0 if above < 0 else 1.0
        from scipy.special import stdtr

        return float(stdtr(self.freedom, above / self.error))


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
    a, b = without_outliers((reference, tested)) if robust else (reference, tested)
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


def without_outliers(sides: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Each side without what lies far from its own bulk; one scale for all."""
    centres = [median(side) for side in sides]
    off = [abs(v - at) for side, at in zip(sides, centres, strict=True) for v in side]
    free = len(off) - len(sides)
    if free < 3:
        return list(sides)
    # The last factor is the bias of fitted medians.
    limit = OUTLIER_Z * NORMAL_MAD * median(off) * len(off) / free
    return [_near(side, at, limit) for side, at in zip(sides, centres, strict=True)]


def _near(values: Sequence[float], centre: float, limit: float) -> Sequence[float]:
    near = [value for value in values if abs(value - centre) <= limit]
    few = len(values) - len(near) <= MOST_OUTLIERS * len(values)
    return near if limit > 0 and few else values


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


def critical_value(freedom: float, level: float = ALPHA) -> float:
    """What Student's t exceeds with this chance."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - level))


def smallest_effect(n: int, sd: float) -> float | None:
    """The difference that n runs per side find with 90 % chance; None for n = 1.

    A two-sided Welch t-test finds d = (t + z) * sd * sqrt(2 / n), with t the critical value and z
    the normal quantile of the power (NIST/SEMATECH e-Handbook, section 7.2.2.2).
    """
    if n < 2:
        return None
    critical = critical_value(2 * n - 2, ALPHA / 2)
    return (critical + NormalDist().inv_cdf(POWER)) * sd * math.sqrt(2 / n)


def pooled_spread(values: Iterable[Sequence[float]]) -> tuple[float, int] | None:
    """SD within cells, pooled over them, and the number of runs; None without a cell of two."""
    usable = [cell for cell in values if len(cell) > 1]
    freedom = sum(len(cell) - 1 for cell in usable)
    if not freedom:
        return None
    pooled = sum(variance(cell) * (len(cell) - 1) for cell in usable) / freedom
    return math.sqrt(pooled), sum(map(len, usable))
