"""How near training comes to what the machine can do, by cell. Pure.

Counts per sample and peaks are facts of the records; bench.measures makes shares of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import units
from bench.cells import Cell, Number
from bench.labels import head, precision_label, rest_names, word_names
from bench.measures import (
    ACHIEVED_FLOPS,
    BYTES_PER_SAMPLE,
    COPY_PEAK,
    FLOPS_LIMIT,
    FLOPS_PER_SAMPLE,
    INTENSITY,
    MATMUL_PEAK,
    SHARE_OF_LIMIT,
    SHARE_OF_MATMUL,
)
from bench.notation import DEFAULT
from bench.stats import Missing
from bench.tables import Table

if TYPE_CHECKING:
    from bench.grid import Block, Pool
    from bench.measures import Measure
    from bench.notation import Notation

COLUMNS: tuple[tuple[str, Measure, units.Formatter], ...] = (
    ("FLOP/sample", FLOPS_PER_SAMPLE, units.compact),
    ("Bytes/sample", BYTES_PER_SAMPLE, units.compact),
    ("FLOP/byte", INTENSITY, lambda value: units.significant(value, 3)),
    ("Matmul peak (FLOP/s)", MATMUL_PEAK, units.compact),
    ("Copy peak (bytes/s)", COPY_PEAK, units.compact),
    ("Limit (FLOP/s)", FLOPS_LIMIT, units.compact),
    ("Achieved (FLOP/s)", ACHIEVED_FLOPS, units.compact),
    ("Of the limit", SHARE_OF_LIMIT, units.percent),
    ("Of the matmul peak", SHARE_OF_MATMUL, units.percent),
)
COUNTED = (FLOPS_PER_SAMPLE, BYTES_PER_SAMPLE, INTENSITY)
"""Follow from the model's shapes: the same in all runs of a cell, and shown without a spread."""


def known(block: Block) -> bool:
    """Whether any run has its counts and peaks recorded."""
    return any(pool.values(FLOPS_LIMIT) for pool in block.pools)


def table(block: Block, notation: Notation = DEFAULT) -> Table:
    """Counts, peaks, the limit they make, what was reached and its share, a line per cell."""
    rows = []
    for row in block.rows:
        for precision in block.precisions:
            pool = row.pools[precision]
            if pool.tally.outside:
                continue
            cells: list[str] = [
                _counted(pool, measure, form)
                if measure in COUNTED
                else notation.measured(pool, measure, form)
                for _, measure, form in COLUMNS
            ]
            cells.insert(6, bound_by(pool))
            rows.append((*head(row), precision_label(block, precision), *cells))
    headers = [name for name, _, _ in COLUMNS]
    headers.insert(6, "Bound by")
    return Table(
        ("Ranks", *rest_names(block), "Precision", *headers),
        tuple(rows),
        (*word_names(block), "Precision", "Bound by"),
    )


def bound_by(pool: Pool) -> str:
    """Which of the two peaks is the limit: `compute`, `memory`, or what differs among runs."""
    found = set()
    for run in pool.runs:
        limit, peak = FLOPS_LIMIT.of(run), MATMUL_PEAK.of(run)
        if not isinstance(limit, Missing):
            found.add("compute" if limit == peak else "memory")
    return " or ".join(sorted(found)) or units.not_available()


def _counted(pool: Pool, measure: Measure, form: units.Formatter) -> str:
    """A count, which has no spread unless the runs of a cell disagree."""
    data = pool.summary(measure)
    keys = () if pool.tally.outside else (pool.tally.cell.key,)
    if isinstance(data, Missing):
        return Cell(units.not_available(data.reason), Number(None, unit=measure.unit), keys)
    text = form(data.median) if data.min == data.max else f"{form(data.min)} to {form(data.max)}"
    return Cell(text, Number(data.median, data.min, data.max, data.n, measure.unit), keys)
