"""What a comparison sets against each other: cells that differ in the compared axes alone. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.analysis.aggregate import DEFAULT, Notation
from bench.analysis.labels import plain, precision_label
from bench.analysis.metrics import THROUGHPUT
from bench.stats.summary import Missing, Ratio
from bench.suite.model import SPREAD, Contrast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.analysis.grid import Block, Pool, Row
    from bench.analysis.metrics import Metric
    from bench.suite.model import Margin

HEADERS = {"ranks": "Ranks", "precision": "Precision"}


@dataclass(frozen=True)
class Arm:
    """The runs of one cell, with the cell's place in the grid."""

    axes: Mapping[str, Any]
    pool: Pool

    @property
    def key(self) -> str:
        """The cell's key."""
        return self.pool.tally.cell.key


@dataclass(frozen=True)
class Group:
    """A reference and what is set against it; all agree in `where`, the axes not compared."""

    where: tuple[tuple[str, Any], ...]
    reference: Arm
    tested: tuple[Arm, ...]

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, the reference first."""
        return (self.reference, *self.tested)


def precisions(block: Block) -> Contrast | None:
    """Reduced precision against full: fp32, or tf32 where a suite has no fp32."""
    full = next((p for p in ("fp32", "tf32") if p in block.precisions), None)
    return None if full is None else Contrast({"precision": full})


def groups(block: Block, contrast: Contrast) -> tuple[Group, ...]:
    """The comparisons that the block's grid holds, in the order of its rows."""
    found: dict[tuple[tuple[str, Any], ...], list[Arm]] = {}
    for row, precision, pool in block.cells():
        axes = {"ranks": row.ranks, **dict(row.rest), "precision": precision}
        where = tuple((k, v) for k, v in axes.items() if k not in contrast.axes)
        found.setdefault(where, []).append(Arm(axes, pool))
    whole = []
    for where, arms in found.items():
        references = [arm for arm in arms if contrast.is_reference(arm.axes)]
        tested = tuple(arm for arm in arms if not contrast.is_reference(arm.axes))
        if references and tested:
            whole.append(Group(where, references[0], tested))
    return tuple(whole)


def level(block: Block, contrast: Contrast, arm: Arm) -> str:
    """What an arm is called beside the others: `AMP (bfloat16)`, `grouped`, `2 ranks`."""
    return ", ".join(_named(block, name, arm.axes[name]) for name in contrast.axes)


def _named(block: Block, name: str, value: Any) -> str:
    if name == "precision":
        return precision_label(block, value)
    if name == "ranks":
        return "1 rank" if value == 1 else f"{value} ranks"
    return value if isinstance(value, str) else f"{name} {plain(value)}"


def headers(found: Sequence[Group]) -> tuple[str, ...]:
    """Names of the columns that say where a comparison was made."""
    return tuple(HEADERS.get(name, name) for name, _ in found[0].where)


def place(block: Block, group: Group) -> tuple[str, ...]:
    """The first cells of a comparison's line."""
    return tuple(
        precision_label(block, value) if name == "precision" else plain(value)
        for name, value in group.where
    )


def words(block: Block, group: Group) -> list[str]:
    """The same in words, for pictures: `1 rank`, `AMP (bfloat16)`, `batch_size 1024`."""
    return [_named(block, name, value) for name, value in group.where]


def margin_of(found: Sequence[Group], asked: Margin | None, measure: Metric) -> float | None:
    """The margin as a number; None where none is asked for, or no reference has two runs.

    For "sd" it is the standard deviation over runs, pooled over the reference arms by their
    degrees of freedom.
    """
    if asked != SPREAD:
        return asked if isinstance(asked, float) else None
    freedom, squares = 0, 0.0
    for group in found:
        values = group.reference.pool.values(measure)
        if len(values) > 1:
            mean = math.fsum(values) / len(values)
            squares += math.fsum((value - mean) ** 2 for value in values)
            freedom += len(values) - 1
    return math.sqrt(squares / freedom) if squares > 0 else None


SPEEDUPS = (("amp", "fp32"), ("amp", "tf32"))
"""Mixed over full precision, always this way up: above 1 means that mixed is faster."""


def speedup(
    row: Row, mixed: str, full: str, notation: Notation = DEFAULT, metric: Metric = THROUGHPUT
) -> Ratio | Missing:
    """A rate of mixed over that of full precision in one row."""
    return _rate_ratio(row.pools.get(mixed), row.pools.get(full), notation, metric)


def scaling(
    block: Block, row: Row, precision: str, notation: Notation = DEFAULT
) -> Ratio | Missing:
    """Throughput of a row over that of one rank, at the same global batch."""
    base = block.baseline(row, precision)
    if base is None:
        return Missing("no cell with 1 rank")
    return _rate_ratio(row.pools.get(precision), base, notation)


def _rate_ratio(
    numerator: Pool | None,
    denominator: Pool | None,
    notation: Notation,
    metric: Metric = THROUGHPUT,
) -> Ratio | Missing:
    if numerator is None or denominator is None:
        return Missing("not in the grid")
    above, below = numerator.summary(metric), denominator.summary(metric)
    if isinstance(below, Missing):
        return Missing(f"baseline: {below.reason}")
    if isinstance(above, Missing):
        return above
    if {run.global_batch for run in (*numerator.runs, *denominator.runs)} != {
        numerator.runs[0].global_batch
    }:
        return Missing("global batch differs")
    return notation.ratio(above, below, metric)


def arm_ratio(
    above: Arm, below: Arm, measure: Metric, contrast: Contrast, notation: Notation = DEFAULT
) -> Ratio | Missing:
    """Tested over reference; only at the same global batch, unless that is what is compared."""
    tested, reference = above.pool.summary(measure), below.pool.summary(measure)
    if isinstance(reference, Missing):
        return Missing(f"reference: {reference.reason}")
    if isinstance(tested, Missing):
        return tested
    batches = {run.global_batch for arm in (above, below) for run in arm.pool.runs}
    if len(batches) > 1 and "batch_size" not in contrast.axes:
        return Missing("global batch differs")
    return notation.ratio(tested, reference, measure)
