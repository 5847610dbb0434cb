"""Inference as tables in the published shape: throughput, latency, ranking. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis import contrasts
from bench.analysis.aggregate import DEFAULT
from bench.analysis.contrasts import SPEEDUPS, arm_ratio
from bench.analysis.labels import counted, head, precision_label, rest_names, word_names
from bench.analysis.metrics import (
    LATENCIES,
    PAIRS,
    RANKING,
    batches,
    latency,
    scores_rate,
    timed,
    users_rate,
)
from bench.render import units
from bench.render.model import Cell, Number, Table
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool, Row
    from bench.analysis.metrics import Metric
    from bench.stats.summary import Ratio
    from bench.suite.model import Contrast

NAMES = tuple(f"{what if what[0] == 'p' else what.capitalize()} (ms)" for what in LATENCIES)


def throughput(block: Block, notation: Notation = DEFAULT) -> Table:
    """Samples/s by batch size and precision, and the speed-up of mixed precision."""
    sizes = batches(block.runs, PAIRS)
    form = rate_form(block, lambda size: scores_rate(PAIRS, size), PAIRS, notation)
    labels = [precision_label(block, precision) for precision in block.precisions]
    pairs = [pair for pair in SPEEDUPS if set(pair) <= set(block.precisions)]
    rows = []
    for row in block.rows:
        for size in sizes:
            measure = scores_rate(PAIRS, size)
            cells: list[str] = [batch_cell(size)]
            cells += [notation.measured(row.pools[p], measure, form) for p in block.precisions]
            for mixed, full in pairs:
                found = _speedup(row.pools[mixed], row.pools[full], measure, notation)
                keys = [row.pools[p].tally.cell.key for p in (mixed, full)]
                cells.append(notation.ratio_cell(found, tuple(filter(None, keys))))
            rows.append((*head(row), *cells))
    headers = ("Ranks", *rest_names(block), "Batch", *(f"{name} (samples/s)" for name in labels))
    headers += tuple(f"Speed-up {mixed.upper()}/{full.upper()}" for mixed, full in pairs)
    return Table(headers, tuple(rows), word_names(block))


def latencies(block: Block, notation: Notation = DEFAULT) -> Table:
    """Latency of a call by precision and batch size: mean, percentiles, longest."""
    rows = [
        (
            *_place(block, row, precision),
            batch_cell(size),
            *_latency_cells(pool, PAIRS, size, notation),
        )
        for row, precision, pool in block.cells()
        for size in batches(block.runs, PAIRS)
    ]
    headers = ("Ranks", *rest_names(block), "Precision", "Batch", *NAMES, "Calls", "Runs")
    return Table(headers, tuple(rows), (*word_names(block), "Precision"))


def ranking(block: Block, notation: Notation = DEFAULT) -> Table:
    """The top k of the whole catalogue: users/s, scores/s and latency by block of users."""
    users = rate_form(block, users_rate, RANKING, notation)
    scores = rate_form(block, lambda size: scores_rate(RANKING, size), RANKING, notation)
    rows = [
        (
            *_place(block, row, precision),
            batch_cell(size, "users"),
            notation.measured(pool, users_rate(size), users),
            notation.measured(pool, scores_rate(RANKING, size), scores),
            *_latency_cells(pool, RANKING, size, notation),
        )
        for row, precision, pool in block.cells()
        for size in batches(block.runs, RANKING)
    ]
    headers = ("Ranks", *rest_names(block), "Precision", "Users", "Users/s", "Scores/s")
    return Table(
        (*headers, *NAMES, "Calls", "Runs"), tuple(rows), (*word_names(block), "Precision")
    )


def compared(
    block: Block, contrast: Contrast, work: str, notation: Notation = DEFAULT
) -> Table | None:
    """Scores/s over those of a reference, a line per batch size; None without such cells."""
    found, sizes = contrasts.groups(block, contrast), batches(block.runs, work)
    if not found or not sizes:
        return None
    form = rate_form(block, lambda size: scores_rate(work, size), work, notation)
    rows = []
    for group in found:
        below = group.reference
        for above in group.tested:
            names = (contrasts.level(block, contrast, arm) for arm in (above, below))
            compared_text = " / ".join(names)
            for size in sizes:
                measure = scores_rate(work, size)
                cells: list[str] = [
                    notation.measured(arm.pool, measure, form) for arm in (above, below)
                ]
                value = arm_ratio(above, below, measure, contrast, notation)
                cells.append(notation.ratio_cell(value, (above.key, below.key)))
                place = contrasts.place(block, group)
                rows.append((*place, compared_text, batch_cell(size), *cells))
    batch, rate = ("Batch", "Samples/s") if work == PAIRS else ("Users", "Scores/s")
    headers = (*contrasts.headers(found), "Compared", batch, rate)
    headers += (f"Reference ({rate[0].lower()}{rate[1:]})", "Throughput ratio")
    return Table(headers, tuple(rows), (*word_names(block), "Precision", "Compared"))


def rate_form(
    block: Block, measure: Callable[[int], Metric], work: str, notation: Notation
) -> units.Formatter:
    """How a table writes its rates; one form for all its cells."""
    found = (
        pool.summary(measure(size)) for pool in block.pools for size in batches(block.runs, work)
    )
    rates = [one.median for one in found if not isinstance(one, Missing)]
    if rates and max(rates) < 1000:  # users of a large catalogue: whole numbers would say little
        return lambda value: units.significant(value, 3)
    return notation.rate_form(rates)


def batch_cell(size: int, unit: str = "samples") -> Cell:
    """A batch size."""
    return Cell(units.count(size), Number(float(size), unit=unit))


def _speedup(above: Pool, below: Pool, measure: Metric, notation: Notation) -> Ratio | Missing:
    mixed, full = above.summary(measure), below.summary(measure)
    if isinstance(full, Missing):
        return Missing(f"baseline: {full.reason}")
    return mixed if isinstance(mixed, Missing) else notation.ratio(mixed, full, measure)


def _place(block: Block, row: Row, precision: str) -> tuple[str, ...]:
    return (*head(row), precision_label(block, precision))


def _latency_cells(pool: Pool, work: str, size: int, notation: Notation) -> list[str]:
    """Latencies, then the timed calls of a run, then the runs."""
    cells: list[str] = [
        notation.measured(pool, latency(work, size, what), units.milliseconds, total_shown=True)
        for what in LATENCIES
    ]
    found = [one for run in pool.runs if (one := timed(run, work, size)) is not None]
    calls = sorted({len(one.seconds) for one in found})
    if not calls:
        return [*cells, units.not_available(), counted(0, pool.tally).removeprefix("n=")]
    text = " to ".join(units.count(n) for n in dict.fromkeys((calls[0], calls[-1])))
    runs = counted(len(found), pool.tally).removeprefix("n=")
    return [*cells, Cell(text, Number(float(calls[0]), unit="calls")), runs]
