"""The gate's rule: from two sides of a comparison to a verdict. Pure.

REGRESSED needs three things at once: "no loss" is refuted (Holm over all comparisons of the gate),
the estimated loss lies beyond the margin, and the interval is narrow enough to tell, which is no
wider than the margin, or lies beyond the margin as a whole. EQUIVALENT: the 90 % interval lies
inside the margin. IMPROVED mirrors REGRESSED. All else is INCONCLUSIVE, and says what it would
take. docs/ci.md derives it; tools/simulate_gate.py counts its errors.

Interim looks spend the level as a function of the information gathered (Lan and DeMets, Biometrika
70, 1983), here level * information^2 (Kim and DeMets, Biometrika 74, 1987, rho = 2), which keeps
most of it for the end. The chances of erring of all looks add up to the level at most, whatever
their correlation (Boole), so neither the sizes of the looks nor the shape of the noise matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bench.errors import UserError
from bench.stats import equivalence, welch
from bench.stats.summary import (
    ALPHA,
    ALPHA_GATE,
    FALSE_ALARMS,
    MIN_RUNS,
    TARGET_POWER,
    smallest_count,
    summarize,
)
from bench.stats.welch import Shift, shift

if TYPE_CHECKING:
    from collections.abc import Sequence

REGRESSED, EQUIVALENT, IMPROVED = "REGRESSED", "EQUIVALENT", "IMPROVED"
INCONCLUSIVE, NOT_COMPARABLE = "INCONCLUSIVE", "NOT COMPARABLE"


@dataclass(frozen=True)
class Question:
    """One quantity of one cell: values of both sides, and what would matter.

    Attributes:
        reference: of the baseline, one value a run; logarithms where ratios matter.
        tested: likewise.
        better: the direction in which the quantity is better.
        margin: the difference that would matter, in the unit of the values, > 0.
        alarm: a loss below this is noise, as `calibrate` measured; 0 where nobody did.
        between: variance from session to session, likewise; 0 where nobody did.
        one_sided: not to be worse is enough for EQUIVALENT (accuracy).
        robust: whether outliers are set aside.
    """

    reference: Sequence[float]
    tested: Sequence[float]
    better: Literal["higher", "lower"]
    margin: float
    alarm: float = 0.0
    between: float = 0.0
    one_sided: bool = False
    robust: bool = True

    @property
    def sign(self) -> int:
        """What turns a difference into a gain."""
        return 1 if self.better == "higher" else -1


@dataclass(frozen=True)
class Answer:
    """The verdict.

    Attributes:
        n: runs of the baseline and of the tested side.
        difference: tested - reference, in the unit of the values; None without two runs a side.
        low: lower end of its 90 % interval.
        high: upper end.
        p: chance of a loss this large if there were none, Holm's correction included.
        sd: of a run, both sides pooled.
        aside: runs of either side that were set aside.
        needed: runs a side that would decide with a chance of 90 %; None where the answer is
            there, or where no affordable number would do.
        reason: why it is open.
    """

    verdict: str
    n: tuple[int, int]
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    sd: float | None = None
    aside: tuple[int, int] = (0, 0)
    needed: int | None = None
    reason: str = ""


def decide(
    questions: Sequence[Question], level: float = ALPHA_GATE, same_level: float = ALPHA
) -> list[Answer]:
    """A verdict per question; together they call no loss a loss in `level` of the cases.

    Args:
        questions: all that one gate asks.
        level: of false alarms, over all questions.
        same_level: of each end of the interval that EQUIVALENT looks at.
    """
    gains = [_gain(question) for question in questions]
    losses = holm([None if gain is None else gain.p_below() for gain in gains])
    rises = holm([None if gain is None else gain.p_above() for gain in gains])
    return [
        _few(question) if gain is None else _answer(question, gain, loss, rise, level, same_level)
        for question, gain, loss, rise in zip(questions, gains, losses, rises, strict=True)
    ]


def holm(values: Sequence[float | None]) -> list[float]:
    """P-values corrected for their number (Holm 1979); one that does not exist counts as 1."""
    known = [1.0 if value is None else value for value in values]
    corrected, floor = [1.0] * len(known), 0.0
    for rank, index in enumerate(sorted(range(len(known)), key=known.__getitem__)):
        floor = max(floor, min(1.0, (len(known) - rank) * known[index]))
        corrected[index] = floor
    return corrected


def _gain(question: Question) -> Shift | None:
    """The difference, upwards where it is better; None where it has no error."""
    if min(len(question.reference), len(question.tested)) < 2:
        return None
    sides = [[question.sign * v for v in side] for side in (question.reference, question.tested)]
    return shift(sides[0], sides[1], robust=question.robust, between=question.between)


def _few(question: Question) -> Answer:
    n = len(question.reference), len(question.tested)
    known = [summarize(side) for side in (question.reference, question.tested) if side]
    sds = [side.sd for side in known if side.sd]
    return Answer(
        INCONCLUSIVE,
        n,
        difference=known[1].mean - known[0].mean if len(known) == 2 else None,
        needed=_needed(question.margin, sds[0], 0) if sds else MIN_RUNS,
        reason="no run" if 0 in n else "one run has no spread",
    )


def _answer(
    question: Question, gain: Shift, loss: float, rise: float, level: float, same_level: float
) -> Answer:
    margin, half = question.margin, gain.half_width(same_level)
    far = max(margin, question.alarm)
    narrow = half <= margin
    lost = loss <= level and gain.value <= -far
    won = rise <= level and gain.value >= margin
    needed, reason = None, ""
    if min(gain.n) < MIN_RUNS:
        verdict, reason = INCONCLUSIVE, f"no verdict below {MIN_RUNS} runs a side"
        needed = _needed(margin, gain.sd, 0)
    elif lost and (narrow or gain.p_below(-margin) <= level):
        verdict = REGRESSED
    elif won and (narrow or gain.p_above(margin) <= level):
        verdict = IMPROVED
    elif gain.value - half > -margin and (question.one_sided or gain.value + half < margin):
        verdict = EQUIVALENT
    else:
        verdict, needed = INCONCLUSIVE, _needed(margin, gain.sd, min(gain.n), gain.value)
        reason = "the interval reaches across the margin"
    ends = sorted(question.sign * (gain.value + side) for side in (-half, half))
    return Answer(
        verdict,
        gain.n,
        difference=question.sign * gain.value,
        low=ends[0],
        high=ends[1],
        p=loss,
        sd=gain.sd,
        aside=gain.aside,
        needed=needed,
        reason=reason,
    )


def _needed(margin: float, sd: float, have: int, gain: float = 0.0) -> int | None:
    """Runs a side that decide: enough for no difference or, where those are there, for this one."""
    count = equivalence.needed(margin, sd, sd)
    if count is not None and count <= have:
        count = equivalence.needed(margin, sd, sd, gain)
    return None if count is None else max(count, have + 1, MIN_RUNS)


def chance(
    n: int, sd: float, loss: float, margin: float, level: float = ALPHA_GATE, between: float = 0.0
) -> float:
    """The chance that a loss is called REGRESSED with n runs a side; normal approximation.

    The estimate must lie beyond the margin and beyond what the test refutes; tools/
    simulate_gate.py counts how far the formula is off.

    Args:
        n: runs a side, 2 or more.
        sd: of a run.
        loss: the true one, > 0, in the unit of the SD, like `margin`.
        margin: the loss that would matter.
        level: of false alarms.
        between: variance from session to session.
    """
    error = math.sqrt(2 * sd**2 / n + 2 * between)
    if error == 0:
        return float(loss >= margin)
    freedom = 2 * n - 2
    beyond = welch.critical_value(freedom, level) * error
    narrow = welch.critical_value(freedom, ALPHA) * error <= margin
    threshold = max(margin, beyond) if narrow else margin + beyond
    return 0.5 * math.erfc((threshold - loss) / error / math.sqrt(2))


def noise_margin(
    n: int, within: tuple[float, float], between: tuple[float, float] = (0.0, 1.0)
) -> float:
    """The loss that noise alone feigns in 1 % of comparisons of n runs a side.

    Args:
        n: runs a side.
        within: variance of a run within a session, and its degrees of freedom.
        between: variance from session to session, likewise.
    """
    parts = [(2 * within[0] / n, within[1])]
    if between[0] > 0:
        parts.append((2 * between[0], between[1]))
    error, freedom = welch.satterthwaite(parts)
    return welch.critical_value(freedom, FALSE_ALARMS) * error


def runs_to_find(
    sd: float, loss: float, margin: float, level: float = ALPHA_GATE, between: float = 0.0
) -> int | None:
    """Runs a side that find a loss with 95 % chance; None where no affordable number does."""
    if loss <= margin:
        return None
    return smallest_count(
        lambda n: chance(n, sd, loss, margin, level, between) >= TARGET_POWER, MIN_RUNS, 10_000
    )


RHO = 2


def information(n: int, baseline: int) -> float:
    """What n runs against a baseline of so many tell: 1 / variance, up to a factor."""
    return 1 / (1 / n + 1 / baseline)


def spend(level: float, sizes: Sequence[int], baseline: int) -> list[float]:
    """The level of each look; they add up to `level`.

    Args:
        level: of the whole.
        sizes: runs of a cell at each look, ascending.
        baseline: runs of the baseline's cell; it does not grow.
    """
    whole = information(sizes[-1], baseline)
    spent = [level * (information(n, baseline) / whole) ** RHO for n in sizes]
    return [now - before for now, before in zip(spent, [0.0, *spent], strict=False)]


def looks(given: Sequence[int], most: int, where: str) -> tuple[int, ...]:
    """The sizes at which to look: those given, and the suite's number of seeds at the end.

    Raises:
        UserError: a size that decides nothing, or that the suite has no seeds for.
    """
    sizes = tuple(dict.fromkeys((*given, most)))
    if list(sizes) != sorted(sizes) or sizes[0] < MIN_RUNS:
        listed = ", ".join(map(str, given))
        raise UserError(
            f"{where} {listed}: interim looks must grow, from at least {MIN_RUNS} runs to the "
            f"{most} seeds of the suite"
        )
    return sizes
