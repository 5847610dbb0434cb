"""The picture of throughput in the order of the runs: it shows drift and slow runs.

Pure apart from matplotlib.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from bench.analysis.labels import precision_label
from bench.analysis.metrics import THROUGHPUT
from bench.plots.style import GREY, INK, legend_entry, look, plot_points, whole_ticks
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure

    from bench.plots.places import Subject
    from bench.records.attempt import Attempt
    from ncf.record import RunRecord


def run_order(subject: Subject) -> Figure:
    """Every run's samples/s against the median of its cell, in the order in which they started.

    A machine that slows down shows as a slope or a step in all cells. Runs that something
    disturbed are ringed; those in which a card protected itself are crossed and enter no table.
    """
    block = subject.block
    runs: list[tuple[Attempt, RunRecord, float]] = []
    for pool in block.pools:
        if rates := _rates(pool.attempts):
            median = statistics.median(rate for _, _, rate in rates)
            slowed = _rates(a for a in pool.tally.failed if "slowed_down" in a.flags)
            runs += [
                (attempt, run, 100 * (rate / median - 1)) for attempt, run, rate in rates + slowed
            ]
    runs.sort(
        key=lambda item: (item[1].started_at, item[1].world_size, item[1].precision.requested)
    )
    flags = sorted({flag for attempt, _, _ in runs if attempt.ok for flag in attempt.flags})
    ringed = [(i, y) for i, (attempt, _, y) in enumerate(runs, 1) if attempt.ok and attempt.flags]
    crossed = [(i, y) for i, (attempt, _, y) in enumerate(runs, 1) if not attempt.ok]
    ring: Any = {"ls": "", "marker": "o", "ms": 10, "mfc": "none", "mec": INK, "mew": 1.0}
    cross: Any = {"ls": "", "marker": "x", "ms": 9, "mfc": "none", "mec": INK, "mew": 1.6}
    legend = [
        legend_entry(
            precision_label(block, p), ls="", color=look(p).color, marker=look(p).marker, ms=5
        )
        for p in block.precisions
    ]
    if ringed:
        legend.append(legend_entry(f"flagged: {', '.join(flags)}", **ring))
    if crossed:
        legend.append(legend_entry("slowed down by the card itself: invalid", **cross))
    note = (
        f"n = {len(runs)} runs, in the order of their start; each against the median of its cell "
        "(same ranks and precision)."
    )
    figure, (ax,) = subject.figure("throughput against run order", note, legend, (7.2, 3.0))
    ax.axhline(0, color=GREY, lw=1.0)
    for precision in block.precisions:
        points = [
            (i, y) for i, (_, run, y) in enumerate(runs, 1) if run.precision.requested == precision
        ]
        style = look(precision)
        size = 5 if len(runs) <= 100 else 2.5
        plot_points(ax, points, ls="", color=style.color, marker=style.marker, ms=size)
    plot_points(ax, ringed, **ring)
    plot_points(ax, crossed, **cross)
    limit = max(1.0, 1.1 * max(abs(y) for _, _, y in runs))
    ax.set_ylim(-limit, limit)
    ax.set_xlim(0.4, len(runs) + 0.6)
    whole_ticks(ax.xaxis)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "0")
    ax.set_xlabel("run, in order of its start")
    ax.set_ylabel("against its cell's median")
    return figure


def _rates(attempts: Iterable[Attempt]) -> list[tuple[Attempt, RunRecord, float]]:
    """The attempts that have samples/s, with their record."""
    rates = [(attempt, attempt.run, THROUGHPUT.of(attempt)) for attempt in attempts]
    return [
        (attempt, run, rate)
        for attempt, run, rate in rates
        if run is not None and not isinstance(rate, Missing)
    ]
