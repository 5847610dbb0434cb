"""Our figures as tables in the published shape. Pure: blocks in, tables out, then Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT
from bench.analysis.contrasts import SPEEDUPS, scaling, speedup
from bench.analysis.labels import axes_text, head, precision_label, rest_names, word_names
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
from bench.render.model import Cell, Number, Table
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool, Row, Tally
    from bench.analysis.metrics import Metric


def accuracy(block: Block, notation: Notation = DEFAULT) -> Table:
    """Best HR@k by ranks and precision, with the two baselines of the data set below."""
    digits = _digits(block)
    labels = [precision_label(block, precision) for precision in block.precisions]
    rows = [
        (
            *head(row),
            *(notation.measured(row.pools[p], BEST_HR, digits) for p in block.precisions),
        )
        for row in block.rows
    ]
    if block.condition is not None:
        data = block.condition.dataset
        blanks = [""] * len(rest_names(block))
        for name, value in (
            ("popularity", data.popularity_hr_at_k),
            ("chance", data.chance_hr_at_k),
        ):
            cell = Cell(units.show(value, digits), Number(value, unit="fraction"))
            rows.append((name, *blanks, *(cell for _ in labels)))
    return Table(("Ranks", *rest_names(block), *labels), tuple(rows), word_names(block))


def convergence(block: Block, notation: Notation = DEFAULT) -> Table:
    """Time to the best HR@k, its epoch, the final loss, and runs that reached their target."""
    columns: list[tuple[str, Metric, units.Formatter]] = [
        ("Time to best (s)", TIME_TO_BEST, units.seconds),
        ("Best epoch", EPOCHS_TO_BEST, lambda value: f"{value:.4g}"),
        ("Final loss", FINAL_LOSS, lambda value: f"{value:.4f}"),
    ]
    with_target = any(target(run) is not None for run in block.runs)
    headers = ("Ranks", *rest_names(block), "Precision", *(name for name, _, _ in columns))
    rows = []
    for row in block.rows:
        for precision, pool in _pools(block, row):
            cells: list[str] = [notation.measured(pool, one, form) for _, one, form in columns]
            if with_target:
                cells.append(_reached(pool))
            rows.append((*head(row), precision_label(block, precision), *cells))
    return Table(
        headers + (("Reached target",) if with_target else ()),
        tuple(rows),
        (*word_names(block), "Precision"),
    )


def throughput(block: Block, notation: Notation = DEFAULT) -> Table:
    """Samples/s by ranks and precision, speed-up of mixed precision, strong scaling."""
    form = rate_form(block, notation)
    pairs = [pair for pair in SPEEDUPS if set(pair) <= set(block.precisions)]
    labels = [precision_label(block, precision) for precision in block.precisions]
    rows = []
    for row in block.rows:
        cells: list[str] = [_batch_per_rank(row)]
        cells += [notation.measured(row.pools[p], THROUGHPUT, form) for p in block.precisions]
        for pair in pairs:
            cells.append(notation.ratio_cell(speedup(row, *pair, notation), _keys(row, pair)))
        cells += [_scaling_cell(block, row, p, notation) for p in block.precisions]
        rows.append((*head(row), *cells))
    headers = (
        "Ranks",
        *rest_names(block),
        "Batch per rank",
        *(f"{label} (samples/s)" for label in labels),
        *(f"Speed-up {mixed.upper()}/{full.upper()}" for mixed, full in pairs),
        *(f"Strong scaling {precision.upper()}" for precision in block.precisions),
    )
    return Table(headers, tuple(rows), word_names(block))


def peak_memory(block: Block, notation: Notation = DEFAULT) -> Table:
    """Peak memory of the rank that needed most, by ranks and precision."""
    labels = [precision_label(block, precision) for precision in block.precisions]
    rows = [
        (
            *head(row),
            *(notation.measured(row.pools[p], PEAK_MEMORY, units.size) for p in block.precisions),
        )
        for row in block.rows
    ]
    return Table(("Ranks", *rest_names(block), *labels), tuple(rows), word_names(block))


def incomplete(tallies: Sequence[Tally]) -> Table | None:
    """The cells that lack runs or saw a failure, with the reasons; None if there are none."""
    concerned = [tally for tally in tallies if tally.failed or not tally.complete]
    if not concerned:
        return None
    rows = []
    for tally in concerned:
        failed = Counter(attempt.status for attempt in tally.failed)
        last = tally.failed[-1].failure if tally.failed else None
        remark = tally.unavailable or (last.message if last else "")
        rows.append(
            (
                axes_text(tally.cell.axes),
                f"{len(tally.good)}/{len(tally.planned)}",
                ", ".join(f"{n} {status}" for status, n in sorted(failed.items())) or "0",
                "not available" if tally.unavailable else str(tally.not_run),
                remark if len(remark) <= 160 else remark[:157] + "...",
            )
        )
    headers = ("Cell", "Good runs", "Failed attempts", "Not run", "Last reason")
    return Table(headers, tuple(rows), ("Cell", "Failed attempts", "Last reason"))


def _scaling_cell(block: Block, row: Row, precision: str, notation: Notation) -> Cell:
    keys = _keys(row, (precision,))
    if row.ranks == 1:  # its own baseline: 1 by definition, without a spread
        known = not isinstance(row.pools[precision].summary(THROUGHPUT), Missing)
        reason = "not in the grid" if row.pools[precision].tally.outside else "no good run"
        text = units.ratio(1) if known else units.not_available(reason)
        return Cell(text, Number(1.0 if known else None, unit="ratio"), keys)
    base = block.baseline(row, precision)
    below = (base.tally.cell.key,) if base else ()
    found = scaling(block, row, precision, notation)
    cell = notation.ratio_cell(found, (*keys, *below))
    if isinstance(found, Missing):
        return cell
    return Cell(f"{cell}, {found.value / row.ranks:.0%}".replace("%", " %"), cell.number, cell.keys)


def _keys(row: Row, precisions: Sequence[str]) -> tuple[str, ...]:
    pools = (row.pools[p] for p in precisions if p in row.pools)
    return tuple(pool.tally.cell.key for pool in pools if not pool.tally.outside)


def _reached(pool: Pool) -> str:
    answers = [answer for answer in map(reached_target, pool.runs) if answer is not None]
    return f"{sum(answers)}/{len(answers)}" if answers else units.not_available()


def _batch_per_rank(row: Row) -> str:
    sizes = {run.global_batch for pool in row.pools.values() for run in pool.runs}
    if len(sizes) != 1:
        return units.not_available("differs" if sizes else "no good run")
    size = sizes.pop() / row.ranks
    return Cell(units.exact(size), Number(size, unit="samples"))


def rate_form(block: Block, notation: Notation = DEFAULT) -> units.Formatter:
    """How this table writes samples/s; one form for all its cells."""
    found = [pool.summary(THROUGHPUT) for pool in block.pools]
    return notation.rate_form([data.median for data in found if not isinstance(data, Missing)])


def _digits(block: Block) -> units.Formatter:
    users = block.condition.dataset.test_users if block.condition else 0
    digits = units.hit_rate_digits(users)
    return lambda value: units.hit_rate(value, digits)


def _pools(block: Block, row: Row) -> list[tuple[str, Pool]]:
    found = ((precision, row.pools[precision]) for precision in block.precisions)
    return [(precision, pool) for precision, pool in found if not pool.tally.outside]
