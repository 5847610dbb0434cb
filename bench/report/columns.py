"""Columns that tables share: where a line lies in the grid, and a figure of its runs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis.contrasts import SPEEDUPS, speedup
from bench.analysis.labels import item, precision_label, rest_names, word_names
from bench.analysis.metrics import THROUGHPUT
from bench.render import units
from bench.render.model import Column
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool, Row
    from bench.analysis.metrics import Metric

CellLine = tuple["Row", str, "Pool"]
"""A line per cell of the grid, as `Block.cells` gives it: row, precision, runs."""
PairLine = tuple["Row", str, "Pool", int]
"""A line per cell and batch size."""


def row_columns(block: Block) -> list[Column[Row]]:
    """Ranks, then the other axes: where a row of the grid lies."""

    def level(index: int) -> Callable[[Row], str | int | float]:
        return lambda row: item(row.rest[index][1])

    words = word_names(block)
    rest = [Column(name, level(i), name in words) for i, name in enumerate(rest_names(block))]
    return [Column("Ranks", lambda row: row.ranks), *rest]


def cell_columns(block: Block) -> list[Column[CellLine]]:
    """The same with the precision: where a cell lies."""

    def of(column: Column[Row]) -> Column[CellLine]:
        return Column(column.title, lambda line: column.value(line[0]), column.words)

    precision: Column[CellLine] = Column(
        "Precision", lambda line: precision_label(block, line[1]), words=True
    )
    return [*map(of, row_columns(block)), precision]


def precision_columns(
    block: Block,
    metric: Metric,
    form: units.Formatter,
    notation: Notation,
    title: str = "{}",
) -> list[Column[Row]]:
    """One column per precision: a metric of the runs of that row.

    Args:
        block: the runs.
        metric: what is shown.
        form: how it is written.
        notation: how runs become one number.
        title: of a column; the precision takes the place of the braces.
    """

    def of(precision: str) -> Column[Row]:
        return Column(
            title.format(precision_label(block, precision)),
            lambda row: notation.measured(row.pools[precision], metric, form),
        )

    return [of(precision) for precision in block.precisions]


def speedup_columns(
    block: Block, notation: Notation, metric: Metric = THROUGHPUT
) -> list[Column[Row]]:
    """Mixed over full precision, for the pairs that the block has."""

    def of(mixed: str, full: str) -> Column[Row]:
        return Column(
            f"Speed-up {mixed.upper()}/{full.upper()}",
            lambda row: notation.ratio_estimate(
                speedup(row, mixed, full, notation, metric), cell_keys(row, (mixed, full))
            ),
        )

    return [of(*pair) for pair in SPEEDUPS if set(pair) <= set(block.precisions)]


def cell_keys(row: Row, precisions: Sequence[str]) -> tuple[str, ...]:
    """Keys of the cells of a row that are in the grid."""
    pools = (row.pools[p] for p in precisions if p in row.pools)
    return tuple(pool.tally.cell.key for pool in pools if not pool.tally.outside)


def rate_form(block: Block, notation: Notation) -> units.Formatter:
    """How a table writes samples/s; one form for all its cells."""
    summaries = [pool.summary(THROUGHPUT) for pool in block.pools]
    return notation.rate_form([s.median for s in summaries if not isinstance(s, Missing)])


def hit_rate_form(block: Block) -> units.Formatter:
    """How a table writes hit rates: with as many digits as the number of test users deserves."""
    users = block.condition.dataset.test_users if block.condition else 0
    digits = units.hit_rate_digits(users)
    return lambda value: units.hit_rate(value, digits)
