"""Speed and memory of cells over those of a reference, for any axis. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis import contrasts
from bench.analysis.aggregate import DEFAULT
from bench.analysis.contrasts import arm_ratio
from bench.analysis.labels import word_names
from bench.analysis.metrics import PEAK_MEMORY, THROUGHPUT
from bench.render import units
from bench.render.model import Table
from bench.report.training import rate_form

if TYPE_CHECKING:
    from bench.analysis.aggregate import Notation
    from bench.analysis.contrasts import Arm
    from bench.analysis.grid import Block
    from bench.analysis.metrics import Metric
    from bench.render.model import Cell
    from bench.suite.model import Contrast


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


def _ratio_cell(
    above: Arm, below: Arm, measure: Metric, contrast: Contrast, notation: Notation
) -> Cell:
    return notation.ratio_cell(
        arm_ratio(above, below, measure, contrast, notation), (above.key, below.key)
    )
