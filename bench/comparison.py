"""Speed and memory of cells over those of a reference, for any axis. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import contrast as contrasts
from bench import units
from bench.labels import word_names
from bench.measures import PEAK_MEMORY, THROUGHPUT
from bench.notation import DEFAULT
from bench.stats import Missing
from bench.tables import Table, rate_form

if TYPE_CHECKING:
    from bench.cells import Cell
    from bench.contrast import Arm
    from bench.grid import Block
    from bench.measures import Measure
    from bench.notation import Notation
    from bench.stats import Ratio
    from bench.suite_report import Contrast


def table(block: Block, contrast: Contrast, notation: Notation = DEFAULT) -> Table | None:
    """A line per compared cell: samples/s and peak memory of both sides, tested over reference.

    None where no cell of the block has a reference beside it.
    """
    found = contrasts.groups(block, contrast)
    if not found:
        return None
    form = rate_form(block, notation)
    rows = []
    for group in found:
        below = group.reference
        for above in group.tested:
            names = (contrasts.level(block, contrast, arm) for arm in (above, below))
            cells: list[str] = [*contrasts.place(block, group), " / ".join(names)]
            for measure, write in ((THROUGHPUT, form), (PEAK_MEMORY, units.size)):
                cells += [notation.measured(arm.pool, measure, write) for arm in (above, below)]
                cells.append(_ratio_cell(above, below, measure, contrast, notation))
            rows.append(tuple(cells))
    headers = (*contrasts.headers(found), "Compared", "Samples/s", "Reference (samples/s)")
    headers += ("Throughput ratio", "Peak memory", "Reference memory", "Memory ratio")
    return Table(headers, tuple(rows), (*word_names(block), "Precision", "Compared"))


def ratio(
    above: Arm, below: Arm, measure: Measure, contrast: Contrast, notation: Notation = DEFAULT
) -> Ratio | Missing:
    """Tested over reference; only at the same global batch, unless that is what is compared."""
    tested, reference = above.pool.summary(measure), below.pool.summary(measure)
    if isinstance(reference, Missing):
        return Missing(f"reference: {reference.reason}")
    if isinstance(tested, Missing):
        return tested
    batches = {run.global_batch for arm in (above, below) for run in arm.pool.runs}
    if len(batches) > 1 and "batch_size" not in contrast.axes:
        return Missing("global batch differs")
    return notation.ratio(tested, reference, measure)


def _ratio_cell(
    above: Arm, below: Arm, measure: Measure, contrast: Contrast, notation: Notation
) -> Cell:
    return notation.ratio_cell(
        ratio(above, below, measure, contrast, notation), (above.key, below.key)
    )
