"""Our inference beside the published one: one GPU, random pairs, the model of ml-20m. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench import units
from bench.cells import Cell, Number
from bench.inference import batch_cell, known, rate_form
from bench.inference_measures import PAIRS, batches, latency, scores_rate
from bench.labels import plain, precision_label, rest_names, word_names
from bench.notation import DEFAULT
from bench.published import distinct, lookup, matches, select
from bench.published_tables import milliseconds
from bench.side_by_side import (
    PUBLISHED_ITEMS,
    PUBLISHED_MODEL,
    PUBLISHED_USERS,
    gpus_text,
    listed,
    rates,
)
from bench.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.grid import Block, Pool, Row
    from bench.notation import Notation
    from bench.published import Figure

SECTIONS = ("inference-throughput", "inference-latency")
SHOWN = (("mean", "Mean"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"))


def of_inference(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """The published figures of inference."""
    return tuple(figure for figure in figures if figure.section in SECTIONS)


def differences(block: Block, system: str, figures: Sequence[Figure]) -> list[str]:
    """What keeps a block's inference from standing beside a published system; empty if nothing.

    Compared are the GPU that one rank used (model, memory), the sizes of tables and layers, and
    whether the source states its batch sizes. The data themselves do not matter: pairs are random.
    """
    if block.condition is None or not known(block, PAIRS):
        return ["no good run"]
    machine, data = block.condition.machine, block.condition.dataset
    found = []
    one = [{"name": name, "memory_bytes": size} for name, size in machine.gpus[:1]]
    if not matches(re.sub(r"\d+x ", "1x ", system), one):
        found.append(f"another device ({gpus_text(machine)})")
    if (data.users, data.items) != (PUBLISHED_USERS, PUBLISHED_ITEMS):
        found.append(
            f"other tables ({units.count(data.users)} users, {units.count(data.items)} items)"
        )
    sizes = ("factors", "layers")
    ours = [{name: listed(run.config.get(name)) for name in sizes} for run in block.runs]
    if any(model != {name: PUBLISHED_MODEL[name] for name in sizes} for model in ours):
        found.append("another model size")
    if not any(figure.batch_per_gpu for figure in figures):
        found.append("the source does not state its batch size")
    return found


def side_by_side(block: Block, figures: Sequence[Figure], notation: Notation = DEFAULT) -> Table:
    """Ours, theirs, and the ratio, by precision and batch size.

    Args:
        block: runs that have no `differences` from the system.
        figures: the inference figures of one source and one system.
        notation: how our runs become one number.
    """
    form = rate_form(block, lambda size: scores_rate(PAIRS, size), PAIRS, notation)
    rows: list[tuple[str, ...]] = []
    own = [row for row in block.rows if row.ranks == 1]
    for row in own:
        for precision in block.precisions:
            pool = row.pools[precision]
            theirs = _batches(figures, precision)
            for size in sorted({*theirs, *batches(block.runs, PAIRS)}):
                if pool.tally.outside and size not in theirs:
                    continue
                place = (*_rest(row), precision_label(block, precision))
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


def _rest(row: Row) -> tuple[str, ...]:
    return tuple(plain(value) for _, value in row.rest)


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
) -> tuple[str, ...]:
    """Batch, the three cells of throughput, and two for each latency."""
    rate = lookup(figures, "inference_throughput", 1, precision, size)
    absent = units.not_available("not in the suite")
    if pool is None:
        theirs = units.DASH
        if rate is not None:
            theirs = Cell(form(rate.value), Number(rate.value, unit=rate.unit))
        cells: list[str] = [absent, theirs, units.DASH]
    else:
        cells = list(rates(pool, rate, form, scores_rate(PAIRS, size), notation))
    for what, _ in SHOWN:
        measure = latency(PAIRS, size, what)
        cells.append(
            absent
            if pool is None
            else notation.measured(pool, measure, units.milliseconds, total_shown=True)
        )
        cells.append(milliseconds(lookup(figures, f"latency_{what}", 1, precision, size)))
    return (batch_cell(size), *cells)
