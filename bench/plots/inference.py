"""The pictures of inference over batch size: throughput, and latency percentiles.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from bench.analysis.labels import cell_name, counted
from bench.analysis.metrics import PAIRS, RANKING, batches, latency, scores_rate
from bench.plots.scaling import short_source
from bench.plots.style import FILLS, GREY, Frame, framed, level_look, logarithmic, look
from bench.published.comparability import INFERENCE_SECTIONS, inference_differences
from bench.published.figures import distinct, select
from bench.render import units
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from bench.analysis.grid import Block, Pool
    from bench.published.figures import Figure

PERCENTILES = ("p50", "p90", "p95", "p99", "max")


@dataclass(frozen=True)
class Series:
    """One cell: its runs, and how it is drawn."""

    name: str
    precision: str
    pool: Pool
    fill: Any


def throughput(
    block: Block,
    title: str,
    where: str,
    figures: Sequence[Figure] = (),
    systems: Sequence[str] = (),
) -> Drawing:
    """Samples/s over batch size; beside it, where it was measured, scores/s of ranking."""
    series = _series(block)
    works = [work for work in (PAIRS, RANKING) if batches(block.runs, work)]
    theirs = _published(block, figures, systems)
    legend = [
        Line2D([], [], color=style.color, ls=style.line, marker=style.marker, ms=6,
               fillstyle=one.fill, label=f"{one.name} ({_size(one, works)})")
        for one in series for style in (look(one.precision),)
    ]  # fmt: skip
    legend += [
        Line2D([], [], color=GREY, lw=0.9, ls=look(precision).line, marker=look(precision).marker,
               ms=5, mfc="white", label=f"published: {name}")
        for name, precision, _ in theirs
    ]  # fmt: skip
    note = "Median over runs; bar: 95 % interval from 6 runs on, else smallest to largest."
    frame = Frame(f"{title}: inference throughput", (where, note))
    width = 6.4 if len(works) == 1 else 4.6
    figure, axes = framed(1, len(works), (width, 3.8), frame, legend)
    for ax, work in zip(axes[0], works, strict=True):
        ends = [_line(ax, one, work) for one in series]
        rates = [value for pair in ends for value in pair]
        sizes = list(batches(block.runs, work))
        if work == PAIRS:
            for _, precision, points in theirs:
                xs, ys = zip(*points, strict=True)
                ax.plot(xs, ys, color=GREY, lw=0.9, ls=look(precision).line,
                        marker=look(precision).marker, ms=5, mfc="white", zorder=2)  # fmt: skip
                rates += ys
                sizes += xs
        limits = (min(rates, default=1.0) / 1.6, max(rates, default=1.0) * 1.6)
        logarithmic(ax, (min(sizes) / 1.6, max(sizes) * 1.6), limits)
        ax.set_xlabel("batch (samples)" if work == PAIRS else "users a call")
        ax.set_ylabel("samples/s" if work == PAIRS else "scores/s, whole catalogue")
    return figure


def latencies(block: Block, title: str, where: str) -> Drawing:
    """Percentiles of a call's latency over batch size, a panel per cell."""
    series = _series(block)
    sizes = batches(block.runs, PAIRS)
    legend = [
        Line2D([], [], color=style.color, ls=style.line, marker=style.marker, ms=5, label=what)
        for what, style in ((what, level_look(i)) for i, what in enumerate(PERCENTILES))
    ]
    note = (
        "Of the calls of one run, median over runs. A percentile is drawn where every run has "
        "calls enough to tell it."
    )
    frame = Frame(f"{title}: inference latency", (where, note))
    columns = 1 if len(series) == 1 else 2
    lines = -(-len(series) // columns)
    figure, axes = framed(lines, columns, (6.4 if columns == 1 else 4.2, 3.0), frame, legend)
    found = [_percentiles(one, sizes) for one in series]
    values = [v for each in found for points in each.values() for _, v in points]
    limits = (min(values, default=1e-3) / 1.5, max(values, default=1e-3) * 1.5)
    for index in range(lines * columns):
        ax = axes[index // columns][index % columns]
        if index >= len(series):
            ax.set_visible(False)
            continue
        one = series[index]
        name = f"{one.name}  ({_size(one, [PAIRS])})"
        ax.set_title("\n".join(textwrap.wrap(name, 48)), loc="left")
        for i, what in enumerate(PERCENTILES):
            style, points = level_look(i), found[index][what]
            ax.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=style.color,
                ls=style.line,
                marker=style.marker,
                ms=4,
                lw=1.5,
            )
        if not any(found[index].values()):
            ax.text(0.5, 0.5, "no good run", ha="center", transform=ax.transAxes, color=GREY)
        logarithmic(ax, (min(sizes) / 1.6, max(sizes) * 1.6), limits, _milliseconds)
        ax.set_xlabel("batch (samples)")
        ax.set_ylabel("ms a call")
    return figure


def _series(block: Block) -> list[Series]:
    """A line per cell, those without a good run too."""
    rests = list(dict.fromkeys(row.rest for row in block.rows))
    found = []
    for row, precision, pool in block.cells():
        fill = FILLS[rests.index(row.rest) % len(FILLS)]
        found.append(Series(cell_name(block, row, precision), precision, pool, fill))
    return found


def _size(one: Series, works: Sequence[str]) -> str:
    """`n=6`: runs that were timed at this work."""
    timed = [run for run in one.pool.runs if any(batches([run], work) for work in works)]
    return counted(len(timed), one.pool.tally)


def _line(ax: Axes, one: Series, work: str) -> list[float]:
    """Draw one cell; returns the ends of its bars."""
    style, ends = look(one.precision), []
    xs, ys, below, above = [], [], [], []
    for size in batches(one.pool.runs, work):
        data = one.pool.summary(scores_rate(work, size))
        if isinstance(data, Missing):
            continue
        low = data.min if data.low is None else data.low
        high = data.max if data.high is None else data.high
        xs.append(size)
        ys.append(data.median)
        below.append(data.median - low)
        above.append(high - data.median)
        ends += [low, high]
    if xs:
        ax.errorbar(xs, ys, (below, above), color=style.color, ls=style.line, lw=1.6, capsize=3,
                    marker=style.marker, ms=6, fillstyle=one.fill, zorder=3)  # fmt: skip
    return ends


def _percentiles(one: Series, sizes: Sequence[int]) -> dict[str, list[tuple[int, float]]]:
    """Points of each percentile: batch size and seconds."""
    found: dict[str, list[tuple[int, float]]] = {what: [] for what in PERCENTILES}
    for what, points in found.items():
        for size in sizes:
            measure = latency(PAIRS, size, what)
            data = one.pool.summary(measure)
            runs = len([run for run in one.pool.runs if size in batches([run], PAIRS)])
            if not isinstance(data, Missing) and data.n == runs:
                points.append((size, data.median))
    return found


def _published(
    block: Block, figures: Sequence[Figure], systems: Sequence[str]
) -> list[tuple[str, str, list[tuple[int, float]]]]:
    """Label, precision and points of every published line that ours may stand beside."""
    lines = []
    for system in systems:
        own = [f for f in select(figures, system=system) if f.section in INFERENCE_SECTIONS]
        for source in distinct(own, "source"):
            found = select(own, source=source)
            if inference_differences(block, system, found):
                continue
            for precision in distinct(select(found, metric="inference_throughput"), "precision"):
                rates = select(found, metric="inference_throughput", precision=precision)
                points = [(f.batch_per_gpu, f.value) for f in rates if f.batch_per_gpu]
                if points:
                    lines.append(
                        (f"{short_source(source)}, {precision.upper()}", precision, points)
                    )
    return lines


def _milliseconds(value: float) -> str:
    """Seconds as the milliseconds of a tick."""
    number = value * 1e3
    return units.count(number) if number >= 1000 else f"{number:g}"
