"""The pictures of speed over ranks and over time: strong scaling, throughput against run order.

Pure apart from matplotlib.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from bench import units
from bench.drawing import GREY, INK, Frame, framed, look
from bench.labels import precision_label, ranks_text, sizes_text
from bench.measures import THROUGHPUT
from bench.published import SOURCES, distinct, parse_system, select
from bench.stats import Missing
from bench.tables import scaling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from bench.grid import Block, Pool
    from bench.published import Figure
    from bench.store import Attempt
    from ncf.record import RunRecord

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Line:
    """Strong scaling of one published system in one source, precision by precision."""

    label: str
    points: dict[str, list[tuple[int, float]]]


def published_lines(figures: Sequence[Figure], systems: Sequence[str]) -> list[Line]:
    """The published strong scaling of these systems, computed from their throughputs."""
    lines = []
    for system in systems:
        own = select(figures, system=system, metric="train_throughput")
        for source in distinct(own, "source"):
            points: dict[str, list[tuple[int, float]]] = {}
            found = select(own, source=source)
            for precision in distinct(found, "precision"):
                rates = {f.gpus: f.value for f in select(found, precision=precision) if f.gpus}
                if 1 in rates and len(rates) > 1:
                    points[precision] = [(g, rate / rates[1]) for g, rate in sorted(rates.items())]
            if points:
                lines.append(Line(f"{_short(system)}, {short_source(source)}", points))
    return lines


def _short(system: str) -> str:
    parsed = parse_system(system)
    return f"{parsed[0]}x {parsed[1]} {parsed[2]} GB" if parsed else system


def short_source(source: str) -> str:
    """`PyTorch 2021`: enough to find the source in the tables."""
    kind = "PyTorch" if "pytorch" in source else "TF" if "tf1" in source else "NGC"
    year = re.search(r"\b20\d\d\b", SOURCES.get(source, source))
    return f"{kind} {year[0]}" if year else kind


def can_scale(block: Block) -> bool:
    """Whether there is anything to scale: 1 rank and another number of ranks, measured."""
    return any(
        row.ranks > 1 and not isinstance(scaling(block, row, precision), Missing)
        for row in block.rows
        for precision in block.precisions
    )


def strong_scaling(block: Block, title: str, where: str, lines: Sequence[Line]) -> Drawing:
    """Throughput over that of one rank at the same global batch, a panel per precision."""
    shown = [line for line in lines if set(line.points) & set(block.precisions)]
    # Several sources say the same of one machine: each keeps its own mark in all panels.
    marks = {line.label: _MARKS[1 + i % (len(_MARKS) - 1)] for i, line in enumerate(shown)}
    legend = [
        Line2D([], [], color=INK, lw=1.8, marker="o", ms=5, label="ours, median"),
        Line2D([], [], color=GREY, lw=1.2, ls=(0, (6, 2)), label="ideal"),
        *(
            Line2D([], [], color=GREY, lw=0.9, marker=marks[line.label], ms=5, mfc="white",
                   label=f"published: {line.label}")
            for line in shown
        ),
    ]  # fmt: skip
    frame = Frame(
        f"{title}: strong scaling",
        (
            where,
            (
                "Throughput / throughput with 1 rank, same global batch. Bars: 95 % interval from "
                f"6 runs on, else all pairs of runs. {_sizes(block)}."
            ),
        ),
    )
    figure, axes = framed(1, len(block.precisions), (3.6, 3.3), frame, legend)
    ranks = sorted({row.ranks for row in block.rows})
    theirs = {g for line in shown for pairs in line.points.values() for g, _ in pairs}
    ticks = sorted({*ranks, *theirs})
    lowest: list[float] = []
    for ax, precision in zip(axes[0], block.precisions, strict=True):
        ax.set_title(precision_label(block, precision), loc="left")
        ax.plot(ticks, ticks, color=GREY, lw=1.2, ls=(0, (6, 2)), zorder=1)
        for line in shown:
            pairs = line.points.get(precision, [])
            ax.plot(
                [g for g, _ in pairs],
                [s for _, s in pairs],
                color=GREY,
                lw=0.9,
                marker=marks[line.label],
                ms=5,
                mfc="white",
                zorder=2,
            )
        lowest.append(_our_line(ax, block, precision))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(FixedLocator(ticks))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xlim(min(ticks) / 1.15, max(ticks) * 1.6)  # room for the last label
        ax.set_xlabel("ranks (GPUs of the published systems)" if shown else "ranks")
    for ax in axes[0]:  # more ranks may well be slower; the panels stay comparable
        ax.set_ylim(min([*ticks, *lowest]) / 1.3, max(ticks) * 1.15)
    axes[0][0].set_ylabel("times 1 rank")
    return figure


def _sizes(block: Block) -> str:
    """Sample sizes, once if they are equal: "n = 3", or "1 rank: n = 3; 2 ranks: n = 3, 2 of 3"."""
    texts = {ranks_text(row): sizes_text(block, row) for row in block.rows}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{ranks}: {text}" for ranks, text in texts.items())


def _our_line(ax: Axes, block: Block, precision: str) -> float:
    """Draw our points with their intervals; returns the lowest end of all, at most 1."""
    style = look(precision)
    xs, ys, below, above = [], [], [], []
    for row in block.rows:
        if row.ranks == 1:
            if not isinstance(row.pools[precision].summary(THROUGHPUT), Missing):
                xs.append(1)
                ys.append(1.0)
                below.append(0.0)
                above.append(0.0)
            continue
        found = scaling(block, row, precision)
        if isinstance(found, Missing):
            continue
        low = found.low if found.low is not None else found.min
        high = found.high if found.high is not None else found.max
        xs.append(row.ranks)
        ys.append(found.value)
        below.append(found.value - low if low is not None else 0.0)
        above.append(high - found.value if high is not None else 0.0)
        ax.annotate(
            f"{units.ratio(found.value)}x",
            (row.ranks, found.value),
            xytext=(5, -15),
            textcoords="offset points",
            fontsize=8.5,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85},
            zorder=4,
        )
    if len(xs) > 1:
        ax.errorbar(
            xs,
            ys,
            (below, above),
            color=style.color,
            lw=1.8,
            marker=style.marker,
            ms=5,
            capsize=3,
            zorder=3,
        )
    else:
        ax.text(0.97, 0.05, "no good run", ha="right", transform=ax.transAxes, color=GREY)
    return min((y - down for y, down in zip(ys, below, strict=True)), default=1.0)


def run_order(
    block: Block, title: str, where: str, attempts: Mapping[int, Attempt] | None = None
) -> Drawing:
    """Every run's samples/s against the median of its cell, in the order in which they started.

    A machine that slows down shows as a slope or a step in all cells. Runs that something
    disturbed are ringed; those in which a card protected itself are crossed and enter no table.

    Args:
        block: the runs.
        title: for the heading.
        where: machine and date.
        attempts: the attempt of every good run, by the identity of its run.
    """
    legend: list[Any] = [
        Line2D([], [], ls="", color=look(p).color, marker=look(p).marker, ms=5, label=label)
        for p, label in ((p, precision_label(block, p)) for p in block.precisions)
    ]
    runs: list[tuple[RunRecord, float]] = []
    slowed: set[int] = set()
    for pool in block.pools:
        values = [(run, THROUGHPUT.of(run)) for run in pool.runs]
        known = [(run, value) for run, value in values if not isinstance(value, Missing)]
        if known:
            middle = statistics.median(value for _, value in known)
            runs += [(run, value / middle - 1) for run, value in known]
            slowed |= {id(run) for run, value in _slowed(pool)}
            runs += [(run, value / middle - 1) for run, value in _slowed(pool)]
    runs.sort(key=lambda one: (one[0].started_at, one[0].world_size, one[0].precision.requested))
    flagged = {key: attempt.flags for key, attempt in (attempts or {}).items() if attempt.flags}
    ringed = [(i, 100 * v) for i, (run, v) in enumerate(runs, 1) if id(run) in flagged]
    crossed = [(i, 100 * v) for i, (run, v) in enumerate(runs, 1) if id(run) in slowed]
    kinds = sorted({name for i, _ in ringed for name in flagged[id(runs[i - 1][0])]})
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
        own = [(i, v) for i, (run, v) in enumerate(runs, 1) if run.precision.requested == precision]
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
    limit = max(1.0, 110 * max(abs(value) for _, value in runs))
    ax.set_ylim(-limit, limit)
    ax.set_xlim(0.4, len(runs) + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0"))
    ax.set_xlabel("run, in order of its start")
    ax.set_ylabel("against its cell's median")
    return figure


def _slowed(pool: Pool) -> list[tuple[RunRecord, float]]:
    """Runs of failed attempts in which a card protected itself, with their samples/s."""
    found = []
    for attempt in pool.tally.failed:
        if attempt.run is not None and "slowed_down" in attempt.flags:
            value = THROUGHPUT.of(attempt.run)
            if not isinstance(value, Missing):
                found.append((attempt.run, value))
    return found
