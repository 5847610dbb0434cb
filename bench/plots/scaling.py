"""The pictures of speed over ranks: strong scaling, and what the scaling model predicts.

Pure apart from matplotlib.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FixedLocator, NullLocator

from bench.analysis.contrasts import scaling
from bench.analysis.labels import precision_label, ranks_text, sizes_text
from bench.analysis.metrics import THROUGHPUT
from bench.plots.style import (
    DASHES,
    GREY,
    INK,
    LABEL_BOX,
    LOOKS,
    estimate,
    framed,
    legend_entry,
    look,
    plot_estimates,
    plot_points,
    write_label,
)
from bench.published.figures import SOURCES, distinct, parse_system, select
from bench.published.scaling_tables import BATCH, RANKS, Known
from bench.render import units
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from bench.analysis.grid import Block
    from bench.plots.places import Subject
    from bench.plots.style import Estimate
    from bench.published.figures import Figure
    from bench.published.scaling_model import Parallel

_MARKS = ("s", "^", "D", "v", "P", "X", "*")
_IDEAL: Any = {"color": GREY, "lw": 1.2, "ls": DASHES}


Line = dict[str, list[tuple[int, float]]]
"""GPUs and speed-up over 1 GPU by precision."""


def published_lines(figures: Sequence[Figure], systems: Sequence[str]) -> dict[str, Line]:
    """The published strong scaling by system and source, computed from their throughputs."""
    lines: dict[str, Line] = {}
    for system in systems:
        of_system = select(figures, system=system, metric="train_throughput")
        for source in distinct(of_system, "source"):
            points: Line = {}
            of_source = select(of_system, source=source)
            for precision in distinct(of_source, "precision"):
                rates = {f.gpus: f.value for f in select(of_source, precision=precision) if f.gpus}
                if 1 in rates and len(rates) > 1:
                    points[precision] = [(g, rate / rates[1]) for g, rate in sorted(rates.items())]
            if points:
                lines[f"{_short_system(system)}, {short_source(source)}"] = points
    return lines


def _short_system(system: str) -> str:
    parsed = parse_system(system)
    return f"{parsed[0]}x {parsed[1]} {parsed[2]} GB" if parsed else system


def short_source(source: str) -> str:
    """`PyTorch 2021`: enough to find the source in the tables."""
    kind = "PyTorch" if "pytorch" in source else "TF" if "tf1" in source else "NGC"
    year = re.search(r"\b20\d\d\b", SOURCES.get(source, source))
    return f"{kind} {year[0]}" if year else kind


def can_scale(block: Block) -> bool:
    """Whether there is anything to scale: 1 rank and another number of ranks, measured."""
    return any(ranks > 1 for p in block.precisions for ranks, _ in _our_points(block, p))


def strong_scaling(subject: Subject) -> Drawing:
    """Throughput over that of one rank at the same global batch, a panel per precision."""
    block = subject.block
    lines = published_lines(subject.figures, subject.systems)
    shown = {name: line for name, line in lines.items() if set(line) & set(block.precisions)}
    # Several sources report the same machine: each keeps its own mark in all panels.
    styles: dict[str, Any] = {
        name: {"color": GREY, "lw": 0.9, "marker": mark, "ms": 5, "mfc": "white"}
        for name, mark in zip(shown, itertools.cycle(_MARKS), strict=False)
    }
    legend = [
        legend_entry("ours, median", color=INK, lw=1.8, marker="o", ms=5),
        legend_entry("ideal", **_IDEAL),
        *(legend_entry(f"published: {name}", **style) for name, style in styles.items()),
    ]
    note = (
        "Throughput / throughput with 1 rank, same global batch. Bars: 95 % interval from 6 runs "
        f"on, else all pairs of runs. {_sizes(block)}."
    )
    panels = len(block.precisions)
    figure, axes = subject.figure("strong scaling", note, legend, (3.6, 3.3), panels)
    published = {g for line in shown.values() for points in line.values() for g, _ in points}
    ticks = sorted({*(row.ranks for row in block.rows), *published})
    lowest = float(min(ticks))
    for ax, precision in zip(axes, block.precisions, strict=True):
        ax.set_title(precision_label(block, precision), loc="left")
        ax.plot(ticks, ticks, zorder=1, **_IDEAL)
        for name, line in shown.items():
            plot_points(ax, line.get(precision, []), zorder=2, **styles[name])
        points = _our_points(block, precision)
        lowest = min([lowest, *(low for _, (_, low, _) in points)])
        _our_line(ax, points, precision)
        for axis, scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            scale("log", base=2)
            _tick_at(axis, ticks)
        ax.set_xlim(min(ticks) / 1.15, max(ticks) * 1.6)  # room for the last label
        ax.set_xlabel("ranks (GPUs of the published systems)" if shown else "ranks")
    for ax in axes:  # more ranks may well be slower; the panels stay comparable
        ax.set_ylim(lowest / 1.3, max(ticks) * 1.15)
    axes[0].set_ylabel("times 1 rank")
    return figure


def _tick_at(axis: Any, places: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def _sizes(block: Block) -> str:
    """Sample sizes, once if they are equal: "n = 3", or "1 rank: n = 3; 2 ranks: n = 3, 2 of 3"."""
    texts = {ranks_text(row): sizes_text(block, row) for row in block.rows}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{ranks}: {text}" for ranks, text in texts.items())


def _our_points(block: Block, precision: str) -> list[tuple[int, Estimate]]:
    """Our scaling by ranks, with intervals; 1 rank is 1 by definition."""
    points: list[tuple[int, Estimate]] = []
    for row in block.rows:
        if row.ranks == 1:
            if row.pools[precision].values(THROUGHPUT):
                points.append((1, (1.0, 1.0, 1.0)))
        elif not isinstance(ratio := scaling(block, row, precision), Missing):
            points.append((row.ranks, estimate(ratio)))
    return points


def _our_line(ax: Axes, points: Sequence[tuple[int, Estimate]], precision: str) -> None:
    for ranks, (value, _, _) in points:
        if ranks > 1:
            text = f"{units.ratio(value)}x"
            write_label(ax, text, (ranks, value), (5, -15), bbox=LABEL_BOX, zorder=4)
    if len(points) > 1:
        style = look(precision)
        plot_estimates(
            ax, points, color=style.color, lw=1.8, marker=style.marker, ms=5, capsize=3, zorder=3
        )
    else:
        ax.text(0.97, 0.05, "no good run", ha="right", transform=ax.transAxes, color=GREY)


_MODEL_LINES: dict[Parallel, Any] = {
    "replicated": {"color": LOOKS["amp"].color, "ls": "--", "marker": "^", "lw": 1.6, "ms": 4},
    "user-sharded": {"color": LOOKS["fp32"].color, "ls": "-", "marker": "o", "lw": 1.6, "ms": 4},
}


def prediction_curves(series: Sequence[Known], system: str) -> Drawing:
    """Predicted samples/s over GPUs; a column for each series, strong above weak scaling."""
    measured: Any = {"color": INK, "ls": "", "mfc": "none"}
    legend = [
        *(legend_entry(f"model, {kind}", **style) for kind, style in _MODEL_LINES.items()),
        legend_entry("ideal", **_IDEAL),
        legend_entry("published, fitted on", marker="s", ms=6, **measured),
        legend_entry("published, left out", marker="D", ms=6, **measured),
    ]
    errors = "; ".join(
        f"{known.label}: {100 * known.error(n):+.1f} % at {n}"
        for known in series
        for n in known.checks
    )
    title = f"{system}: strong and weak scaling by an alpha-beta model"
    footer = (
        f"Nothing here was measured by us. Error of the model at the GPUs left out: {errors}.",
        "Assumptions: docs/scaling.md.",
    )
    count = len(series)
    figure, axes = framed(2 * count, count, (3.8, 2.9), title, footer, legend)
    for strong, weak, known in zip(axes[:count], axes[count:], series, strict=True):
        alone = known.rate(1)
        strong.plot(RANKS, [alone * n for n in RANKS], **_IDEAL)
        weak.plot(RANKS, [100.0] * len(RANKS), **_IDEAL)
        lowest = 80.0
        for kind, style in _MODEL_LINES.items():
            strong.plot(RANKS, [known.rate(n, kind) for n in RANKS], **style)
            shares = [100 * known.rate(n, kind, BATCH * n) / alone / n for n in RANKS]
            weak.plot(RANKS, shares, **style)
            lowest = min([lowest, *(share - 2 for share in shares)])
        for n, rate in known.rates.items():
            mark = "D" if n in known.checks else "s"
            strong.plot([n], [rate], marker=mark, ms=7, zorder=5, **measured)
        strong.set_title(f"{known.label}: strong", loc="left")
        strong.set_yscale("log")
        strong.set_ylim(alone / 1.5, alone * 64)  # ideal leaves the panel
        strong.yaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M")
        weak.set_title(f"{known.label}: weak", loc="left")
        weak.set_ylim(lowest, 102)
        weak.yaxis.set_major_formatter("{x:g} %")
        weak.set_xlabel("GPUs")
        for ax in (strong, weak):
            ax.set_xscale("log", base=2)
            _tick_at(ax.xaxis, (1, 2, 4, 8, 16, 64, 512))
    axes[0].set_ylabel("samples/s, global batch 1,048,576")
    axes[count].set_ylabel("efficiency, 1,048,576 per GPU")
    return figure
