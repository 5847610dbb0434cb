"""Comparisons of cells with a reference: verdicts on accuracy, ratios of speed and memory. Pure.

A quantity is compared as is: no run is left out, neither one that did not converge nor one that
looks too good; both are counted and named.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from bench.analysis import contrasts
from bench.analysis.aggregate import DEFAULT
from bench.analysis.contrasts import Arm, Group, arm_ratio
from bench.analysis.labels import axes_text, item, precision_label, word_names
from bench.analysis.metrics import BEST_HR, PEAK_MEMORY, THROUGHPUT, best_hr, reached_target
from bench.published.figures import select
from bench.render import units
from bench.render.model import Column, Estimate, Several, build
from bench.report.columns import rate_form
from bench.stats import equivalence
from bench.stats.summary import NORMAL_MAD, Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.analysis.metrics import Metric
    from bench.published.figures import Figure
    from bench.render.model import Item, Table
    from bench.stats.equivalence import Verdict
    from bench.stats.summary import Value
    from bench.suite.model import Contrast
    from ncf.record import RunRecord

Line = TypeVar("Line")
EXPLAINED = (
    "Welch's TOST on best HR@{k}: EQUIVALENT where the 90 % interval of the difference of means "
    "lies inside ± margin, DIFFERENT where it lies outside, else INCONCLUSIVE; each answer is "
    "wrong in at most 5 % of cases. *Power*: the chance of EQUIVALENT that runs of this number and "
    "spread had if there were no difference. *Not converged*: runs that beat popularity not at all "
    "or missed their target; they are in the numbers. The p-values are diagnostics and decide "
    "nothing."
)
FAR = 6.0
"""Robust standard deviations above the median from which a run looks too good."""
BEYOND_PUBLISHED = 0.005


@dataclass(frozen=True)
class ArmPair:
    """A tested arm and its reference, which agree in all axes that are not compared."""

    group: Group
    arm: Arm

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """What is tested, then its reference."""
        return self.arm, self.group.reference


@dataclass(frozen=True)
class ArmVerdict(ArmPair):
    """The same with the verdict of the equivalence test."""

    verdict: Verdict


def verdicts_of(block: Block, margin: float, contrast: Contrast) -> list[ArmVerdict]:
    """A verdict per tested arm that has runs, as its reference has.

    Args:
        block: the runs.
        margin: the difference of HR that would matter, > 0.
        contrast: what is compared.
    """
    spread = _largest_spread(block)
    return [
        ArmVerdict(group, arm, equivalence.compare(reference, tested, margin, spread))
        for group in contrasts.groups(block, contrast)
        for arm in group.tested
        if (reference := group.reference.pool.values(BEST_HR))
        and (tested := arm.pool.values(BEST_HR))
    ]


def table(block: Block, contrast: Contrast, lines: Sequence[ArmVerdict]) -> Table:
    """The verdicts, a line each."""
    assert block.condition is not None
    digits = units.hit_rate_digits(block.condition.dataset.test_users)
    popularity = block.condition.dataset.popularity_hr_at_k

    def missed(line: ArmVerdict) -> Several:
        return Several(tuple(_not_converged(arm.pool, popularity) for arm in line.arms))

    def p_value(index: int) -> Callable[[ArmVerdict], Item]:
        def of(line: ArmVerdict) -> Item:
            tested, reference = (arm.pool.values(BEST_HR) for arm in line.arms)
            p = equivalence.diagnostics(reference, tested)[index]
            return units.not_available() if p is None else Several((p,), _p)

        return of

    columns: list[Column[ArmVerdict]] = [
        *place_columns(block, contrast, lambda line: line.group),
        Column("Compared", lambda line: " - ".join(_names(block, contrast, line)), words=True),
        Column("Runs", lambda line: Several(line.verdict.n[::-1])),
        Column("SD", lambda line: Several(line.verdict.sd[::-1], _sd)),
        Column("Difference", lambda line: _difference(line, digits + 1)),
        Column("Margin", lambda line: Several((line.verdict.margin,), "{:.3g}".format)),
        Column("Power", lambda line: _power(line.verdict.power)),
        Column("Verdict", lambda line: answer(line.verdict), words=True),
        Column("Not converged", missed),
        Column("KS p", p_value(0)),
        Column("Mann-Whitney p", p_value(1)),
    ]
    return build(lines, columns)


def place_columns(
    block: Block, contrast: Contrast, group_of: Callable[[Line], Group]
) -> list[Column[Line]]:
    """Where a comparison was made: the axes that it does not compare."""
    groups = contrasts.groups(block, contrast)
    words = {*word_names(block), "Precision"}

    def of(index: int, title: str) -> Column[Line]:
        def place(line: Line) -> Item:
            name, value = group_of(line).where[index]
            return precision_label(block, value) if name == "precision" else item(value)

        return Column(title, place, title in words)

    return [of(index, title) for index, title in enumerate(contrasts.headers(groups))]


def _names(block: Block, contrast: Contrast, line: ArmVerdict) -> list[str]:
    return [contrasts.level(block, contrast, arm) for arm in line.arms]


def answer(verdict: Verdict) -> str:
    """The answer in words; an open one says what it would take."""
    if verdict.answer != equivalence.INCONCLUSIVE:
        return verdict.answer
    if verdict.needed is None:
        why = verdict.reason if verdict.low is None else "no affordable number of runs would decide"
        return f"{verdict.answer} ({why})"
    return f"{verdict.answer} (needs {units.count(verdict.needed)} runs each)"


def too_good(block: Block, figures: Sequence[Figure]) -> list[str]:
    """What looks too good to be true, one sentence each: a leak is likelier than a discovery."""
    assert block.condition is not None
    data = block.condition.dataset
    digits = units.hit_rate_digits(data.test_users)
    found = []
    for pool in block.pools:
        values = pool.values(BEST_HR)
        if len(values) >= 6:
            median = statistics.median(values)
            typical = NORMAL_MAD * statistics.median(abs(value - median) for value in values)
            step = max(typical, 1 / data.test_users)
            high = sum(value > median + FAR * step for value in values)
            if high:
                found.append(
                    f"{high} of {len(values)} runs of {axes_text(pool.tally.cell.axes)} lie more "
                    f"than {FAR:g} robust standard deviations above their median"
                )
    published = [figure.value for figure in select(figures, metric="best_hr_at_10")]
    usual = (data.protocol, data.candidates_per_user, block.condition.topk) == ("nvidia", 100, 10)
    if published and usual and data.name == "ml-20m":
        limit = max(published) + BEYOND_PUBLISHED
        best = max((value for pool in block.pools for value in pool.values(BEST_HR)), default=0.0)
        if best > limit:
            found.append(
                f"the best HR@10 of {best:.{digits}f} is more than {BEYOND_PUBLISHED:g} above "
                f"every published one ({max(published):g})"
            )
    return found


def better_than_full(block: Block, contrast: Contrast, lines: Sequence[ArmVerdict]) -> list[str]:
    """Reduced precision that beats full precision by more than the margin: a sign of a fault."""
    return [
        f"{' - '.join(_names(block, contrast, line))} at {ranks} rank{'s' if ranks != 1 else ''}: "
        "reduced precision is better than full by more than the margin"
        for line in lines
        if line.verdict.answer == equivalence.DIFFERENT
        and line.verdict.difference > 0
        and (ranks := dict(line.group.where)["ranks"])
    ]


def _largest_spread(block: Block) -> float | None:
    found = [
        data.sd for pool in block.pools if not isinstance(data := pool.summary(BEST_HR), Missing)
    ]
    return max((sd for sd in found if sd), default=None)


def _not_converged(pool: Pool, popularity: float) -> int:
    return sum(not _converged(run, popularity) for run in pool.runs)


def _converged(run: RunRecord, popularity: float) -> bool:
    best = best_hr(run)
    return not isinstance(best, Missing) and best > popularity and reached_target(run) is not False


def _difference(line: ArmVerdict, digits: int) -> Estimate:
    verdict = line.verdict
    return Estimate(
        verdict.difference,
        f"{{:+.{digits}f}}".format,
        low=verdict.low,
        high=verdict.high,
        spread="ci",
        n=sum(verdict.n),
        unit="fraction",
        sources=tuple(arm.key for arm in line.arms),
    )


def _power(power: Value) -> Item:
    if isinstance(power, Missing):
        return units.not_available(power.reason)
    return Several((power,), "{:.2f}".format)


def _sd(value: float) -> str:
    return units.significant(value, 2)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def compared_columns(
    contrast: Contrast,
    metric: Metric,
    form: units.Formatter,
    notation: Notation,
    titles: Sequence[str],
) -> list[Column[ArmPair]]:
    """A metric of the tested arm, of its reference, and their ratio."""

    def arm(index: int) -> Callable[[ArmPair], Item]:
        return lambda line: notation.measured(line.arms[index].pool, metric, form)

    def ratio(line: ArmPair) -> Item:
        above, below = line.arms
        value = arm_ratio(above, below, metric, contrast, notation)
        return notation.ratio_estimate(value, (above.key, below.key))

    tested, reference, quotient = titles
    return [Column(tested, arm(0)), Column(reference, arm(1)), Column(quotient, ratio)]


def pairs(block: Block, contrast: Contrast) -> list[ArmPair]:
    """Every tested arm with its reference."""
    return [
        ArmPair(group, arm) for group in contrasts.groups(block, contrast) for arm in group.tested
    ]


def speed_and_memory(
    block: Block, contrast: Contrast, lines: Sequence[ArmPair], notation: Notation = DEFAULT
) -> Table:
    """A line per compared cell: samples/s and peak memory of both sides, tested over reference."""
    memory = ("Peak memory", "Reference memory", "Memory ratio")
    rates = ("Samples/s", "Reference (samples/s)", "Throughput ratio")
    columns: list[Column[ArmPair]] = [
        *place_columns(block, contrast, lambda line: line.group),
        compared_column(block, contrast),
        *compared_columns(contrast, THROUGHPUT, rate_form(block, notation), notation, rates),
        *compared_columns(contrast, PEAK_MEMORY, units.size, notation, memory),
    ]
    return build(lines, columns)


def compared_column(block: Block, contrast: Contrast) -> Column[ArmPair]:
    """What is divided by what: `fast / reference`."""

    def names(line: ArmPair) -> str:
        return " / ".join(contrasts.level(block, contrast, arm) for arm in line.arms)

    return Column("Compared", names, words=True)
