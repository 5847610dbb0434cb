"""How runs become one number and how it is written: the choices of `ncf-bench report`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from bench.analysis.labels import counted, sample
from bench.analysis.metrics import THROUGHPUT
from bench.render import units
from bench.render.model import Estimate, Sample
from bench.stats import summary as stats
from bench.stats.summary import Missing, Ratio

if TYPE_CHECKING:
    from bench.analysis.grid import Pool
    from bench.analysis.metrics import Metric
    from bench.stats.summary import Summary

AGGREGATES = ("median", "mean", "best")
DIGITS = ("auto", "full", "short")

_NAMES = {"median": "median of runs", "mean": "mean of runs", "best": "best run"}
_EXPLAINED = {
    "median": "Numbers are medians over runs, one run per seed. `[a to b]`: 95 % interval of the "
    "median (order statistics, from 6 runs on); `(a to b)`: smallest and largest run; `n`: runs "
    "behind the number; `n/a`: there is no such number, with the reason.",
    "mean": "Numbers are means over runs, one run per seed. `SD`: standard deviation over runs; "
    "`n`: runs behind the number; `n/a`: there is no such number, with the reason.",
    "best": "Numbers are those of the best run of each cell, as some publications give them: the "
    "more runs, the better they look. `worst`: the worst run; `n`: runs to choose from; `n/a`: "
    "there is no such number, with the reason.",
}


class _Spread(TypedDict, total=False):
    low: float
    high: float
    spread: Literal["ci", "extremes", "sd", "worst", "unknown"]
    other: float | None


@dataclass(frozen=True)
class Notation:
    """One convention: `aggregate` makes one number of several runs, `digits` writes rates.

    full: `20,027,840`; short: `20.03 M`; auto: full below a million, one form per table.
    """

    aggregate: str = "median"
    digits: str = "auto"

    @property
    def name(self) -> str:
        """For headings: `median of runs`, `mean of runs`, `best run`."""
        return _NAMES[self.aggregate]

    @property
    def explained(self) -> str:
        """What the numbers and brackets mean, as a paragraph."""
        return _EXPLAINED[self.aggregate]

    def value(self, data: Summary, better: str) -> float:
        """The one number of several runs."""
        if self.aggregate == "best":
            return data.max if better == "higher" else data.min
        return data.mean if self.aggregate == "mean" else data.median

    def measured(
        self, pool: Pool, metric: Metric, form: units.Formatter, *, total_shown: bool = False
    ) -> Estimate:
        """What the runs of a cell say: number, spread, sample size and what is missing from it.

        With `total_shown` a column of its own has the number of runs: it is written here only
        where it is another.
        """
        data = pool.summary(metric)
        keys = () if pool.tally.outside else (pool.tally.cell.key,)
        if isinstance(data, Missing):
            reason = data.reason if pool.runs else counted(0, pool.tally)
            return Estimate(None, form, reason, n=0, unit=metric.unit, sources=keys)
        size, written = sample(data.n, pool.tally), not total_shown or data.n < len(pool.runs)
        shown = size if isinstance(size, Sample) and written else None
        return self.estimate(data, form, metric.better, shown, keys, metric.unit)

    def estimate(
        self,
        data: Summary,
        form: units.Formatter,
        better: str,
        sample: Sample | None = None,
        sources: tuple[str, ...] = (),
        unit: str = "",
    ) -> Estimate:
        """One number of several runs with its spread."""
        return Estimate(
            self.value(data, better),
            form,
            n=data.n,
            sample=sample,
            unit=unit,
            sources=sources,
            **self._spread(data, better),
        )

    def _spread(self, data: Summary, better: str) -> _Spread:
        """The interval or the extremes; with means and bests the extremes are not written."""
        extremes: _Spread = {} if data.n == 1 else {"low": data.min, "high": data.max}
        if self.aggregate == "mean":
            return {**extremes, "spread": "sd", "other": data.sd}
        if self.aggregate == "best":
            worst = data.min if better == "higher" else data.max
            return {**extremes, "spread": "worst", "other": worst} if data.n > 1 else extremes
        if data.low is not None and data.high is not None:
            return {"low": data.low, "high": data.high, "spread": "ci"}
        return {**extremes, "spread": "unknown" if data.n == 1 else "extremes"}

    def ratio(
        self, above: Summary, below: Summary, measure: Metric = THROUGHPUT
    ) -> Ratio | Missing:
        """Ratio of two cells; the interval only for medians, whose theory it has."""
        if self.aggregate == "median":
            return stats.ratio_of_medians(above, below)
        ratio = stats.ratio(self.value(above, measure.better), self.value(below, measure.better))
        if isinstance(ratio, Missing):
            return ratio
        return Ratio(ratio, None, None, None, None)

    def ratio_estimate(
        self, data: Ratio | Missing, sources: tuple[str, ...], ranks: int | None = None
    ) -> Estimate:
        """A ratio with its spread, which means and bests do not have.

        Args:
            data: the ratio, or why there is none.
            sources: the cells that it was made of.
            ranks: of a speed-up over one rank, whose share of the ideal is written, too.
        """
        if isinstance(data, Missing):
            return Estimate(None, units.ratio, data.reason, unit="ratio", sources=sources)
        made = Estimate(
            data.value,
            units.ratio,
            unit="ratio",
            sources=sources,
            share=None if ranks is None else data.value / ranks,
        )
        if self.aggregate != "median":
            return made
        if data.low is not None and data.high is not None:
            return replace(made, low=data.low, high=data.high, spread="ci")
        if data.min is not None and data.max is not None:
            return replace(made, low=data.min, high=data.max, spread="extremes")
        return replace(made, spread="unknown")

    def rate_form(self, rates: list[float]) -> units.Formatter:
        """How the rates of one table are written."""
        if self.digits == "auto":
            large = any(rate >= 1e6 for rate in rates)
            return units.compact if large else units.count
        return units.count if self.digits == "full" else units.compact


DEFAULT = Notation()
