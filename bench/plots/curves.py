"""The picture of accuracy over epochs: validation curves.

Pure apart from matplotlib.
"""

from __future__ import annotations

import statistics
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bench.analysis import contrasts
from bench.analysis.labels import counted, precision_label, ranks_text, sizes_text
from bench.analysis.metrics import evaluated, target
from bench.plots.style import GREY, INK, Frame, Look, framed, level_look, look
from bench.render import units
from bench.stats.summary import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Block, Pool
    from bench.suite.model import Contrast

QUARTILES_FROM = 4
"""Runs from which the band shows quartiles; with fewer it shows all of them."""


@dataclass(frozen=True)
class Curve:
    """The runs of one cell, its name in the legend and its look."""

    name: str
    pool: Pool
    look: Look


Panel = tuple[str, tuple[Curve, ...]]
"""A title, and what is drawn below it."""


def curves(block: Block, title: str, where: str) -> Figure:
    """HR@k by epoch, a panel per number of ranks, with popularity and target."""
    panels: list[Panel] = [
        (
            f"{ranks_text(row)}  ({sizes_text(block, row)})",
            tuple(
                Curve(precision_label(block, p), row.pools[p], look(p)) for p in block.precisions
            ),
        )
        for row in block.rows
    ]
    return _draw(block, panels, title, where)


def arms(block: Block, contrast: Contrast, title: str, where: str) -> Figure:
    """The same for what a suite compares: a curve per arm, a panel for each place of the grid."""
    found = contrasts.groups(block, contrast)
    names = list(
        dict.fromkeys(contrasts.level(block, contrast, arm) for one in found for arm in one.arms)
    )
    panels: list[Panel] = []
    for group in found:
        pools = {contrasts.level(block, contrast, arm): arm.pool for arm in group.arms}
        sizes = [counted(len(arm.pool.runs), arm.pool.tally) for arm in group.arms]
        size = sizes[0] if len(set(sizes)) == 1 else "; ".join(sizes)
        place = ", ".join(contrasts.words(block, group))
        drawn = [
            Curve(name, pools[name], level_look(index))
            for index, name in enumerate(names)
            if name in pools
        ]
        panels.append(("\n".join(textwrap.wrap(f"{place}  ({size})", 48)), tuple(drawn)))
    return _draw(block, panels, title, where)


def _draw(block: Block, panels: Sequence[Panel], title: str, where: str) -> Figure:
    assert block.condition is not None
    data, k = block.condition.dataset, block.condition.topk
    pools = [curve.pool for _, drawn in panels for curve in drawn]
    runs = [run for pool in pools for run in pool.runs]
    handles = {curve.name: _line_handle(curve) for _, drawn in panels for curve in drawn}
    legend: list[Any] = list(handles.values())
    legend.append(
        Line2D(
            [],
            [],
            color=GREY,
            lw=1.2,
            ls=(0, (1, 1.5)),
            label=_named("popularity", data.popularity_hr_at_k),
        )
    )
    points = [hr for run in runs for _, hr in evaluated(run)]
    low, high = min([*points, data.popularity_hr_at_k]), max([*points, data.popularity_hr_at_k])
    goals = sorted({goal for run in runs if (goal := target(run)) is not None})
    # A target far above every curve would press them flat: then it is only named.
    near = [goal for goal in goals if goal <= high + 0.5 * (high - low)]
    legend += [
        Line2D([], [], color=INK, lw=1.2, ls=(0, (6, 2)), label=_named("target", goal))
        for goal in near
    ]
    notes = ["Line: median over seeds. Band: quartiles from 4 runs on, else smallest to largest."]
    if any(len({len(run.epochs) for run in pool.runs}) > 1 for pool in pools):
        notes.append("Dotted: only the runs that were still training.")
    notes += [
        f"Target {units.hit_rate(goal)} lies above the picture."
        for goal in goals
        if goal not in near
    ]
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    lines = -(-len(panels) // columns)
    frame = Frame(f"{title}: HR@{k} after each epoch", (where, " ".join(notes)))
    figure, axes = framed(lines, columns, (4.0, 3.1), frame, legend)
    for index in range(lines * columns):
        ax = axes[index // columns][index % columns]
        if index >= len(panels):
            ax.set_visible(False)
            continue
        name, drawn = panels[index]
        ax.set_title(name, loc="left")
        ax.axhline(data.popularity_hr_at_k, color=GREY, lw=1.2, ls=(0, (1, 1.5)), zorder=1)
        for goal in near:
            ax.axhline(goal, color=INK, lw=1.2, ls=(0, (6, 2)), zorder=1)
        for position, curve in enumerate(drawn):
            _curve(ax, curve, position / len(drawn))
        last = max((run.epochs[-1].epoch for run in runs if run.epochs), default=1)
        ax.set_xlim(max(0.5, 1 - 0.04 * last), 1.04 * last)
        margin = 0.05 * (high - low) or 0.01
        ax.set_ylim(low - margin, max([high, *near]) + margin)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlabel("epoch")
        ax.set_ylabel(f"HR@{k}")
    return figure


def _curve(ax: Axes, curve: Curve, stagger: float) -> None:
    """Median and band; markers are staggered so that curves on top of each other both show."""
    style, pool = curve.look, curve.pool
    by_epoch: dict[int, list[float]] = {}
    for run in pool.runs:
        for epoch, hr in evaluated(run):
            by_epoch.setdefault(epoch.epoch, []).append(hr)
    if not by_epoch:
        return
    epochs = sorted(by_epoch)
    full = [epoch for epoch in epochs if len(by_epoch[epoch]) == len(pool.runs)]
    medians = {epoch: statistics.median(by_epoch[epoch]) for epoch in epochs}
    bands = [_band(by_epoch[epoch]) for epoch in full]
    step = max(1, len(full) // 8)
    ax.plot(
        full,
        [medians[epoch] for epoch in full],
        color=style.color,
        ls=style.line,
        lw=1.8,
        marker=style.marker,
        ms=4,
        markevery=(int(stagger * step), step),
    )
    if len(pool.runs) > 1:
        lower, upper = [low for low, _ in bands], [high for _, high in bands]
        ax.fill_between(full, lower, upper, color=style.color, alpha=0.22, lw=0)
    tail = full[-1:] + [epoch for epoch in epochs if not full or epoch > full[-1]]
    if len(tail) > len(full[-1:]):
        ax.plot(tail, [medians[epoch] for epoch in tail], color=style.color, ls=":", lw=1.5)


def _band(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    if len(ordered) < QUARTILES_FROM:
        return ordered[0], ordered[-1]
    return quantile(ordered, 0.25), quantile(ordered, 0.75)


def _line_handle(curve: Curve) -> Line2D:
    style = curve.look
    return Line2D(
        [],
        [],
        color=style.color,
        ls=style.line,
        lw=1.8,
        marker=style.marker,
        ms=4,
        label=curve.name,
    )


def _named(name: str, value: float) -> str:
    return f"{name} {units.hit_rate(value)}"
