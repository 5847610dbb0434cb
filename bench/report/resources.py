"""How near training comes to what the machine can do, by cell. Pure.

Counts per sample and peaks are facts of the records; analysis.metrics makes shares of them.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT
from bench.analysis.grid import has_measure
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
from bench.render.model import Column, Estimate, Several, build
from bench.report.columns import cell_columns, precision_columns, row_columns
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.analysis.metrics import Metric
    from bench.render.model import Item, Table
    from bench.report.columns import CellLine

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

    def of(metric: Metric) -> Column[CellLine]:
        if metric in COUNTED:
            return Column(metric.title, lambda line: _counted(line[2], metric))
        return Column(metric.title, lambda line: notation.measured(line[2], metric, metric.form))

    figures = [of(metric) for metric in COLUMNS]
    figures.insert(6, Column("Bound by", lambda line: bound_by(line[2]), words=True))
    return build(block.cells(), [*cell_columns(block), *figures])


def bound_by(pool: Pool) -> str:
    """Which of the two peaks is the limit: `compute`, `memory`, or what differs among runs."""
    found = set()
    for attempt in pool.attempts:
        limit, peak = FLOPS_LIMIT.of(attempt), MATMUL_PEAK.of(attempt)
        if not isinstance(limit, Missing):
            found.add("compute" if limit == peak else "memory")
    return " or ".join(sorted(found)) or units.not_available()


def _counted(pool: Pool, metric: Metric, form: units.Formatter | None = None) -> Estimate:
    """A count, which has no spread unless the runs of a cell disagree."""
    data, form, keys = pool.summary(metric), form or metric.form, (pool.tally.cell.key,)
    if isinstance(data, Missing):
        return Estimate(None, form, data.reason, unit=metric.unit, sources=keys)
    return Estimate(
        data.median,
        form,
        low=data.min,
        high=data.max,
        spread="ends",
        n=data.n,
        unit=metric.unit,
        sources=keys,
    )


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

    def of(title: str, metric: Metric, form: units.Formatter) -> Column[CellLine]:
        return Column(title, lambda line: notation.measured(line[2], metric, form))

    columns: list[Column[CellLine]] = [
        *cell_columns(block),
        Column("Mode", lambda line: _mode(line[2]), words=True),
        Column("All-reduced a step", lambda line: _counted(line[2], REDUCED_BYTES, units.size)),
        of("Step (ms)", STEP_SECONDS, units.milliseconds),
        of("Waiting", WAITING_SHARE, units.percent),
        Column("Waiting by rank", lambda line: waiting_by_rank(line[2])),
    ]
    several = [line for line in block.cells() if line[0].ranks > 1 or line[2].values(REDUCED_BYTES)]
    return build(several, columns)


def _mode(pool: Pool) -> str:
    modes = sorted({run.communication.parallel for run in pool.runs if run.communication})
    return " or ".join(modes) or units.not_available()


def waiting_by_rank(pool: Pool) -> Item:
    """The share of every rank, each the median over runs: "12.1 %, 31.0 %"."""
    runs = [shares for run in pool.runs if (shares := waiting_shares(run))]
    if not runs or len({len(shares) for shares in runs}) != 1:
        return units.not_available()
    return Several(tuple(map(statistics.median, zip(*runs, strict=True))), units.percent)


def energy(block: Block, notation: Notation) -> Table:
    """Samples per joule and energy to the best HR@k, by ranks and precision."""
    to_best = precision_columns(block, JOULES_TO_BEST, units.count, notation, "{} to best (J)")
    rates = precision_columns(block, SAMPLES_PER_JOULE, units.count, notation, "{} (samples/J)")
    return build(block.rows, [*row_columns(block), *rates, *to_best])
