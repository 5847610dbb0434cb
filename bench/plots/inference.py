"""The pictures of inference over batch size: throughput, and latency percentiles.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.analysis.labels import cell_name, counted
from bench.analysis.metrics import PAIRS, RANKING, batches, latency, scores_rate
from bench.plots.scaling import short_source
from bench.plots.style import (
    FILLS,
    GREY,
    estimate,
    framed,
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

    from bench.analysis.grid import Block, Pool
    from bench.plots.places import Subject

PERCENTILES = ("p50", "p90", "p95", "p99", "max")


@dataclass(frozen=True)
class Series:
    """One cell: its runs, and how it is drawn."""

    name: str
    pool: Pool
    style: dict[str, Any]

    def sizes(self, works: Sequence[str]) -> str:
        """`(n=6)`: how many runs were timed at any of these works."""
        timed = [run for run in self.pool.runs if any(batches([run], work) for work in works)]
        return f"({counted(len(timed), self.pool.tally)})"


def throughput(subject: Subject) -> Figure:
    """Samples/s over batch size; in a second panel, where it was measured, scores/s of ranking."""
    block = subject.block
    all_series = _series(block)
    works = [work for work in (PAIRS, RANKING) if batches(block.runs, work)]
    published = _published(subject)
    legend = [
        legend_entry(f"{series.name} {series.sizes(works)}", ms=6, **series.style)
        for series in all_series
    ]
    legend += [legend_entry(f"published: {name}", **style) for name, style, _ in published]
    note = "Median over runs; bar: 95 % interval from 6 runs on, else smallest to largest."
    frame = subject.frame("inference throughput", note)
    width = 6.4 if len(works) == 1 else 4.6
    figure, axes = framed(len(works), len(works), (width, 3.8), frame, legend)
    for ax, work in zip(axes, works, strict=True):
        sizes, rates = list(batches(block.runs, work)), []
        for series in all_series:
            points = [
                (size, estimate(data))
                for size in batches(series.pool.runs, work)
                if not isinstance(data := series.pool.summary(scores_rate(work, size)), Missing)
            ]
            rates += [end for _, (_, low, high) in points for end in (low, high)]
            if points:
                plot_estimates(ax, points, lw=1.6, capsize=3, ms=6, zorder=3, **series.style)
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
    all_series = _series(subject.block)
    sizes = batches(subject.block.runs, PAIRS)
    styles = {name: level_look(index).curve for index, name in enumerate(PERCENTILES)}
    legend = [legend_entry(name, ms=5, **style) for name, style in styles.items()]
    note = (
        "Of the calls of one run, median over runs. A percentile is drawn where every run has "
        "enough calls for it."
    )
    frame = subject.frame("inference latency", note)
    columns = 1 if len(all_series) == 1 else 2
    size = (6.4 if columns == 1 else 4.2, 3.0)
    figure, axes = framed(len(all_series), columns, size, frame, legend)
    curves = [_percentiles(series.pool, sizes) for series in all_series]
    seconds = [v for points in curves for curve in points.values() for _, v in curve]
    limits = (min(seconds, default=1e-3) / 1.5, max(seconds, default=1e-3) * 1.5)
    for ax, series, points in zip(axes, all_series, curves, strict=True):
        name = f"{series.name}  {series.sizes([PAIRS])}"
        ax.set_title("\n".join(textwrap.wrap(name, 48)), loc="left")
        for percentile, style in styles.items():
            plot_points(ax, points[percentile], ms=4, lw=1.5, **style)
        if not any(points.values()):
            write_reason(ax, "no good run")
        logarithmic(ax, (min(sizes) / 1.6, max(sizes) * 1.6), limits, _milliseconds)
        ax.set_xlabel("batch (samples)")
        ax.set_ylabel("ms a call")
    return figure


def _series(block: Block) -> list[Series]:
    """A line per cell, those without a good run too."""
    rests = list(dict.fromkeys(row.rest for row in block.rows))
    return [
        Series(
            cell_name(block, row, precision),
            pool,
            {**look(precision).curve, "fillstyle": FILLS[rests.index(row.rest) % len(FILLS)]},
        )
        for row, precision, pool in block.cells()
    ]


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
