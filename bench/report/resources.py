"""How near training comes to what the machine can do, by cell. Pure.

Counts per sample and peaks are facts of the records; analysis.metrics makes shares of them.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT, Notation
from bench.analysis.grid import Block, Pool, has_measure
from bench.analysis.labels import head, precision_label, rest_names, word_names
from bench.analysis.metrics import (
    ACHIEVED_FLOPS,
    BYTES_PER_SAMPLE,
    COPY_PEAK,
    FLOPS_LIMIT,
    FLOPS_PER_SAMPLE,
    INTENSITY,
    JOULES_TO_BEST,
    MATMUL_PEAK,
    REDUCED_BYTES,
    SAMPLES_PER_JOULE,
    SHARE_OF_LIMIT,
    SHARE_OF_MATMUL,
    STEP_SECONDS,
    WAITING_SHARE,
    waiting_shares,
)
from bench.render import units
from bench.render.model import Cell, Number, Table
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.analysis.metrics import Metric

COLUMNS = (
    FLOPS_PER_SAMPLE,
    BYTES_PER_SAMPLE,
    INTENSITY,
    MATMUL_PEAK,
    COPY_PEAK,
    FLOPS_LIMIT,
    ACHIEVED_FLOPS,
    SHARE_OF_LIMIT,
    SHARE_OF_MATMUL,
)
COUNTED = (FLOPS_PER_SAMPLE, BYTES_PER_SAMPLE, INTENSITY)
"""Follow from the model's shapes: the same in all runs of a cell, and shown without a spread."""


def table(block: Block, notation: Notation = DEFAULT) -> Table:
    """Counts, peaks, the limit they make, what was reached and its share, a line per cell."""
    rows = []
    for row, precision, pool in block.cells():
        cells: list[str] = [
            _counted(pool, metric)
            if metric in COUNTED
            else notation.measured(pool, metric, metric.form)
            for metric in COLUMNS
        ]
        cells.insert(6, bound_by(pool))
        rows.append((*head(row), precision_label(block, precision), *cells))
    headers = [metric.title for metric in COLUMNS]
    headers.insert(6, "Bound by")
    return Table(
        ("Ranks", *rest_names(block), "Precision", *headers),
        tuple(rows),
        (*word_names(block), "Precision", "Bound by"),
    )


def bound_by(pool: Pool) -> str:
    """Which of the two peaks is the limit: `compute`, `memory`, or what differs among runs."""
    found = set()
    for attempt in pool.attempts:
        limit, peak = FLOPS_LIMIT.of(attempt), MATMUL_PEAK.of(attempt)
        if not isinstance(limit, Missing):
            found.add("compute" if limit == peak else "memory")
    return " or ".join(sorted(found)) or units.not_available()


def _counted(pool: Pool, metric: Metric) -> str:
    """A count, which has no spread unless the runs of a cell disagree."""
    data, form = pool.summary(metric), metric.form
    keys = (pool.tally.cell.key,)
    if isinstance(data, Missing):
        return Cell(units.not_available(data.reason), Number(None, unit=metric.unit), keys)
    text = form(data.median) if data.min == data.max else f"{form(data.min)} to {form(data.max)}"
    return Cell(text, Number(data.median, data.min, data.max, data.n, metric.unit), keys)


COMMUNICATION = (
    "*All-reduced*: bytes of gradients that each rank hands over in a step. *Waiting*: share of a "
    "step that a rank spends in the all-reduce, the wait for slower ranks included, over all ranks "
    "and by rank; timed in some steps of each run."
)


def has_communication(block: Block) -> bool:
    """Whether any run has its communication recorded."""
    return has_measure(block, REDUCED_BYTES)


def communication(block: Block, notation: Notation = DEFAULT) -> Table:
    """Bytes and seconds of a step and the share of waiting, a line per cell of several ranks."""
    rows = []
    for row, precision, pool in block.cells():
        if row.ranks == 1 and not pool.values(REDUCED_BYTES):
            continue
        modes = sorted({run.communication.parallel for run in pool.runs if run.communication})
        rows.append(
            (
                *head(row),
                precision_label(block, precision),
                " or ".join(modes) or units.not_available(),
                _reduced_bytes(pool),
                notation.measured(pool, STEP_SECONDS, units.milliseconds),
                notation.measured(pool, WAITING_SHARE, units.percent),
                waiting_by_rank(pool),
            )
        )
    headers = ("Ranks", *rest_names(block), "Precision", "Mode", "All-reduced a step")
    headers += ("Step (ms)", "Waiting", "Waiting by rank")
    return Table(headers, tuple(rows), (*word_names(block), "Precision", "Mode"))


def waiting_by_rank(pool: Pool) -> str:
    """The share of every rank, each the median over runs: "12.1 %, 31.0 %"."""
    runs = [shares for run in pool.runs if (shares := waiting_shares(run))]
    if not runs or len({len(shares) for shares in runs}) != 1:
        return units.not_available()
    return ", ".join(units.percent(statistics.median(rank)) for rank in zip(*runs, strict=True))


def _reduced_bytes(pool: Pool) -> str:
    """A count: the same in all runs of a cell, and shown without a spread."""
    data = pool.summary(REDUCED_BYTES)
    key = pool.tally.cell.key
    if isinstance(data, Missing):
        return Cell(units.not_available(data.reason), Number(None, unit="bytes"), (key,))
    ends = dict.fromkeys(units.size(value) for value in (data.min, data.max))
    return Cell(" to ".join(ends), Number(data.median, data.min, data.max, data.n, "bytes"), (key,))


def energy(block: Block, notation: Notation) -> Table:
    """Samples per joule and energy to the best HR@k, by ranks and precision."""
    labels = [precision_label(block, precision) for precision in block.precisions]
    rows = []
    for row in block.rows:
        pools = [row.pools[precision] for precision in block.precisions]
        rows.append(
            (
                *head(row),
                *(notation.measured(pool, SAMPLES_PER_JOULE, units.count) for pool in pools),
                *(notation.measured(pool, JOULES_TO_BEST, units.count) for pool in pools),
            )
        )
    headers = ("Ranks", *rest_names(block), *(f"{label} (samples/J)" for label in labels))
    headers += tuple(f"{label} to best (J)" for label in labels)
    return Table(headers, tuple(rows), word_names(block))
