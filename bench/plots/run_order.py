"""Throughput in the order of the runs: drift and slow runs show. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench.analysis.labels import precision_label
from bench.analysis.metrics import THROUGHPUT
from bench.plots.style import GREY, INK, Frame, framed, look
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure as Drawing

    from bench.analysis.grid import Block
    from bench.records.attempt import Attempt
    from ncf.record import RunRecord


def run_order(block: Block, title: str, where: str) -> Drawing:
    """Every run's samples/s against the median of its cell, in the order in which they started.

    A machine that slows down shows as a slope or a step in all cells. Runs that something
    disturbed are ringed; those in which a card protected itself are crossed and enter no table.

    Args:
        block: the runs.
        title: for the heading.
        where: machine and date.
    """
    legend: list[Any] = [
        Line2D([], [], ls="", color=look(p).color, marker=look(p).marker, ms=5, label=label)
        for p, label in ((p, precision_label(block, p)) for p in block.precisions)
    ]
    runs: list[tuple[Attempt, RunRecord, float]] = []
    for pool in block.pools:
        rates = _rates(pool.attempts)
        if rates:
            middle = statistics.median(rate for _, _, rate in rates)
            slowed = _rates(a for a in pool.tally.failed if "slowed_down" in a.flags)
            runs += [(attempt, run, rate / middle - 1) for attempt, run, rate in rates + slowed]
    runs.sort(
        key=lambda item: (item[1].started_at, item[1].world_size, item[1].precision.requested)
    )
    ringed = [(i, 100 * v) for i, (a, _, v) in enumerate(runs, 1) if a.ok and a.flags]
    crossed = [(i, 100 * v) for i, (a, _, v) in enumerate(runs, 1) if not a.ok]
    kinds = sorted({flag for attempt, _, _ in runs if attempt.ok for flag in attempt.flags})
    if ringed:
        label = f"flagged: {', '.join(kinds)}"
        legend.append(Line2D([], [], ls="", marker="o", ms=10, mfc="none", mec=INK, label=label))
    if crossed:
        label = "slowed down by the card itself: invalid"
        legend.append(Line2D([], [], ls="", marker="x", ms=9, mew=1.6, mec=INK, label=label))
    frame = Frame(
        f"{title}: throughput against run order",
        (
            where,
            (
                f"n = {len(runs)} runs, in the order of their start; each against the median of "
                "its cell (same ranks and precision)."
            ),
        ),
    )
    figure, axes = framed(1, 1, (7.2, 3.0), frame, legend)
    ax = axes[0][0]
    ax.axhline(0, color=GREY, lw=1.0)
    for precision in block.precisions:
        style = look(precision)
        own = [
            (i, v) for i, (_, run, v) in enumerate(runs, 1) if run.precision.requested == precision
        ]
        ax.plot(
            [i for i, _ in own],
            [100 * v for _, v in own],
            ls="",
            color=style.color,
            marker=style.marker,
            ms=5 if len(runs) <= 100 else 2.5,
        )
    for marks, marker in ((ringed, "o"), (crossed, "x")):
        ax.plot(
            [i for i, _ in marks],
            [v for _, v in marks],
            ls="",
            marker=marker,
            ms=10 if marker == "o" else 9,
            mfc="none",
            mec=INK,
            mew=1.0 if marker == "o" else 1.6,
        )
    limit = max(1.0, 110 * max(abs(value) for _, _, value in runs))
    ax.set_ylim(-limit, limit)
    ax.set_xlim(0.4, len(runs) + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0"))
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
