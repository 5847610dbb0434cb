"""The gate: one look after another until every comparison is decided, and the exit code. Pure.

Runs are made by whoever calls `play`, so that this can be tested without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.gate.compare import Line, Terms, compare
from bench.gate.samples import Side, side
from bench.stats import decision
from bench.stats.decision import INCONCLUSIVE, NOT_COMPARABLE, REGRESSED
from bench.stats.summary import ALPHA, ALPHA_GATE, MIN_RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.records.attempt import Attempt

PASS, FAIL, REPORT = "pass", "fail", "report"
POLICIES = (REPORT, PASS, FAIL)
"""What an open verdict means to the exit code: 3, 0 or 1."""
OK, LOST, BROKEN, OPEN = 0, 1, 2, 3


@dataclass(frozen=True)
class Policy:
    """What to make of what was not decided."""

    inconclusive: str = REPORT
    not_comparable: str = REPORT


@dataclass(frozen=True)
class Outcome:
    """What a gate found.

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
        return tuple(sorted(key for key in failed if self._good(key) < MIN_RUNS))

    def _good(self, key: str) -> int:
        cell = self.tested.cells.get(key)
        return len(cell.runs) if cell else 0

    def exit_code(self, policy: Policy) -> int:
        """0 nothing lost, 1 a loss, 2 the runs themselves failed, 3 something is open."""
        verdicts = {line.verdict for line in self.lines}
        wanted = {
            verdict: choice
            for verdict, choice in (
                (INCONCLUSIVE, policy.inconclusive),
                (NOT_COMPARABLE, policy.not_comparable),
            )
            if verdict in verdicts
        }
        if REGRESSED in verdicts:
            return LOST
        if self.broken:
            return BROKEN
        if FAIL in wanted.values():
            return LOST
        return OPEN if REPORT in wanted.values() else OK


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
