"""The gate: interim looks until every comparison is decided, the exit code, and warnings. Pure.

The caller of `play` makes the runs, so that the gate can be tested without any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from bench.analysis.metrics import gated
from bench.gate.compare import compare
from bench.gate.samples import pairs, side
from bench.render import units
from bench.stats import decision
from bench.stats.decision import IMPROVED, INCONCLUSIVE, NOT_COMPARABLE, REGRESSED, Question
from bench.stats.summary import ALPHA, ALPHA_GATE, MIN_RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.gate.compare import Line, Terms
    from bench.gate.samples import CellSamples, Side
    from bench.records.attempt import Attempt

PASS, FAIL, REPORT = "pass", "fail", "report"
POLICIES = (REPORT, PASS, FAIL)
"""What an open verdict means to the exit code: 3, 0 or 1."""
OK, LOST, BROKEN, OPEN = 0, 1, 2, 3


@dataclass(frozen=True)
class Policy:
    """What the exit code makes of open verdicts."""

    inconclusive: str = REPORT
    not_comparable: str = REPORT


@dataclass(frozen=True)
class Outcome:
    """The result of a gate.

    Attributes:
        lines: a verdict per cell and metric.
        tested: the runs that were judged.
        failed: attempts that were not good.
        sizes: runs a cell at each look that was taken.
    """

    lines: tuple[Line, ...]
    tested: Side
    failed: tuple[Attempt, ...]
    sizes: tuple[int, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Cells whose runs failed, so that too few are left to judge."""
        failed = {attempt.cell.key for attempt in self.failed}
        good = {key: len(cell.runs) for key, cell in self.tested.cells.items()}
        return tuple(sorted(key for key in failed if good.get(key, 0) < MIN_RUNS))

    def exit_code(self, policy: Policy) -> int:
        """0 nothing lost, 1 a loss, 2 the runs themselves failed, 3 something is open."""
        verdicts = {line.verdict for line in self.lines}
        choices = {INCONCLUSIVE: policy.inconclusive, NOT_COMPARABLE: policy.not_comparable}
        open_choices = [choice for verdict, choice in choices.items() if verdict in verdicts]
        if REGRESSED in verdicts:
            return LOST
        if self.broken:
            return BROKEN
        if FAIL in open_choices:
            return LOST
        return OPEN if REPORT in open_choices else OK


def judge(
    baseline: Side, attempts: Sequence[Attempt], terms: Terms, *, every: bool = False
) -> Outcome:
    """The verdict on runs that are all there."""
    tested = side("here", attempts, every=every)
    lines = compare(baseline, tested, terms)
    sizes = tuple(sorted({len(cell.runs) for cell in tested.cells.values()}))[-1:]
    return Outcome(tuple(lines), tested, _failed(attempts), sizes)


def play(
    baseline: Side,
    terms: Terms,
    sizes: Sequence[int],
    make: Callable[[int, frozenset[str] | None], Sequence[Attempt]],
) -> Outcome:
    """Look at few runs first; go on with the undecided cells alone.

    Args:
        baseline: what is compared with.
        terms: see Terms.
        sizes: runs a cell at each look.
        make: makes runs until each of these cells (None: all) has so many seeds tried, and
            returns all attempts made so far.
    """
    fewest = min((len(cell.runs) for cell in baseline.cells.values()), default=1)
    levels = decision.spend(ALPHA_GATE, sizes, fewest)
    same = decision.spend(ALPHA, sizes, fewest)
    decided: dict[tuple[str, str], Line] = {}
    open_cells: frozenset[str] | None = None
    for look, size in enumerate(sizes):
        attempts = make(size, open_cells)
        tested = side("here", attempts)
        lines = compare(baseline, tested, terms, levels[look], same[look])
        lines = [decided.get((line.key, line.metric.name), line) for line in lines]
        decided = {(ln.key, ln.metric.name): ln for ln in lines if ln.verdict != INCONCLUSIVE}
        open_cells = frozenset(line.key for line in lines if line.verdict == INCONCLUSIVE)
        if not open_cells & set(tested.cells):
            break
    return Outcome(tuple(lines), tested, _failed(attempts), tuple(sizes[: look + 1]))


def _failed(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Failed attempts whose repetition nothing later made good."""
    good = {(a.cell.key, a.seed) for a in attempts if a.ok}
    last = {(a.cell.key, a.seed): a for a in attempts if not a.ok}
    return tuple(attempt for key, attempt in last.items() if key not in good)


def find_warnings(baseline: Side, outcome: Outcome, across: Sequence[str] = ()) -> list[str]:
    """What a gate reports although it decides nothing: suspicious, disturbed or failed runs.

    A speed-up of training that nobody can explain is more often a fault than a discovery; MLPerf
    rejects runs that converge faster than its reference convergence points for that reason.
    """
    texts = [text for line in outcome.lines for text in _line_warnings(line)]
    for old, new in pairs(baseline, outcome.tested, across):
        if old is not None and new is not None:
            cell_texts = (*_fast_convergence(old, new), *_flagged(new), *_missing(old, new))
            texts += [f"{new.label}: {text}" for text in (*cell_texts, *_drift(new))]
    for attempt in outcome.failed:
        message = f": {attempt.failure.message}" if attempt.failure else ""
        texts.append(f"{attempt.cell.label}, seed {attempt.seed}: {attempt.status}{message}")
    return list(dict.fromkeys(texts))


def _line_warnings(line: Line) -> Iterator[str]:
    if line.metric.name == "best_hr" and line.verdict == IMPROVED:
        yield (
            f"{line.label}: best HR is suspiciously high, by more than the margin above the "
            "baseline: a leak of held-out items is likelier than a discovery"
        )
    for n, side_name in zip(line.answer.aside, ("of the baseline", "here"), strict=True):
        if n:
            yield (
                f"{line.label}: {n} {'run' if n == 1 else 'runs'} {side_name} set aside in "
                f"{line.metric.name}, far from the others"
            )


def _fast_convergence(old: CellSamples, new: CellSamples) -> Iterator[str]:
    metric = gated("epochs_to_best")
    before, after = old.values(metric.name), new.values(metric.name)
    if not (before and after and min(before) > 0 and min(after) > 0):
        return
    reference, tested = ([metric.scaled(value) for value in values] for values in (before, after))
    question = Question(reference, tested, metric.better, metric.scaled_margin(metric.margin))
    if decision.decide([question])[0].verdict == IMPROVED:
        yield (
            f"converges suspiciously fast: {units.exact(median(after))} epochs to the best HR, "
            f"{units.exact(median(before))} in the baseline"
        )


def _flagged(cell: CellSamples) -> Iterator[str]:
    for flag, n in cell.flags.items():
        yield f"{n} runs here are flagged {flag}"


def _missing(old: CellSamples, new: CellSamples) -> Iterator[str]:
    """Runs without a value where the baseline's had one, such as a target that was not reached."""
    for name, values in new.samples.items():
        n, before = values.count(None), old.samples.get(name, ()).count(None)
        if n and not before:
            yield f"{n} of {len(values)} runs here have no {name}"


def _drift(cell: CellSamples) -> Iterator[str]:
    """Neighbouring runs that are alike: the machine drifts, and intervals are narrower than true.

    The serial correlation of n independent values is about normal(-1/n, 1/n).
    """
    values = [math.log(value) for value in cell.values("throughput")]
    n, centre = len(values), fmean(values) if values else 0.0
    deviations = [value - centre for value in values]
    total = math.fsum(value**2 for value in deviations)
    if n < 8 or total == 0:
        return
    serial = math.fsum(a * b for a, b in pairwise(deviations)) / total
    if serial >= 2.33 / math.sqrt(n) - 1 / n:
        yield (
            f"speeds of neighbouring runs are alike (correlation {serial:.2f}): the machine "
            "drifts; `ncf-bench calibrate` measures by how much"
        )
