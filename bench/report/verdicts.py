"""The verdict on accuracy: do the compared cells train as well as their reference? Pure.

A quantity is compared as is: no run is left out, neither one that did not converge nor one that
looks too good; both are counted and named.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.analysis import contrasts
from bench.analysis.labels import axes_text, word_names
from bench.analysis.metrics import BEST_HR, best_hr, reached_target
from bench.published.figures import select
from bench.render import units
from bench.render.model import Cell, Number, Table
from bench.stats import equivalence
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.grid import Block, Pool
    from bench.published.figures import Figure
    from bench.stats.equivalence import Verdict
    from bench.suite.model import Contrast
    from ncf.record import RunRecord

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


def table(block: Block, margin: float, contrast: Contrast | None = None) -> Table | None:
    """A line per comparison; None where nothing can be compared.

    Args:
        block: the runs.
        margin: the difference of HR that would matter, > 0.
        contrast: what is compared; reduced with full precision if not given.
    """
    assert block.condition is not None
    contrast = contrast or contrasts.precisions(block)
    found = contrasts.groups(block, contrast) if contrast else ()
    if contrast is None or not found:
        return None
    digits = units.hit_rate_digits(block.condition.dataset.test_users)
    popularity = block.condition.dataset.popularity_hr_at_k
    spread = _largest_spread(block)
    rows = []
    for group in found:
        reference = group.reference.pool
        for arm in group.tested:
            pool = arm.pool
            a, b = reference.values(BEST_HR), pool.values(BEST_HR)
            if not (a and b):
                continue
            verdict = equivalence.compare(a, b, margin, spread)
            ks, mann_whitney = equivalence.diagnostics(a, b)
            missed = [str(_not_converged(one, popularity)) for one in (reference, pool)]
            names = (contrasts.level(block, contrast, one) for one in (arm, group.reference))
            rows.append(
                (
                    *contrasts.place(block, group),
                    " - ".join(names),
                    f"{len(b)}, {len(a)}",
                    ", ".join(_sd(sd) for sd in reversed(verdict.sd)),
                    _difference(verdict, digits + 1, (pool, reference)),
                    f"{margin:.3g}",
                    units.show(verdict.power, lambda value: f"{value:.2f}"),
                    answer(verdict),
                    ", ".join(reversed(missed)),
                    *(units.not_available() if p is None else _p(p) for p in (ks, mann_whitney)),
                )
            )
    headers = (*contrasts.headers(found), "Compared", "Runs", "SD", "Difference", "Margin")
    headers += ("Power", "Verdict", "Not converged", "KS p", "Mann-Whitney p")
    left = (*word_names(block), "Precision", "Compared", "Verdict")
    return Table(headers, tuple(rows), left) if rows else None


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
            typical = 1.4826 * statistics.median(abs(value - median) for value in values)
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


def better_than_full(rows: Table | None) -> list[str]:
    """Reduced precision that beats full precision by more than the margin: a sign of a fault."""
    if rows is None:
        return []
    verdict, gap = rows.headers.index("Verdict"), rows.headers.index("Difference")
    compared = rows.headers.index("Compared")
    return [
        f"{row[compared]} at {row[0]} rank{'s' if row[0] != '1' else ''}: reduced precision is "
        "better than full by more than the margin"
        for row in rows.rows
        if row[verdict] == equivalence.DIFFERENT and row[gap].startswith("+")
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


def _difference(verdict: Verdict, digits: int, pools: tuple[Pool, Pool]) -> Cell:
    keys = tuple(pool.tally.cell.key for pool in pools)
    text = f"{verdict.difference:+.{digits}f}"
    if verdict.low is not None and verdict.high is not None:
        text += f" [{verdict.low:+.{digits}f} to {verdict.high:+.{digits}f}]"
    number = Number(verdict.difference, verdict.low, verdict.high, sum(verdict.n), "fraction")
    return Cell(text, number, keys)


def _sd(value: float | None) -> str:
    return units.not_available() if value is None else units.significant(value, 2)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
