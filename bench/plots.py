"""The pictures of one block: validation curves, histogram of best HR@k, throughput by ranks.

Pure apart from matplotlib: records in, bytes out; nothing is read or written here.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench import units
from bench.drawing import GREY, INK, Frame, Picture, framed, look, render
from bench.measures import BEST_HR, THROUGHPUT, evaluated, target
from bench.stats import Missing, common_bins, quantile, summarize
from bench.tables import counted, precision_label, speedup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.grid import Block, Pool, Row

QUARTILES_FROM = 4
"""Runs from which the band shows quartiles; with fewer it shows all of them."""


def draw(block: Block, title: str, where: str) -> dict[str, Picture]:
    """The three pictures of a block with one value of every other axis, by file name.

    Args:
        block: at least one good run.
        title: the suite's name and the values of the other axes, for the headings.
        where: machine and date of the runs, for the footers.
    """
    return {
        "validation-curves": render(lambda: _curves(block, title, where)),
        "best-hr-histogram": render(lambda: _histogram(block, title, where)),
        "throughput": render(lambda: _throughput(block, title, where)),
    }


def _curves(block: Block, title: str, where: str) -> Figure:
    assert block.condition is not None
    data, k = block.condition.dataset, block.condition.topk
    legend: list[Any] = [_line_handle(block, precision) for precision in block.precisions]
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
    points = [hr for run in block.runs for _, hr in evaluated(run)]
    low, high = min([*points, data.popularity_hr_at_k]), max([*points, data.popularity_hr_at_k])
    goals = sorted({goal for run in block.runs if (goal := target(run)) is not None})
    # A target far above every curve would press them flat: then it is only named.
    near = [goal for goal in goals if goal <= high + 0.5 * (high - low)]
    legend += [
        Line2D([], [], color=INK, lw=1.2, ls=(0, (6, 2)), label=_named("target", goal))
        for goal in near
    ]
    notes = ["Line: median over seeds. Band: quartiles from 4 runs on, else smallest to largest."]
    if any(len({len(run.epochs) for run in pool.runs}) > 1 for pool in block.pools):
        notes.append("Dotted: only the runs that were still training.")
    notes += [f"Target {goal:g} lies above the picture." for goal in goals if goal not in near]
    columns = min(3, len(block.rows))
    lines = -(-len(block.rows) // columns)
    frame = Frame(f"{title}: HR@{k} after each epoch", (where, " ".join(notes)))
    figure, axes = framed(lines, columns, (4.0, 3.1), frame, legend)
    for index in range(lines * columns):
        ax = axes[index // columns][index % columns]
        if index >= len(block.rows):
            ax.set_visible(False)
            continue
        row = block.rows[index]
        ax.set_title(f"{_ranks(row)}  ({_sizes(block, row)})", loc="left")
        ax.axhline(data.popularity_hr_at_k, color=GREY, lw=1.2, ls=(0, (1, 1.5)), zorder=1)
        for goal in near:
            ax.axhline(goal, color=INK, lw=1.2, ls=(0, (6, 2)), zorder=1)
        for position, precision in enumerate(block.precisions):
            _curve(ax, row.pools[precision], precision, position / len(block.precisions))
        last = max((run.epochs[-1].epoch for run in block.runs if run.epochs), default=1)
        ax.set_xlim(max(0.5, 1 - 0.04 * last), 1.04 * last)
        margin = 0.05 * (high - low) or 0.01
        ax.set_ylim(low - margin, max([high, *near]) + margin)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlabel("epoch")
        ax.set_ylabel(f"HR@{k}")
    return figure


def _curve(ax: Axes, pool: Pool, precision: str, stagger: float) -> None:
    """Median and band; markers are staggered so that curves on top of each other both show."""
    style = look(precision)
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


def _histogram(block: Block, title: str, where: str) -> Figure:
    assert block.condition is not None
    data, k = block.condition.dataset, block.condition.topk
    digits = max(4, units.hit_rate_digits(data.test_users))
    values = [value for pool in block.pools for value in pool.values(BEST_HR)]
    edges = common_bins(values, 1 / data.test_users) if values else [0.0, 1.0]
    frame = Frame(
        f"{title}: best HR@{k} of every run",
        (where, f"Dashed line: mean. All panels share bins of {edges[1] - edges[0]:.2g} HR@{k}."),
    )
    # Air on both sides; a single bin does not fill the panel.
    pad = (edges[1] - edges[0]) * max(0.5, (8 - len(edges)) / 2)
    shape = (len(block.precisions), len(block.rows))
    width = 4.0 if shape[1] <= 3 else 3.2
    figure, axes = framed(*shape, (width, 2.2), frame, [])
    tallest = 1
    for i, precision in enumerate(block.precisions):
        style = look(precision)
        for j, row in enumerate(block.rows):
            ax, pool = axes[i][j], row.pools[precision]
            found = pool.values(BEST_HR)
            name = f"{precision_label(block, precision)}, {_ranks(row)}"
            ax.set_title(f"{name}  ({counted(len(found), pool.tally)})", loc="left", pad=16)
            if found:
                heights, _, _ = ax.hist(
                    found, edges, color=style.color, edgecolor="white", lw=0.6, hatch=style.hatch
                )
                tallest = max(tallest, int(max(heights)))
                _mark_mean(ax, found, (edges[0] - pad, edges[-1] + pad), digits)
            else:
                why = "never evaluated" if pool.runs else "no good run"
                ax.text(0.5, 0.5, why, ha="center", transform=ax.transAxes, color=GREY)
            ax.set_xlim(edges[0] - pad, edges[-1] + pad)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.yaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
            if i == shape[0] - 1:
                ax.set_xlabel(f"best HR@{k}")
            if j == 0:
                ax.set_ylabel("runs")
    for ax in (ax for line in axes for ax in line):
        ax.set_ylim(0, tallest * 1.08)
    return figure


def _mark_mean(ax: Axes, values: Sequence[float], limits: tuple[float, float], digits: int) -> None:
    """The mean as a line, its number above the panel where no bar can hide it."""
    data = summarize(values)
    spread = "SD n/a" if data.sd is None else f"SD {units.significant(data.sd, 2)}"
    ax.axvline(data.mean, color=INK, lw=1.3, ls=(0, (4, 2)))
    place = (data.mean - limits[0]) / (limits[1] - limits[0])
    side = "left" if place < 0.25 else "right" if place > 0.75 else "center"
    ax.annotate(
        f"mean {data.mean:.{digits}f}, {spread}",
        (data.mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha=side,
        fontsize=8.5,
    )


def _throughput(block: Block, title: str, where: str) -> Figure:
    legend = [
        Patch(facecolor=style.color, edgecolor="white", hatch=style.hatch, label=label)
        for style, label in ((look(p), precision_label(block, p)) for p in block.precisions)
    ]
    legend.append(
        Line2D([], [], ls="", marker="o", ms=4, mfc="white", mec=INK, label="one run")  # type: ignore[arg-type]
    )
    frame = Frame(
        f"{title}: training throughput",
        (where, "Bar: median over runs. All ranks together, warm-up and evaluation excluded."),
    )
    count = len(block.precisions)
    figure, axes = framed(
        1, 1, (max(6.4, 1.1 + 0.62 * (count + 0.7) * len(block.rows)), 3.6), frame, legend
    )
    ax = axes[0][0]
    top = max((v for pool in block.pools for v in pool.values(THROUGHPUT)), default=1.0)
    for index, row in enumerate(block.rows):
        for position, precision in enumerate(block.precisions):
            x = index + (position - (count - 1) / 2) * 0.8 / count
            _bar(ax, x, 0.74 / count, row.pools[precision], precision)
        _label_speedup(ax, index, row, top)
    ax.set_xticks(range(len(block.rows)), [f"{_ranks(r)}\n{_sizes(block, r)}" for r in block.rows])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(block.rows) - 0.4)
    ax.set_ylim(0, top * (1.06 + 0.06 * max(1, count - 1)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _axis_number(value, top)))
    ax.set_ylabel("samples/s")
    return figure


def _bar(ax: Axes, x: float, width: float, pool: Pool, precision: str) -> None:
    style, data = look(precision), pool.summary(THROUGHPUT)
    if isinstance(data, Missing):
        ax.annotate(
            "n/a", (x, 0), xytext=(0, 3), textcoords="offset points", ha="center", color=GREY
        )
        return
    ax.bar(x, data.median, width, color=style.color, edgecolor="white", lw=0.6, hatch=style.hatch)
    values = pool.values(THROUGHPUT)
    # Spread by order of seeds, not by chance: the picture is the same every time.
    shifts = [((index + 0.5) / len(values) - 0.5) * width * 0.8 for index in range(len(values))]
    few = len(values) <= 30
    ax.plot(
        [x + shift for shift in shifts],
        values,
        "o",
        ms=3.5 if few else 1.8,
        mfc="white" if few else INK,
        mec=INK,
        mew=0.7 if few else 0,
        alpha=1 if few else 0.5,
    )


def _label_speedup(ax: Axes, index: int, row: Row, top: float) -> None:
    lines = []
    for mixed, full in (("amp", "fp32"), ("amp", "tf32")):
        found = speedup(row, mixed, full)
        if not isinstance(found, Missing):
            lines.append(f"{mixed.upper()}/{full.upper()} {units.ratio(found.value)}x")
    highest = max((v for pool in row.pools.values() for v in pool.values(THROUGHPUT)), default=0.0)
    ax.annotate(
        "\n".join(lines),
        (index, highest + 0.01 * top),
        xytext=(0, 4),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8.5,
    )


def _axis_number(value: float, top: float) -> str:
    scale, unit = (1e6, " M") if top >= 1e6 else (1e3, " k") if top >= 1e3 else (1.0, "")
    return f"{value / scale:g}{unit}" if value else "0"


def _line_handle(block: Block, precision: str) -> Line2D:
    style = look(precision)
    return Line2D(
        [],
        [],
        color=style.color,
        ls=style.line,
        lw=1.8,
        marker=style.marker,
        ms=4,
        label=precision_label(block, precision),
    )


def _named(name: str, value: float) -> str:
    return f"{name} {value:.4g}"


def _ranks(row: Row) -> str:
    return "1 rank" if row.ranks == 1 else f"{row.ranks} ranks"


def _sizes(block: Block, row: Row) -> str:
    """Sample sizes of a row in the order of the legend: "n = 3" or "n = 3, 2 of 3"."""
    texts = []
    for precision in block.precisions:
        n, planned = len(row.pools[precision].runs), len(row.pools[precision].tally.planned)
        texts.append(str(n) if n >= planned else f"{n} of {planned}")
    return "n = " + (texts[0] if len(set(texts)) == 1 else ", ".join(texts))
