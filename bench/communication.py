"""What the ranks send each other and how long they wait for it, by cell. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench import units
from bench.cells import Cell, Number
from bench.labels import head, precision_label, rest_names, word_names
from bench.measures import REDUCED_BYTES, STEP_SECONDS, WAITING_SHARE, waiting_shares
from bench.notation import DEFAULT
from bench.stats import Missing
from bench.tables import Table

if TYPE_CHECKING:
    from bench.grid import Block, Pool
    from bench.notation import Notation

EXPLAINED = (
    "*All-reduced*: bytes of gradients that each rank hands over in a step. *Waiting*: share of a "
    "step that a rank spends in the all-reduce, the wait for slower ranks included, over all ranks "
    "and by rank; timed in some steps of each run."
)


def known(block: Block) -> bool:
    """Whether any run has its communication recorded."""
    return any(pool.values(REDUCED_BYTES) for pool in block.pools)


def table(block: Block, notation: Notation = DEFAULT) -> Table:
    """Bytes and seconds of a step and the share of waiting, a line per cell of several ranks."""
    rows = []
    for row in block.rows:
        for precision in block.precisions:
            pool = row.pools[precision]
            if pool.tally.outside or (row.ranks == 1 and not pool.values(REDUCED_BYTES)):
                continue
            modes = sorted({run.communication.parallel for run in pool.runs if run.communication})
            rows.append(
                (
                    *head(row),
                    precision_label(block, precision),
                    " or ".join(modes) or units.not_available(),
                    _bytes(pool),
                    notation.measured(pool, STEP_SECONDS, units.milliseconds),
                    notation.measured(pool, WAITING_SHARE, units.percent),
                    by_rank(pool),
                )
            )
    headers = ("Ranks", *rest_names(block), "Precision", "Mode", "All-reduced a step")
    headers += ("Step (ms)", "Waiting", "Waiting by rank")
    return Table(headers, tuple(rows), (*word_names(block), "Precision", "Mode"))


def by_rank(pool: Pool) -> str:
    """The share of every rank, each the median over runs: "12.1 %, 31.0 %"."""
    runs = [shares for run in pool.runs if (shares := waiting_shares(run))]
    if not runs or len({len(shares) for shares in runs}) != 1:
        return units.not_available()
    return ", ".join(units.percent(statistics.median(rank)) for rank in zip(*runs, strict=True))


def _bytes(pool: Pool) -> str:
    """A count: the same in all runs of a cell, and shown without a spread."""
    data = pool.summary(REDUCED_BYTES)
    key = pool.tally.cell.key
    if isinstance(data, Missing):
        return Cell(units.not_available(data.reason), Number(None, unit="bytes"), (key,))
    ends = dict.fromkeys(units.size(value) for value in (data.min, data.max))
    return Cell(" to ".join(ends), Number(data.median, data.min, data.max, data.n, "bytes"), (key,))
