"""What runs of the same code differ by: within a session, and from one session to the next. Pure.

`ncf-bench calibrate` makes the suite's runs several times over, round after round. The rounds are
compared by a one-way analysis of variance with random effects (Searle, Casella and McCulloch,
Variance Components, 1992, chapter 3): what the rounds differ by beyond what their runs explain is
drift, which no number of runs within one session averages out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import variance
from typing import TYPE_CHECKING

from bench.stats import decision
from bench.stats.summary import summarize
from bench.stats.welch import without_outliers

if TYPE_CHECKING:
    from collections.abc import Sequence


FEWEST_ROUNDS = 3
"""From two rounds alone the variance between rounds has one degree of freedom: useless."""


@dataclass(frozen=True)
class Noise:
    """What was measured of one metric of one cell, in the scale in which it is compared.

    Attributes:
        sd: of a run within a round.
        between: variance from round to round beyond what the runs explain; 0 where there is none.
        rounds: how many there were.
        runs: in all rounds together.
    """

    sd: float
    between: float
    rounds: int
    runs: int

    def margin(self, n: int) -> float:
        """The loss that noise alone feigns in 1 % of comparisons of n runs a side."""
        within = (self.sd**2, self.runs - self.rounds)
        return decision.noise_margin(n, within, (self.between, self.rounds - 1))

    def runs_to_find(self, loss: float, margin: float) -> int | None:
        """Runs a side that find a loss with 95 % chance; None where no number does."""
        return decision.runs_to_find(self.sd, loss, margin, between=self.between)


def measure(rounds: Sequence[Sequence[float]], *, robust: bool) -> Noise | None:
    """The noise of one metric of one cell; None with fewer than 3 rounds of 2 runs.

    Args:
        rounds: the values of each round, as they are compared (logarithms where ratios matter).
        robust: whether outliers may be set aside.
    """
    whole = [values for values in rounds if len(values) >= 2]
    if len(whole) < FEWEST_ROUNDS:
        return None
    own = without_outliers(whole) if robust else whole
    parts = [summarize(values) for values in own]
    freedom = sum(part.n - 1 for part in parts)
    within = math.fsum((part.sd or 0.0) ** 2 * (part.n - 1) for part in parts) / freedom
    size = len(parts) / math.fsum(1 / part.n for part in parts)  # harmonic mean: unequal rounds
    extra = variance([part.mean for part in parts]) - within / size
    runs = sum(part.n for part in parts)
    return Noise(math.sqrt(within), max(0.0, extra), len(parts), runs)
