"""Inference as tables in the published shape: throughput, latency, ranking. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT
from bench.analysis.labels import sample
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
from bench.render.model import Column, Estimate, build
from bench.report import verdicts
from bench.report.columns import cell_columns, precision_columns, row_columns, speedup_columns
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool, Row
    from bench.analysis.metrics import Metric
    from bench.render.model import Item, Table
    from bench.report.columns import CellLine, PairLine
    from bench.report.verdicts import ArmPair
    from bench.suite.model import Contrast
    from ncf.record import Latencies

NAMES = tuple(f"{what if what[0] == 'p' else what.capitalize()} (ms)" for what in LATENCIES)


def throughput(block: Block, notation: Notation = DEFAULT) -> Table:
    """Samples/s by batch size and precision, and the speed-up of mixed precision."""
    form = rate_form(block, lambda size: scores_rate(PAIRS, size), PAIRS, notation)
    columns: list[list[Column[Row]]] = [
        [
            *row_columns(block),
            _batch_column(size),
            *precision_columns(block, scores_rate(PAIRS, size), form, notation, "{} (samples/s)"),
            *speedup_columns(block, notation, scores_rate(PAIRS, size)),
        ]
        for size in batches(block.runs, PAIRS)
    ]
    tables = [build(block.rows, some) for some in columns]
    rows = [table.rows[index] for index in range(len(block.rows)) for table in tables]
    return replace(tables[0], rows=tuple(rows))


def latencies(block: Block, notation: Notation = DEFAULT) -> Table:
    """Latency of a call by precision and batch size: mean, percentiles, longest."""
    columns = [
        *_places(block),
        Column("Batch", lambda line: batch_item(line[3])),
        *_latency_columns(PAIRS, notation),
    ]
    return build(_lines(block, PAIRS), columns)


def ranking(block: Block, notation: Notation = DEFAULT) -> Table:
    """The top k of the whole catalogue: users/s, scores/s and latency by block of users."""
    users = rate_form(block, users_rate, RANKING, notation)
    scores = rate_form(block, lambda size: scores_rate(RANKING, size), RANKING, notation)

    def scored(line: PairLine) -> Item:
        return notation.measured(line[2], scores_rate(RANKING, line[3]), scores)

    columns: list[Column[PairLine]] = [
        *_places(block),
        Column("Users", lambda line: batch_item(line[3], "users")),
        Column("Users/s", lambda line: notation.measured(line[2], users_rate(line[3]), users)),
        Column("Scores/s", scored),
        *_latency_columns(RANKING, notation),
    ]
    return build(_lines(block, RANKING), columns)


def compared(block: Block, notation: Notation, contrast: Contrast, work: str) -> Table:
    """Scores/s over those of a reference, a line per batch size, of which there is at least one."""
    pairs, sizes = verdicts.pairs(block, contrast), batches(block.runs, work)
    form = rate_form(block, lambda size: scores_rate(work, size), work, notation)
    batch, rate = ("Batch", "Samples/s") if work == PAIRS else ("Users", "Scores/s")
    titles = (rate, f"Reference ({rate[0].lower()}{rate[1:]})", "Throughput ratio")

    def sized(size: int) -> list[Column[ArmPair]]:
        metric = scores_rate(work, size)
        return [
            *verdicts.place_columns(block, contrast, lambda line: line.group),
            verdicts.compared_column(block, contrast),
            Column(batch, lambda _: batch_item(size)),
            *verdicts.compared_columns(contrast, metric, form, notation, titles),
        ]

    tables = [build(pairs, sized(size)) for size in sizes]
    rows = [table.rows[index] for index in range(len(pairs)) for table in tables]
    return replace(tables[0], rows=tuple(rows))


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


def batch_item(size: int, unit: str = "samples") -> Estimate:
    """A batch size."""
    return Estimate(float(size), units.count, unit=unit)


def _batch_column(size: int) -> Column[Row]:
    return Column("Batch", lambda _: batch_item(size))


def _places(block: Block) -> list[Column[PairLine]]:
    def of(column: Column[CellLine]) -> Column[PairLine]:
        return Column(column.title, lambda line: column.value(line[:3]), column.words)

    return [of(column) for column in cell_columns(block)]


def _lines(block: Block, work: str) -> list[PairLine]:
    sizes = batches(block.runs, work)
    return [
        (row, precision, pool, size) for row, precision, pool in block.cells() for size in sizes
    ]


def _latency_columns(work: str, notation: Notation) -> list[Column[PairLine]]:
    """Latencies, then the timed calls of a run, then the runs."""

    def of(title: str, what: str) -> Column[PairLine]:
        return Column(title, lambda line: latency_item(line[2], work, line[3], what, notation))

    return [
        *(of(title, what) for title, what in zip(NAMES, LATENCIES, strict=True)),
        Column("Calls", lambda line: _calls(line[2], work, line[3])),
        Column("Runs", lambda line: sample(len(_timed(line[2], work, line[3])), line[2].tally)),
    ]


def latency_item(pool: Pool, work: str, size: int, what: str, notation: Notation) -> Estimate:
    """A latency of a call, in ms; the number of runs has a column of its own."""
    return notation.measured(pool, latency(work, size, what), units.milliseconds, total_shown=True)


def _timed(pool: Pool, work: str, size: int) -> list[Latencies]:
    return [calls for run in pool.runs if (calls := timed(run, work, size)) is not None]


def _calls(pool: Pool, work: str, size: int) -> Item:
    calls = [len(one.seconds) for one in _timed(pool, work, size)]
    if not calls:
        return units.not_available()
    fewest, most = float(min(calls)), float(max(calls))
    if fewest == most:
        return Estimate(fewest, units.count, unit="calls")
    return Estimate(fewest, units.count, low=fewest, high=most, spread="ends", unit="calls")
