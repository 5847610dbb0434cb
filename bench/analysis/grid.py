"""The grid of a suite, filled with runs: what tables and pictures are made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bench.analysis.metrics import ENERGY, FLOPS_LIMIT, PAIRS, RANKING, batches
from bench.stats.summary import Missing, Summary, summarize
from bench.suite.model import PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.analysis.metrics import Metric
    from bench.records.attempt import Attempt
    from bench.records.identity import Condition, Machine
    from bench.suite.model import Cell
    from ncf.record import RunRecord


@dataclass(frozen=True)
class Tally:
    """One planned cell of a block: its seeds, those with a good run, what became of the others.

    `unresolved` counts the seeds without a good run by the status of their last attempt;
    `failed` holds every failed attempt, also those that a later attempt made good; `unavailable`
    says why the machine cannot run the cell; `outside` marks a place of the tables that the suite
    excludes: nothing is planned there.
    """

    cell: Cell
    planned: tuple[int, ...]
    good: tuple[int, ...]
    unresolved: Mapping[str, int]
    failed: tuple[Attempt, ...]
    unavailable: str | None = None
    outside: bool = False

    @property
    def complete(self) -> bool:
        """Whether every planned seed has a good run."""
        return set(self.planned) <= set(self.good)

    @property
    def not_run(self) -> int:
        """Planned seeds that no attempt has tried."""
        tried = {*self.good, *(attempt.seed for attempt in self.failed)}
        return len(set(self.planned) - tried)


@dataclass(frozen=True)
class Pool:
    """The good attempts of one cell under one condition, one a seed, ascending; may be empty."""

    tally: Tally
    attempts: tuple[Attempt, ...] = ()

    @cached_property
    def runs(self) -> tuple[RunRecord, ...]:
        """The trainer's records of the attempts."""
        return tuple(attempt.run for attempt in self.attempts if attempt.run is not None)

    def values(self, measure: Metric) -> list[float]:
        """The quantity of every run that has it."""
        values = map(measure.of, self.attempts)
        return [value for value in values if not isinstance(value, Missing)]

    def summary(self, measure: Metric) -> Summary | Missing:
        """The quantity over runs, or why there is none."""
        values = self.values(measure)
        if values:
            return summarize(values)
        if not self.attempts:
            return Missing("not in the grid" if self.tally.outside else "no good run")
        reason = measure.of(self.attempts[0])
        assert isinstance(reason, Missing)
        return reason


@dataclass(frozen=True)
class Row:
    """One line of a table: a number of ranks (and values of other axes), a pool per precision."""

    rest: tuple[tuple[str, Any], ...]
    ranks: int
    pools: Mapping[str, Pool]


@dataclass(frozen=True)
class Block:
    """Everything that was measured under one condition.

    `condition` is None where no run is good; `machine` is None where nothing was tried. `span`
    holds the start of the first good run and the end of the last.
    """

    condition: Condition | None
    machine: Machine | None
    rows: tuple[Row, ...]
    span: tuple[str, str] | None

    @cached_property
    def precisions(self) -> tuple[str, ...]:
        """The precisions of the grid, fp32 first."""
        found = {precision for row in self.rows for precision in row.pools}
        return tuple(sorted(found, key=_precision_order))

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """All pools of the grid, row by row."""
        return tuple(pool for _, _, pool in self.cells())

    def cells(self) -> Iterator[tuple[Row, str, Pool]]:
        """Row, precision and pool of every cell of the grid; places outside it are left out."""
        for row in self.rows:
            for precision in self.precisions:
                if not (pool := row.pools[precision]).tally.outside:
                    yield row, precision, pool

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All good runs."""
        return tuple(run for pool in self.pools for run in pool.runs)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """What is there and what is missing, cell by cell."""
        return tuple(pool.tally for pool in self.pools)

    def baseline(self, row: Row, precision: str) -> Pool | None:
        """The pool with one rank that `row` is scaled against, all other axes equal.

        One rank has nobody to share with: where none ran in the row's way of sharing, one that was
        started in another is the same run.
        """
        same = _but_sharing(row.rest)
        alone = [o for o in self.rows if o.ranks == 1 and _but_sharing(o.rest) == same]
        base = min(alone, key=lambda other: other.rest != row.rest, default=None)
        return base.pools.get(precision) if base else None

    def slices(self) -> tuple[Block, ...]:
        """A block per combination of the other axes: what one picture can show."""
        rests = dict.fromkeys(row.rest for row in self.rows)
        return tuple(
            replace(self, rows=tuple(row for row in self.rows if row.rest == rest))
            for rest in rests
        )


def _but_sharing(rest: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in rest if name != "parallel")


def _precision_order(precision: str) -> tuple[int, str]:
    known = precision in PRECISIONS
    return (PRECISIONS.index(precision) if known else len(PRECISIONS), precision)


def has_measure(block: Block, measure: Metric) -> bool:
    """Whether any run of the block has this quantity."""
    return any(pool.values(measure) for pool in block.pools)


def has_roofline(block: Block) -> bool:
    """Whether any run has its counts and peaks recorded."""
    return has_measure(block, FLOPS_LIMIT)


def has_energy(block: Block) -> bool:
    """Whether any run has its energy recorded."""
    return has_measure(block, ENERGY)


def has_work(block: Block, work: str) -> bool:
    """Whether any run was timed at this work."""
    return bool(batches(block.runs, work))


def has_inference(blocks: Sequence[Block]) -> bool:
    """Whether any run of any block was timed at inference."""
    return any(has_work(block, work) for block in blocks for work in (PAIRS, RANKING))
