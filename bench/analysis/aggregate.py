"""How runs become one number and how it is written: the choices of `ncf-bench report`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.analysis.labels import counted
from bench.analysis.metrics import THROUGHPUT
from bench.render import units
from bench.render.model import Cell, Number
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

    def text(self, data: Summary, form: units.Formatter, better: str) -> str:
        """The number with its spread."""
        if self.aggregate == "median":
            return units.summary(data, form)
        value = form(self.value(data, better))
        if self.aggregate == "mean":
            return f"{value} (SD {'n/a' if data.sd is None else form(data.sd)})"
        worst = form(data.min if better == "higher" else data.max)
        return f"{value} (worst {worst})" if data.n > 1 else value

    def measured(
        self, pool: Pool, measure: Metric, form: units.Formatter, *, total_shown: bool = False
    ) -> Cell:
        """A cell of a table: number, spread, sample size and what is missing from it.

        With `total_shown` a column of its own tells the number of runs: it stands here only where
        it is another.
        """
        data = pool.summary(measure)
        keys = () if pool.tally.outside else (pool.tally.cell.key,)
        if isinstance(data, Missing):
            reason = data.reason if pool.runs else counted(0, pool.tally)
            return Cell(units.not_available(reason), Number(None, n=0, unit=measure.unit), keys)
        text = self.text(data, form, measure.better)
        if not total_shown or data.n < len(pool.runs):
            text += f", {counted(data.n, pool.tally)}"
        return Cell(text, self._number(data, measure), keys)

    def _number(self, data: Summary, measure: Metric) -> Number:
        value = self.value(data, measure.better)
        if data.n == 1:
            return Number(value, n=1, unit=measure.unit)
        if self.aggregate == "median" and data.low is not None:
            return Number(value, data.low, data.high, data.n, measure.unit)
        return Number(value, data.min, data.max, data.n, measure.unit)

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

    def ratio_text(self, data: Ratio | Missing) -> str:
        """A ratio with its spread; means and bests have none."""
        if isinstance(data, Missing) or self.aggregate == "median":
            return units.ratio_summary(data)
        return units.ratio(data.value)

    def ratio_cell(self, data: Ratio | Missing, keys: tuple[str, ...]) -> Cell:
        """A ratio as a cell."""
        if isinstance(data, Missing):
            return Cell(units.not_available(data.reason), Number(None, unit="ratio"), keys)
        low, high = (data.low, data.high) if data.low is not None else (data.min, data.max)
        return Cell(self.ratio_text(data), Number(data.value, low, high, unit="ratio"), keys)

    def rate_form(self, rates: list[float]) -> units.Formatter:
        """How the rates of one table are written."""
        if self.digits == "auto":
            large = any(rate >= 1e6 for rate in rates)
            return units.compact if large else units.count
        return units.count if self.digits == "full" else units.compact


DEFAULT = Notation()
