"""Attempts -> cells -> rows: which runs may be counted together, and which are missing.

Pure. Runs are pooled only when they agree on machine, data, protocol and versions; what differs
gets tables of its own (a Block), never an average.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench.analysis.grid import Block, Pool, Row, Tally
from bench.records.identity import Condition, Machine
from bench.suite.model import Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.records.attempt import Attempt


@dataclass(frozen=True)
class Grouped:
    """A suite's records in order: blocks, the newest first, and attempts outside the grid."""

    blocks: tuple[Block, ...]
    strays: tuple[Attempt, ...]


def group(
    cells: Sequence[Cell],
    seeds: Sequence[int] | Callable[[Cell], Sequence[int]],
    attempts: Iterable[Attempt],
    why_not: Callable[[Mapping[str, Any], Cell], str | None] = lambda _host, _cell: None,
) -> Grouped:
    """Sort the attempts into the grid.

    Under one condition a seed counts once: its last good attempt. Failures belong to the newest
    condition of their machine. Attempts of cells outside the grid (the suite was changed) are
    strays and enter no number.

    Args:
        cells: the grid.
        seeds: one repetition of every cell each; or the seeds of each cell, as a function.
        attempts: all stored attempts, in any order.
        why_not: why a host, as the records describe it, cannot run a cell; None if it can.
    """
    grid = {cell.key for cell in cells}
    ordered = sorted(attempts, key=lambda a: (a.cell.key, a.seed, a.attempt))
    good: dict[Condition, list[Attempt]] = {}
    failed: dict[Machine, list[Attempt]] = {}
    for attempt in ordered:
        if attempt.cell.key in grid:
            if attempt.ok:
                good.setdefault(Condition.of(attempt), []).append(attempt)
            else:
                failed.setdefault(Machine.of(attempt.host), []).append(attempt)
    good = _with_one_rank(good)
    parts: list[tuple[Condition | None, Machine, list[Attempt]]] = []
    for condition in sorted(good, key=lambda one: _end(good[one]), reverse=True):
        found = good[condition] + failed.pop(condition.machine, [])
        parts.append((condition, condition.machine, found))
    parts += [(None, machine, found) for machine, found in failed.items()]
    parts.sort(key=lambda part: _end(part[2]), reverse=True)
    blocks = [
        _block(condition, machine, found, _rows(cells, seeds, found, why_not), good)
        for condition, machine, found in parts
    ] or [Block(None, None, _rows(cells, seeds, [], why_not), None)]
    return Grouped(tuple(blocks), tuple(a for a in ordered if a.cell.key not in grid))


def _with_one_rank(good: Mapping[Condition, list[Attempt]]) -> dict[Condition, list[Attempt]]:
    """Runs that did not load Horovod join those that did, if they agree in all else.

    Where several versions of Horovod did, they join the newest; those versions stay apart.
    """
    joined = dict(good)
    for condition, attempts in good.items():
        if "horovod" in dict(condition.versions):
            continue
        others = [c for c in good if c != condition and _without_horovod(c) == condition]
        if others:
            newest = max(others, key=lambda one: _end(good[one]))
            both = [*attempts, *good[newest]]
            joined[newest] = sorted(both, key=lambda a: (a.cell.key, a.seed, a.attempt))
            del joined[condition]
    return joined


def _without_horovod(condition: Condition) -> Condition:
    versions = tuple(item for item in condition.versions if item[0] != "horovod")
    return replace(condition, versions=versions)


def _end(attempts: Sequence[Attempt]) -> str:
    return max(attempt.finished_at for attempt in attempts)


def _block(
    condition: Condition | None,
    machine: Machine,
    attempts: Sequence[Attempt],
    rows: Sequence[Row],
    good: Mapping[Condition, Sequence[Attempt]],
) -> Block:
    """One block; rows that this machine ran under other conditions only are not missing here.

    A protocol that is an axis of the suite makes conditions by itself: each protocol has its own
    tables, without the rows of the others.
    """
    elsewhere = {
        attempt.cell.key
        for other, found in good.items()
        if other.machine == machine and other != condition
        for attempt in found
    }
    shown = []
    for row in rows:
        tallies = [pool.tally for pool in row.pools.values()]
        tried = any(tally.good or tally.failed for tally in tallies)
        if tried or not any(tally.cell.key in elsewhere for tally in tallies):
            shown.append(row)
    used = [attempt for attempt in attempts if attempt.ok]
    span = (min(a.started_at for a in used), _end(used)) if used else None
    return Block(condition, machine, tuple(shown), span)


def _rows(
    cells: Sequence[Cell],
    seeds: Sequence[int] | Callable[[Cell], Sequence[int]],
    attempts: Sequence[Attempt],
    why_not: Callable[[Mapping[str, Any], Cell], str | None],
) -> tuple[Row, ...]:
    by_cell: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_cell.setdefault(attempt.cell.key, []).append(attempt)
    rows: dict[tuple[tuple[tuple[str, Any], ...], int], dict[str, Pool]] = {}
    for cell in cells:
        found = by_cell.get(cell.key, [])
        reason = None if found or not attempts else why_not(attempts[-1].host, cell)
        rest = tuple((k, v) for k, v in cell.axes.items() if k not in ("ranks", "precision"))
        planned = seeds(cell) if callable(seeds) else seeds
        pool = _pool(cell, planned, found, reason)
        rows.setdefault((rest, cell.ranks), {})[cell.precision] = pool
    precisions = dict.fromkeys(cell.precision for cell in cells)
    for pools in rows.values():
        for precision in precisions:
            pools.setdefault(precision, _OUTSIDE)
    order = _order([rest for rest, _ in rows])
    keys = sorted(rows, key=lambda key: (order[key[0]], key[1]))
    return tuple(Row(*key, rows[key]) for key in keys)


def _order(rests: Sequence[tuple[tuple[str, Any], ...]]) -> dict[Any, tuple[float, ...]]:
    """What to sort the options of rows by: numbers by size, words as they come.

    A grid with holes does not meet an axis's values in their order.
    """
    values: dict[str, list[Any]] = {}
    for name, value in (pair for rest in rests for pair in rest):
        values.setdefault(name, []).append(value)
    place: dict[str, Callable[[Any], float]] = {
        name: float if all(isinstance(v, int | float) for v in listed) else listed.index
        for name, listed in values.items()
    }
    return {rest: tuple(place[name](value) for name, value in rest) for rest in rests}


_OUTSIDE = Pool(Tally(Cell({}, {}, ""), (), (), {}, (), outside=True))
"""What stands in a row for a precision that the suite excludes there."""


def _pool(
    cell: Cell, seeds: Sequence[int], attempts: Sequence[Attempt], unavailable: str | None
) -> Pool:
    good = {attempt.seed: attempt for attempt in attempts if attempt.ok}  # the last one stays
    failed = tuple(attempt for attempt in attempts if not attempt.ok)
    last = {attempt.seed: attempt.status for attempt in failed if attempt.seed not in good}
    tally = Tally(
        cell=cell,
        planned=tuple(seeds),
        good=tuple(sorted(good)),
        unresolved=dict(sorted(Counter(last.values()).items())),
        failed=failed,
        unavailable=unavailable,
    )
    return Pool(tally, tuple(good[seed] for seed in tally.good))
