"""Our inference beside the published one: one GPU, random pairs, the model of ml-20m. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT
from bench.analysis.labels import head, precision_label, rest_names, word_names
from bench.analysis.metrics import PAIRS, batches, scores_rate
from bench.published.figures import distinct, lookup, select
from bench.published.tables import milliseconds, printed
from bench.render import units
from bench.render.model import Table
from bench.report.inference import batch_item, latency_item, rate_form
from bench.report.published import rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.published.figures import Figure
    from bench.render.model import Item

SHOWN = (("mean", "Mean"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"))


def side_by_side(block: Block, figures: Sequence[Figure], notation: Notation = DEFAULT) -> Table:
    """Ours, theirs, and the ratio, by precision and batch size.

    Args:
        block: runs that have no `inference_differences` from the system.
        figures: the inference figures of one source and one system.
        notation: how our runs become one number.
    """
    form = rate_form(block, lambda size: scores_rate(PAIRS, size), PAIRS, notation)
    rows: list[tuple[Item, ...]] = []
    own = [row for row in block.rows if row.ranks == 1]
    for row in own:
        for precision in block.precisions:
            pool = row.pools[precision]
            theirs = _batches(figures, precision)
            for size in sorted({*theirs, *batches(block.runs, PAIRS)}):
                if pool.tally.outside and size not in theirs:
                    continue
                place = (*head(row)[1:], precision_label(block, precision))
                rows.append((*place, *_line(pool, size, figures, precision, form, notation)))
    for precision in distinct(figures, "precision"):
        for size in _batches(figures, precision) if precision not in block.precisions else ():
            blanks = ("",) * len(rest_names(block))
            cells = _line(None, size, figures, precision, form, notation)
            rows.append((*blanks, precision.upper(), *cells))
    headers = (*rest_names(block), "Precision", "Batch", "Samples/s ours", "Samples/s published")
    headers += ("Ours / published",)
    for _, name in SHOWN:
        headers += (f"{name} (ms) ours", f"{name} (ms) published")
    return Table(headers, tuple(rows), (*word_names(block), "Precision"))


def _batches(figures: Sequence[Figure], precision: str) -> list[int]:
    return [
        size for size in distinct(select(figures, precision=precision), "batch_per_gpu") if size
    ]


def _line(
    pool: Pool | None,
    size: int,
    figures: Sequence[Figure],
    precision: str,
    form: units.Formatter,
    notation: Notation,
) -> tuple[Item, ...]:
    """Batch, the three items of throughput, and two for each latency."""
    rate = lookup(figures, "inference_throughput", 1, precision, size)
    absent = units.not_available("not in the suite")
    items: list[Item] = [batch_item(size)]
    if pool is None:
        items += [absent, printed(rate, form), units.DASH]
    else:
        items += rates(pool, rate, form, scores_rate(PAIRS, size), notation)
    for what, _ in SHOWN:
        items.append(absent if pool is None else latency_item(pool, PAIRS, size, what, notation))
        items.append(milliseconds(lookup(figures, f"latency_{what}", 1, precision, size)))
    return tuple(items)
