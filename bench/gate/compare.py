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
    from collections.abc import Mapping

    from bench.analysis.metrics import Metric
    from bench.gate.samples import CellRuns, Side
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

    def told(self, value: float | None) -> float | None:
        """A difference as it is told: a ratio, or the difference itself."""
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
    lines: list[Line | None] = []
    asked: list[tuple[int, Line, Question]] = []
    for old, new in pairs(baseline, tested, terms.across):
        for name in terms.metrics:
            line, question = _ask(old, new, gated(name), terms)
            if question is not None and line is not None:
                asked.append((len(lines), line, question))
            lines.append(line)
    answers = rule.decide([question for _, _, question in asked], level, same_level)
    for (index, line, _), answer in zip(asked, answers, strict=True):
        lines[index] = replace(line, answer=answer)
    return [line for line in lines if line is not None]


def _ask(
    old: CellRuns | None, new: CellRuns | None, metric: Metric, terms: Terms
) -> tuple[Line | None, Question | None]:
    """The line, and the question if one can be asked; no line where neither side has values."""
    cell = new or old
    assert cell is not None
    a, b = (one.values(metric.name) if one else [] for one in (old, new))
    if not a and not b:
        return None, None
    margin = terms.margin(metric, cell.facts["data"]["name"])
    differing: tuple[Difference, ...] = ()
    missing = ""
    if old and new:
        differing = differences(old.facts, new.facts, terms.across, terms.left_out)
    else:
        missing = "no run of this cell here" if old else "no such cell in the baseline"
    before, after = (median(values) if values else None for values in (a, b))
    verdict = NOT_COMPARABLE if differing or missing else INCONCLUSIVE
    answer = Answer(verdict, (len(a), len(b)))
    line = Line(cell.key, cell.label, metric, margin, answer, before, after, differing, missing)
    if line.obstacles:
        return line, None
    noise = (terms.noise or {}).get((cell.key, metric.name))
    question = Question(
        reference=[metric.scaled(value) for value in a],
        tested=[metric.scaled(value) for value in b],
        better=metric.better,
        margin=metric.scaled_margin(margin),
        alarm=noise.margin(min(len(a), len(b))) if noise and a and b else 0.0,
        between=noise.between if noise else 0.0,
        one_sided=metric.one_sided,
        robust=metric.robust,
    )
    return line, question
