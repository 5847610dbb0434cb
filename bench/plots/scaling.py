"""The pictures of speed over ranks and over time: strong scaling, throughput against run order.

Pure apart from matplotlib.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.analysis.contrasts import scaling
from bench.analysis.labels import precision_label, ranks_text, sizes_text
from bench.analysis.metrics import THROUGHPUT
from bench.plots.scaling_curves import _LINES
from bench.plots.style import GREY, INK, Frame, framed, look
from bench.published.figures import SOURCES, distinct, parse_system, select
from bench.published.scaling_tables import BATCH, RANKS, Known
from bench.render import units
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from bench.analysis.grid import Block
    from bench.published.figures import Figure

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


def prediction_curves(series: Sequence[Known], system: str) -> Drawing:
    """Predicted samples/s over GPUs; a column for each series, strong above weak scaling."""
    ideal: Any = {"color": GREY, "lw": 1.2, "ls": (0, (6, 2))}
    lines = [Line2D([], [], lw=1.6, ms=4, label=f"model, {k}", **v) for k, v in _LINES.items()]
    marks: list[Any] = [
        Line2D([], [], color=INK, ls="", marker=mark, ms=6, mfc="none", label=f"published, {label}")
        for mark, label in (("s", "fitted on"), ("D", "left out"))
    ]
    legend = [*lines, Line2D([], [], label="ideal", **ideal), *marks]
    checks = [
        f"{one.label}: {100 * one.error(n):+.1f} % at {n}" for one in series for n in one.checks
    ]
    errors = "; ".join(checks)
    frame = Frame(
        f"{system}: strong and weak scaling by an alpha-beta model",
        (
            f"Nothing here was measured by us. Error of the model at the GPUs left out: {errors}.",
            "Assumptions: docs/scaling.md.",
        ),
    )
    figure, axes = framed(2, len(series), (3.8, 2.9), frame, legend)
    for column, one in enumerate(series):
        strong, weak = axes[0][column], axes[1][column]
        alone = one.rate(1)
        strong.plot(RANKS, [alone * n for n in RANKS], **ideal)
        weak.plot(RANKS, [100.0] * len(RANKS), **ideal)
        lowest = 80.0
        for kind, style in _LINES.items():
            strong.plot(RANKS, [one.rate(n, kind) for n in RANKS], lw=1.6, ms=4, **style)
            shares = [100 * one.rate(n, kind, BATCH * n) / alone / n for n in RANKS]
            weak.plot(RANKS, shares, lw=1.6, ms=4, **style)
            lowest = min([lowest, *(share - 2 for share in shares)])
        for n, rate in one.rates.items():
            mark = "D" if n in one.checks else "s"
            strong.plot([n], [rate], ls="", marker=mark, ms=7, mfc="none", mec=INK, zorder=5)
        strong.set_title(f"{one.label}: strong", loc="left")
        strong.set_yscale("log")
        strong.set_ylim(alone / 1.5, alone * 64)  # ideal leaves the panel
        strong.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:g} M"))
        weak.set_title(f"{one.label}: weak", loc="left")
        weak.set_ylim(lowest, 102)
        weak.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        weak.set_xlabel("GPUs")
        for ax in (strong, weak):
            ax.set_xscale("log", base=2)
            ax.xaxis.set_major_locator(FixedLocator((1, 2, 4, 8, 16, 64, 512)))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0][0].set_ylabel("samples/s, global batch 1,048,576")
    axes[1][0].set_ylabel("efficiency, 1,048,576 per GPU")
    return figure
