"""What a comparison sets against each other: cells that differ in the compared axes alone. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.labels import plain, precision_label
from bench.suite_report import SPREAD, Contrast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.grid import Block, Pool
    from bench.measures import Measure
    from bench.suite_report import Margin

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
    for row in block.rows:
        for precision in block.precisions:
            pool = row.pools[precision]
            axes = {"ranks": row.ranks, **dict(row.rest), "precision": precision}
            where = tuple((k, v) for k, v in axes.items() if k not in contrast.axes)
            if not pool.tally.outside:
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


def margin_of(found: Sequence[Group], asked: Margin | None, measure: Measure) -> float | None:
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
