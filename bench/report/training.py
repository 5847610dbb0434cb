"""Our training figures as tables in the published shape. Pure: blocks in, tables out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT
from bench.analysis.contrasts import scaling
from bench.analysis.labels import axes_text
from bench.analysis.metrics import (
    BEST_HR,
    EPOCHS_TO_BEST,
    FINAL_LOSS,
    PEAK_MEMORY,
    THROUGHPUT,
    TIME_TO_BEST,
    reached_target,
    target,
)
from bench.render import units
from bench.render.model import Column, Estimate, Several, build
from bench.report.columns import (
    cell_columns,
    cell_keys,
    hit_rate_form,
    precision_columns,
    rate_form,
    row_columns,
    speedup_columns,
)
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool, Row, Tally
    from bench.analysis.metrics import Metric
    from bench.render.model import Item, Table
    from bench.report.columns import CellLine

CONVERGENCE: tuple[tuple[str, Metric, units.Formatter], ...] = (
    ("Time to best (s)", TIME_TO_BEST, units.seconds),
    ("Best epoch", EPOCHS_TO_BEST, "{:.4g}".format),
    ("Final loss", FINAL_LOSS, "{:.4f}".format),
)


def accuracy(block: Block, notation: Notation = DEFAULT) -> Table:
    """Best HR@k by ranks and precision, with the two baselines of the data set below."""
    form, places = hit_rate_form(block), row_columns(block)
    columns = [*places, *precision_columns(block, BEST_HR, form, notation)]
    table = build(block.rows, columns)
    if block.condition is None:
        return table
    data, blanks = block.condition.dataset, [""] * (len(places) - 1)
    baselines: list[tuple[Item, ...]] = [
        (name, *blanks, *[Estimate(rate, form, unit="fraction")] * len(block.precisions))
        for name, rate in (
            ("popularity", data.popularity_hr_at_k),
            ("chance", data.chance_hr_at_k),
        )
    ]
    return replace(table, rows=(*table.rows, *baselines))


def convergence(block: Block, notation: Notation = DEFAULT) -> Table:
    """Time to the best HR@k, its epoch, the final loss, and runs that reached their target."""

    def of(title: str, metric: Metric, form: units.Formatter) -> Column[CellLine]:
        return Column(title, lambda line: notation.measured(line[2], metric, form))

    columns = [*cell_columns(block), *(of(*column) for column in CONVERGENCE)]
    if any(target(run) is not None for run in block.runs):
        columns.append(Column("Reached target", lambda line: _reached(line[2])))
    return build(block.cells(), columns)


def throughput(block: Block, notation: Notation = DEFAULT) -> Table:
    """Samples/s by ranks and precision, speed-up of mixed precision, strong scaling."""

    def scaled(precision: str) -> Column[Row]:
        return Column(
            f"Strong scaling {precision.upper()}",
            lambda row: _scaling(block, row, precision, notation),
        )

    return build(
        block.rows,
        [
            *row_columns(block),
            Column("Batch per rank", _batch_per_rank),
            *precision_columns(
                block, THROUGHPUT, rate_form(block, notation), notation, "{} (samples/s)"
            ),
            *speedup_columns(block, notation),
            *map(scaled, block.precisions),
        ],
    )


def peak_memory(block: Block, notation: Notation = DEFAULT) -> Table:
    """Peak memory of the rank that needed most, by ranks and precision."""
    figures = precision_columns(block, PEAK_MEMORY, units.size, notation)
    return build(block.rows, [*row_columns(block), *figures])


def incomplete(tallies: Sequence[Tally]) -> Table | None:
    """The cells that lack runs or saw a failure, with the reasons; None if there are none."""
    concerned = [tally for tally in tallies if tally.failed or not tally.complete]
    columns: list[Column[Tally]] = [
        Column("Cell", lambda tally: axes_text(tally.cell.axes), words=True),
        Column("Good runs", lambda t: Several((len(t.good), len(t.planned)), joint="/")),
        Column("Failed attempts", _failed, words=True),
        Column("Not run", lambda t: "not available" if t.unavailable else t.not_run),
        Column("Last reason", _last_reason, words=True),
    ]
    return build(concerned, columns) if concerned else None


def _failed(tally: Tally) -> str:
    failed = Counter(attempt.status for attempt in tally.failed)
    return ", ".join(f"{n} {status}" for status, n in sorted(failed.items())) or "0"


def _last_reason(tally: Tally) -> str:
    failure = tally.failed[-1].failure if tally.failed else None
    reason = tally.unavailable or (failure.message if failure else "")
    return reason if len(reason) <= 160 else reason[:157] + "..."


def _scaling(block: Block, row: Row, precision: str, notation: Notation) -> Estimate:
    keys = cell_keys(row, (precision,))
    if row.ranks == 1:  # its own baseline: 1 by definition, without a spread
        measured = not isinstance(row.pools[precision].summary(THROUGHPUT), Missing)
        reason = "not in the grid" if row.pools[precision].tally.outside else "no good run"
        value = 1.0 if measured else None
        return Estimate(value, units.ratio, reason, unit="ratio", sources=keys)
    base = block.baseline(row, precision)
    below = (base.tally.cell.key,) if base else ()
    ratio = scaling(block, row, precision, notation)
    return notation.ratio_estimate(ratio, (*keys, *below), ranks=row.ranks)


def _reached(pool: Pool) -> Item:
    answers = [answer for answer in map(reached_target, pool.runs) if answer is not None]
    return Several((sum(answers), len(answers)), joint="/") if answers else units.not_available()


def _batch_per_rank(row: Row) -> Item:
    sizes = {run.global_batch for pool in row.pools.values() for run in pool.runs}
    if len(sizes) != 1:
        return units.not_available("differs" if sizes else "no good run")
    return Estimate(sizes.pop() / row.ranks, units.exact, unit="samples")
