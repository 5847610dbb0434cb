"""The pictures of inference over batch size: throughput, and latency percentiles.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from bench.analysis.labels import counted
from bench.analysis.metrics import PAIRS, RANKING, batches, latency, scores_rate
from bench.plots.places import cells
from bench.plots.scaling import short_source
from bench.plots.style import (
    GREY,
    estimate,
    legend_entry,
    level_look,
    logarithmic,
    look,
    plot_estimates,
    plot_points,
    write_reason,
)
from bench.published.comparability import INFERENCE_SECTIONS, inference_differences
from bench.published.figures import distinct, select
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from bench.analysis.grid import Pool
    from bench.plots.places import Cell, Subject

PERCENTILES = ("p50", "p90", "p95", "p99", "max")


def throughput(subject: Subject) -> Figure:
    """Samples/s over batch size; in a second panel, where it was measured, scores/s of ranking."""
    block = subject.block
    all_cells = cells(block)
    works = [work for work in (PAIRS, RANKING) if batches(block.runs, work)]
    published = _published(subject)
    legend = [
        legend_entry(f"{cell.name} {_sizes(cell, works)}", ms=6, **cell.style) for cell in all_cells
    ]
    legend += [legend_entry(f"published: {name}", **style) for name, style, _ in published]
    note = "Median over runs; bar: 95 % interval from 6 runs on, else smallest to largest."
    panel = (6.4 if len(works) == 1 else 4.6, 3.8)
    figure, axes = subject.figure("inference throughput", note, legend, panel, len(works))
    for ax, work in zip(axes, works, strict=True):
        sizes, rates = list(batches(block.runs, work)), []
        for cell in all_cells:
            points = [
                (size, estimate(data))
                for size in batches(cell.pool.runs, work)
                if not isinstance(data := cell.pool.summary(scores_rate(work, size)), Missing)
            ]
            rates += [end for _, (_, low, high) in points for end in (low, high)]
            if points:
                plot_estimates(ax, points, lw=1.6, capsize=3, ms=6, zorder=3, **cell.style)
        for _, style, theirs in published if work == PAIRS else ():
            plot_points(ax, theirs, zorder=2, **style)
            sizes += [size for size, _ in theirs]
            rates += [rate for _, rate in theirs]
        limits = (min(rates, default=1.0) / 1.6, max(rates, default=1.0) * 1.6)
        logarithmic(ax, (min(sizes) / 1.6, max(sizes) * 1.6), limits)
        ax.set_xlabel("batch (samples)" if work == PAIRS else "users a call")
        ax.set_ylabel("samples/s" if work == PAIRS else "scores/s, whole catalogue")
    return figure


def latencies(subject: Subject) -> Figure:
    """Percentiles of a call's latency over batch size, a panel per cell."""
    all_cells = cells(subject.block)
    sizes = batches(subject.block.runs, PAIRS)
    styles = {name: level_look(index).curve for index, name in enumerate(PERCENTILES)}
    legend = [legend_entry(name, ms=5, **style) for name, style in styles.items()]
    note = (
        "Of the calls of one run, median over runs. A percentile is drawn where every run has "
        "enough calls for it."
    )
    count = len(all_cells)
    panel = (6.4 if count == 1 else 4.2, 3.0)
    figure, axes = subject.figure("inference latency", note, legend, panel, count, min(2, count))
    curves = [_percentiles(cell.pool, sizes) for cell in all_cells]
    seconds = [v for points in curves for curve in points.values() for _, v in curve]
    limits = (min(seconds, default=1e-3) / 1.5, max(seconds, default=1e-3) * 1.5)
    for ax, cell, points in zip(axes, all_cells, curves, strict=True):
        name = f"{cell.name}  {_sizes(cell, [PAIRS])}"
        ax.set_title("\n".join(textwrap.wrap(name, 48)), loc="left")
        for percentile, style in styles.items():
            plot_points(ax, points[percentile], ms=4, lw=1.5, **style)
        if not any(points.values()):
            write_reason(ax, "no good run")
        logarithmic(ax, (min(sizes) / 1.6, max(sizes) * 1.6), limits, _milliseconds)
        ax.set_xlabel("batch (samples)")
        ax.set_ylabel("ms a call")
    return figure


def _sizes(cell: Cell, works: Sequence[str]) -> str:
    """`(n=6)`: how many runs were timed at any of these works."""
    timed = [run for run in cell.pool.runs if any(batches([run], work) for work in works)]
    return f"({counted(len(timed), cell.pool.tally)})"


def _percentiles(pool: Pool, sizes: Sequence[int]) -> dict[str, list[tuple[int, float]]]:
    """Batch size and seconds by percentile, where every timed run has enough calls for it."""
    timed = {
        size: len([run for run in pool.runs if size in batches([run], PAIRS)]) for size in sizes
    }
    return {
        name: [
            (size, data.median)
            for size in sizes
            if not isinstance(data := pool.summary(latency(PAIRS, size, name)), Missing)
            and data.n == timed[size]
        ]
        for name in PERCENTILES
    }


def _published(subject: Subject) -> list[tuple[str, dict[str, Any], list[tuple[int, float]]]]:
    """Label, style and points of every published line that is comparable with ours."""
    lines = []
    for system in subject.systems:
        of_system = [
            figure
            for figure in select(subject.figures, system=system)
            if figure.section in INFERENCE_SECTIONS
        ]
        for source in distinct(of_system, "source"):
            of_source = select(of_system, source=source)
            if inference_differences(subject.block, system, of_source):
                continue
            rates = select(of_source, metric="inference_throughput")
            for precision in distinct(rates, "precision"):
                of_precision = select(rates, precision=precision)
                points = [(f.batch_per_gpu, f.value) for f in of_precision if f.batch_per_gpu]
                style = {**look(precision).curve, "color": GREY, "lw": 0.9, "ms": 5, "mfc": "white"}
                if points:
                    lines.append((f"{short_source(source)}, {precision.upper()}", style, points))
    return lines


def _milliseconds(value: float) -> str:
    """Seconds as the milliseconds of a tick."""
    return f"{value * 1e3:,.10g}"
