"""What a gate should say although it decides nothing: runs that look too good, too even, or odd.

Pure. A speed-up of the training that nobody can explain is more often a fault than a discovery;
MLPerf rejects runs that converge faster than its reference convergence points for that reason.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from bench.analysis import metrics
from bench.gate.samples import pairs
from bench.render import units
from bench.stats.decision import IMPROVED, Question, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.gate.compare import Line
    from bench.gate.gate import Outcome
    from bench.gate.samples import CellRuns, Side


def suspicions(baseline: Side, outcome: Outcome, across: Sequence[str] = ()) -> list[str]:
    """One sentence each."""
    found = [text for line in outcome.lines for text in _of_line(line)]
    for old, new in pairs(baseline, outcome.tested, across):
        if old is not None and new is not None:
            found += [
                f"{new.label}: {text}" for text in (*_of_cells(old, new), *_missing(old, new))
            ]
            found += _drift(new)
    found += [
        f"{attempt.cell.label}, seed {attempt.seed}: {attempt.status}"
        + (f": {attempt.failure.message}" if attempt.failure else "")
        for attempt in outcome.failed
    ]
    return list(dict.fromkeys(found))


def _of_line(line: Line) -> list[str]:
    found = []
    if line.metric.name == "best_hr" and line.verdict == IMPROVED:
        found.append(
            f"{line.label}: best HR is suspiciously high, by more than the margin above the "
            "baseline: a leak of held-out items is likelier than a discovery"
        )
    for n, who in zip(line.answer.aside, ("of the baseline", "here"), strict=True):
        if n:
            found.append(
                f"{line.label}: {n} {'run' if n == 1 else 'runs'} {who} set aside in "
                f"{line.metric.name}, far from the others"
            )
    return found


def _of_cells(old: CellRuns, new: CellRuns) -> list[str]:
    """Converged suspiciously fast, or disturbed."""
    found = []
    metric = metrics.gated("epochs_to_best")
    a, b = old.values(metric.name), new.values(metric.name)
    if a and b and min(a) > 0 and min(b) > 0:
        question = Question(
            [metric.scaled(value) for value in a],
            [metric.scaled(value) for value in b],
            metric.better,
            metric.scaled_margin(metric.margin),
        )
        if decide([question])[0].verdict == IMPROVED:
            found.append(
                f"converges suspiciously fast: {units.exact(median(b))} epochs to the best HR, "
                f"{units.exact(median(a))} in the baseline"
            )
    found += [f"{n} runs here are flagged {flag}" for flag, n in new.flags.items()]
    return found


def _missing(old: CellRuns, new: CellRuns) -> list[str]:
    """Runs without a value where the baseline's had one, such as a target that was not reached."""
    found = []
    for name, values in new.samples.items():
        n, before = values.count(None), old.samples.get(name, ()).count(None)
        if n and not before:
            found.append(f"{n} of {len(values)} runs here have no {name}")
    return found


def _drift(cell: CellRuns) -> list[str]:
    """Neighbouring runs that are alike: the machine drifts, and intervals are narrower than true.

    The serial correlation of n independent values is about normal(-1/n, 1/n).
    """
    values = [math.log(value) for value in cell.values("throughput")]
    n, centre = len(values), fmean(values) if values else 0.0
    off = [value - centre for value in values]
    total = math.fsum(value**2 for value in off)
    if n < 8 or total == 0:
        return []
    serial = math.fsum(a * b for a, b in pairwise(off)) / total
    if serial < 2.33 / math.sqrt(n) - 1 / n:
        return []
    told = f"speeds of neighbouring runs are alike (correlation {serial:.2f}): the machine drifts"
    return [f"{cell.label}: {told}; `bench calibrate` measures by how much"]
