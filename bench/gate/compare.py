"""Two sides compared: a verdict per cell and metric. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from bench.analysis.metrics import DEFAULT, HR_MARGINS, gated
from bench.gate.samples import pairs
from bench.records.identity import Difference, differences
from bench.stats import decision as rule
from bench.stats.decision import INCONCLUSIVE, NOT_COMPARABLE, Answer, Question
from bench.stats.summary import ALPHA, ALPHA_GATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.analysis.metrics import Metric
    from bench.gate.samples import CellSamples, Side
    from bench.stats.variance import Noise


@dataclass(frozen=True)
class Terms:
    """How two sides are compared.

    Attributes:
        metrics: names.
        margins: by metric; others have the margin of the table.
        across: parts of the fingerprint that may differ.
        left_out: single facts that may differ.
        noise: by cell and metric, where it was calibrated.
    """

    metrics: tuple[str, ...] = DEFAULT
    margins: Mapping[str, float] | None = None
    across: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    noise: Mapping[tuple[str, str], Noise] | None = None

    def margin(self, metric: Metric, data: str) -> float:
        """What matters in a metric, on data of this name."""
        if self.margins and metric.name in self.margins:
            return self.margins[metric.name]
        if metric.name == "best_hr":
            return HR_MARGINS.get(data, metric.margin)
        return metric.margin


@dataclass(frozen=True)
class Line:
    """One metric of one cell.

    Attributes:
        key: of the tested cell, or of the baseline's where nothing was tested.
        before: median of the baseline's runs.
        after: median of the tested runs.
        differing: facts that keep the sides from being compared.
        missing: why there is nothing to compare with, if there is not.
    """

    key: str
    label: str
    metric: Metric
    margin: float
    answer: Answer
    before: float | None = None
    after: float | None = None
    differing: tuple[Difference, ...] = ()
    missing: str = ""

    @property
    def obstacles(self) -> tuple[str, ...]:
        """What keeps the sides from being compared, in words."""
        return (*map(str, self.differing), *([self.missing] if self.missing else []))

    @property
    def verdict(self) -> str:
        """One of the five."""
        return self.answer.verdict

    def unscaled(self, value: float | None) -> float | None:
        """A difference as it is reported: a ratio, or the difference itself."""
        if value is None:
            return None
        return math.exp(value) if self.metric.scale == "ratio" else value


def compare(
    baseline: Side,
    tested: Side,
    terms: Terms,
    level: float = ALPHA_GATE,
    same_level: float = ALPHA,
) -> list[Line]:
    """A line per cell and metric that either side has.

    Args:
        baseline: what is compared with.
        tested: what is judged.
        terms: see Terms.
        level: of false alarms, over all lines together.
        same_level: of each end of the interval that EQUIVALENT looks at.
    """
    lines: list[Line] = []
    questions: dict[int, Question] = {}
    for old, new in pairs(baseline, tested, terms.across):
        for name in terms.metrics:
            metric = gated(name)
            values = tuple(cell.values(name) if cell else [] for cell in (old, new))
            if any(values):
                lines.append(_line(old, new, metric, values, terms))
                if lines[-1].verdict != NOT_COMPARABLE:
                    questions[len(lines) - 1] = _question(lines[-1], values, terms)
    answers = rule.decide(list(questions.values()), level, same_level)
    for index, answer in zip(questions, answers, strict=True):
        lines[index] = replace(lines[index], answer=answer)
    return lines


def _line(
    old: CellSamples | None,
    new: CellSamples | None,
    metric: Metric,
    values: Sequence[Sequence[float]],
    terms: Terms,
) -> Line:
    """A line without its answer yet."""
    cell = new or old
    assert cell is not None
    differing: tuple[Difference, ...] = ()
    missing = ""
    if old and new:
        differing = differences(old.facts, new.facts, terms.across, terms.left_out)
    else:
        missing = "no run of this cell here" if old else "no such cell in the baseline"
    verdict = NOT_COMPARABLE if differing or missing else INCONCLUSIVE
    before, after = (median(side) if side else None for side in values)
    return Line(
        key=cell.key,
        label=cell.label,
        metric=metric,
        margin=terms.margin(metric, cell.facts["data"]["name"]),
        answer=Answer(verdict, (len(values[0]), len(values[1]))),
        before=before,
        after=after,
        differing=differing,
        missing=missing,
    )


def _question(line: Line, values: Sequence[Sequence[float]], terms: Terms) -> Question:
    metric, fewest = line.metric, min(map(len, values))
    noise = (terms.noise or {}).get((line.key, metric.name))
    return Question(
        reference=[metric.scaled(value) for value in values[0]],
        tested=[metric.scaled(value) for value in values[1]],
        better=metric.better,
        margin=metric.scaled_margin(line.margin),
        alarm=noise.margin(fewest) if noise and fewest else 0.0,
        between=noise.between if noise else 0.0,
        one_sided=metric.one_sided,
        robust=metric.robust,
    )
