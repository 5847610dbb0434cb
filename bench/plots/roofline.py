"""The picture of the roofline: FLOP/s over arithmetic intensity, both on logarithmic axes.

Pure apart from matplotlib.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench.analysis.labels import precision_label, ranks_text
from bench.analysis.metrics import (
    ACHIEVED_FLOPS,
    COPY_PEAK,
    INTENSITY,
    MATMUL_PEAK,
    SHARE_OF_LIMIT,
)
from bench.plots.places import Cell, cells
from bench.plots.style import (
    GREY,
    estimate,
    legend_entry,
    logarithmic,
    look,
    plot_estimates,
    write_label,
)
from bench.render import units
from bench.stats.summary import Missing, Summary, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Block
    from bench.plots.places import Subject


Point = tuple[Cell, float, Summary]
"""A cell, its arithmetic intensity and its FLOP/s."""


def roofline(subject: Subject) -> Figure:
    """A panel per number of ranks: the two roofs of every precision, and a point per cell."""
    block = subject.block
    points = _points(block)
    ranks = sorted({cell.ranks for cell, _, _ in points})
    roofs = {(r, p): roof for r in ranks for p in block.precisions if (roof := _roof(block, r, p))}
    legend = [
        legend_entry(
            f"roof {precision_label(block, p)}", color=look(p).color, ls=look(p).line, lw=1.8
        )
        for p in block.precisions
        if any(precision == p for _, precision in roofs)
    ]
    for cell, _, achieved in points:
        share = cell.pool.summary(SHARE_OF_LIMIT)
        reached = "" if isinstance(share, Missing) else f": {units.percent(share.median)}"
        label = f"{cell.name}{reached} (n={achieved.n})"
        legend.append(legend_entry(label, ms=7, **{**cell.style, "ls": ""}))
    note = (
        "Level roof: measured matmul peak; sloping roof: measured copy bandwidth; medians over "
        "runs. Point: median over runs, bar: 95 % interval from 6 runs on, else all runs. All of "
        "one rank. Per cent: of the limit above the point."
    )
    panel = (6.4 if len(ranks) == 1 else 4.6, 4.0)
    figure, axes = subject.figure("roofline of training", note, legend, panel, len(ranks))
    limits = _limits(points, list(roofs.values()))
    for ax, count in zip(axes, ranks, strict=True):
        labelled: list[float] = []
        for (of, precision), roof in roofs.items():
            if of == count:
                _draw_roof(ax, roof, precision, limits[0], labelled)
        for cell, intensity, achieved in points:
            if cell.ranks == count:
                style = {**cell.style, "ls": "-", "ms": 8, "lw": 1.4, "capsize": 3, "zorder": 4}
                plot_estimates(ax, [(intensity, estimate(achieved))], **style)
        logarithmic(ax, *limits)
        if len(ranks) > 1:
            row = next(row for row in block.rows if row.ranks == count)
            ax.set_title(ranks_text(row), loc="left")
        ax.set_xlabel("arithmetic intensity (FLOP / byte)")
    axes[0].set_ylabel("FLOP/s")
    return figure


def _points(block: Block) -> list[Point]:
    estimates = (
        (cell, cell.pool.summary(INTENSITY), cell.pool.summary(ACHIEVED_FLOPS))
        for cell in cells(block)
    )
    return [
        (cell, intensity.median, achieved)
        for cell, intensity, achieved in estimates
        if not isinstance(intensity, Missing) and not isinstance(achieved, Missing)
    ]


def _roof(block: Block, ranks: int, precision: str) -> tuple[float, float] | None:
    """Medians of matmul and copy peak over all runs of a precision; None without any."""
    pools = [row.pools[precision] for row in block.rows if row.ranks == ranks]
    matmul = [value for pool in pools for value in pool.values(MATMUL_PEAK)]
    copy = [value for pool in pools for value in pool.values(COPY_PEAK)]
    return (summarize(matmul).median, summarize(copy).median) if matmul and copy else None


Limits = tuple[tuple[float, float], tuple[float, float]]


def _limits(points: Sequence[Point], roofs: Sequence[tuple[float, float]]) -> Limits:
    """Both ends of both axes: every point, and the ridge of every roof."""
    xs = [intensity for _, intensity, _ in points] + [matmul / copy for matmul, copy in roofs]
    ys = [y for _, _, data in points for y in (data.min, data.max)] + [m for m, _ in roofs]
    return (min(xs) / 4, max(xs) * 4), (min(ys) / 4, max(ys) * 2.5)


def _draw_roof(
    ax: Axes,
    roof: tuple[float, float],
    precision: str,
    x_limits: tuple[float, float],
    labelled: list[float],
) -> None:
    matmul, copy = roof
    style = look(precision)
    xs = [x_limits[0], matmul / copy, x_limits[1]]
    ys = [min(matmul, x * copy) for x in xs]
    ax.plot(xs, ys, color=style.color, ls=style.line, lw=1.8, zorder=2)
    if any(abs(math.log(matmul / y)) < 0.25 for y in labelled):
        return  # two labels on one roof would cover each other
    labelled.append(matmul)
    text = f"{units.compact(matmul)}FLOP/s"
    write_label(ax, text, (x_limits[1], matmul), (-4, 4), ha="right", color=GREY)
