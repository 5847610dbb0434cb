"""The histogram of best HR@k over runs: precisions, or the levels of any axis, above each other.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from bench.analysis import contrasts
from bench.analysis.labels import counted, precision_label, ranks_text
from bench.analysis.metrics import BEST_HR
from bench.plots.style import BAND, GREY, INK, Frame, Look, framed, level_look, look
from bench.render import units
from bench.stats.summary import Missing, common_bins, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Block, Pool
    from bench.suite.model import Contrast


@dataclass(frozen=True)
class Panel:
    """The runs of one cell; None for a place without a cell."""

    name: str
    pool: Pool | None
    look: Look


Column = tuple[Panel, ...]
"""Panels from top to bottom; the first is the reference."""


def histogram(block: Block, title: str, where: str, margin: float | None = None) -> Figure:
    """Best HR@k of every run: precisions from top to bottom, ranks from left to right.

    With a margin, a band around the mean of full precision shows where the others must lie.
    """
    columns = [
        tuple(
            Panel(f"{precision_label(block, p)}, {ranks_text(row)}", row.pools[p], look(p))
            for p in block.precisions
        )
        for row in block.rows
    ]
    return _draw(block, columns, title, where, margin, block.precisions[0].upper())


def levels(
    block: Block, contrast: Contrast, title: str, where: str, margin: float | None
) -> Figure:
    """Best HR@k of every run: the reference above what is compared with it, a column each place."""
    found = contrasts.groups(block, contrast)
    names = list(
        dict.fromkeys(
            contrasts.level(block, contrast, arm) for group in found for arm in group.arms
        )
    )
    columns = []
    for group in found:
        pools = {contrasts.level(block, contrast, arm): arm.pool for arm in group.arms}
        place = "".join(f", {word}" for word in contrasts.words(block, group))
        columns.append(
            tuple(
                Panel(f"{name}{place}", pools.get(name), level_look(index))
                for index, name in enumerate(names)
            )
        )
    return _draw(block, columns, title, where, margin, names[0])


def _draw(
    block: Block,
    columns: Sequence[Column],
    title: str,
    where: str,
    margin: float | None,
    reference: str,
) -> Figure:
    assert block.condition is not None
    data, k = block.condition.dataset, block.condition.topk
    digits = max(4, units.hit_rate_digits(data.test_users))
    values = [v for column in columns for p in column if p.pool for v in p.pool.values(BEST_HR)]
    edges = common_bins(values, 1 / data.test_users)
    notes = f"Dashed line: mean. All panels share bins of {edges[1] - edges[0]:.2g} HR@{k}."
    bands = _margin_bands(columns, margin)
    if bands:
        notes += f" Band: mean of {reference} ± {margin:.3g}, the margin of equivalence."
    frame = Frame(f"{title}: best HR@{k} of every run", (where, notes))
    # Air on both sides; a single bin does not fill the panel.
    pad = (edges[1] - edges[0]) * max(0.5, (8 - len(edges)) / 2)
    low = min([edges[0] - pad, *(band[0] - pad for band in bands.values())])
    high = max([edges[-1] + pad, *(band[1] + pad for band in bands.values())])
    shape = (max(map(len, columns)), len(columns))
    width = 4.0 if shape[1] <= 3 else 3.2
    figure, axes = framed(*shape, (width, 2.2), frame, [])
    tallest = 1
    for j, column in enumerate(columns):
        for i, panel in enumerate(column):
            ax = axes[i][j]
            if panel.pool is None:
                ax.set_visible(False)
                continue
            heights = _panel(ax, panel, edges, (low, high), digits, width)
            tallest = max(tallest, heights)
            if j in bands:
                ax.axvspan(*bands[j], color=BAND, lw=0, zorder=0)
            ax.set_xlim(low, high)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.yaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
            if i == shape[0] - 1:
                ax.set_xlabel(f"best HR@{k}")
            if j == 0:
                ax.set_ylabel("runs")
    for ax in (ax for line in axes for ax in line):
        ax.set_ylim(0, tallest * 1.08)
    return figure


def _panel(
    ax: Axes,
    panel: Panel,
    edges: Sequence[float],
    limits: tuple[float, float],
    digits: int,
    width: float,
) -> int:
    """Draw the runs of one cell; returns the height of its tallest bar."""
    assert panel.pool is not None
    found = panel.pool.values(BEST_HR)
    name = f"{panel.name}  ({counted(len(found), panel.pool.tally)})"
    ax.set_title("\n".join(textwrap.wrap(name, int(width * 13))), loc="left", pad=16)
    if not found:
        why = "never evaluated" if panel.pool.runs else "no good run"
        why = "not in the grid" if panel.pool.tally.outside else why
        ax.text(0.5, 0.5, why, ha="center", transform=ax.transAxes, color=GREY)
        return 0
    heights, _, _ = ax.hist(
        found, edges, color=panel.look.color, edgecolor="white", lw=0.6, hatch=panel.look.hatch
    )
    _mark_mean(ax, found, limits, digits)
    return int(max(heights))


def _margin_bands(
    columns: Sequence[Column], margin: float | None
) -> dict[int, tuple[float, float]]:
    """Per column, the mean of the reference ± margin; none where nothing is compared with it."""
    bands: dict[int, tuple[float, float]] = {}
    for index, column in enumerate(columns):
        if margin is None or len(column) < 2 or column[0].pool is None:
            continue
        data = column[0].pool.summary(BEST_HR)
        if not isinstance(data, Missing):
            bands[index] = (data.mean - margin, data.mean + margin)
    return bands


def _mark_mean(ax: Axes, values: Sequence[float], limits: tuple[float, float], digits: int) -> None:
    """The mean as a line, its number above the panel where no bar can hide it."""
    data = summarize(values)
    spread = "SD n/a" if data.sd is None else f"SD {units.significant(data.sd, 2)}"
    ax.axvline(data.mean, color=INK, lw=1.3, ls=(0, (4, 2)))
    place = (data.mean - limits[0]) / (limits[1] - limits[0])
    side = "left" if place < 0.25 else "right" if place > 0.75 else "center"
    ax.annotate(
        f"mean {data.mean:.{digits}f}, {spread}",
        (data.mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha=side,
        fontsize=8.5,
    )
