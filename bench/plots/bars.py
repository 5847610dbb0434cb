"""The pictures of one block as bytes; nothing is read or written here.

Pure apart from matplotlib. Accuracy is drawn in `accuracy_plots` and `histogram_plots`, throughput
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from bench.analysis.contrasts import SPEEDUPS, speedup
from bench.analysis.grid import has_energy
from bench.analysis.labels import precision_label, ranks_text, sizes_text
from bench.analysis.metrics import BEST_HR, THROUGHPUT
from bench.plots.curves import curves
from bench.plots.energy_plots import samples_per_joule
from bench.plots.histograms import histogram
from bench.plots.run_order import run_order
from bench.plots.scaling import can_scale, strong_scaling
from bench.plots.style import GREY, INK, Frame, Picture, framed, look, render
from bench.render import units
from bench.stats.summary import Missing, Ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Block, Pool, Row
    from bench.plots.scaling import Line
    from bench.plots.style import Look


def draw(
    block: Block,
    title: str,
    where: str,
    margin: float | None = None,
    published: Sequence[Line] = (),
) -> dict[str, Picture]:
    """The pictures of a block with one value of every other axis, by file name.

    A picture of which the runs have no value at all is left out.

    Args:
        block: the runs.
        title: the suite's name and the values of the other axes, for the headings.
        where: machine and date of the runs, for the footers.
        margin: the difference of hit rates that matters, if it is known.
        published: what others' strong scaling is.
    """
    pictures = {}
    if any(pool.values(BEST_HR) for pool in block.pools):
        pictures["validation-curves"] = render(lambda: curves(block, title, where))
        pictures["best-hr-histogram"] = render(lambda: histogram(block, title, where, margin))
    if any(pool.values(THROUGHPUT) for pool in block.pools):
        pictures["throughput"] = render(lambda: throughput(block, title, where))
        if can_scale(block):
            pictures["strong-scaling"] = render(
                lambda: strong_scaling(block, title, where, published)
            )
        if any(len(pool.values(THROUGHPUT)) > 1 for pool in block.pools):
            pictures["run-order"] = render(lambda: run_order(block, title, where))
    if has_energy(block):
        pictures["energy"] = render(lambda: samples_per_joule(block, title, where))
    return pictures


def throughput(block: Block, title: str, where: str) -> Figure:
    """Samples/s by ranks: a bar per precision, a dot per run, the speed-up above."""
    legend = [
        Patch(facecolor=style.color, edgecolor="white", hatch=style.hatch, label=label)
        for style, label in ((look(p), precision_label(block, p)) for p in block.precisions)
    ]
    legend.append(
        Line2D([], [], ls="", marker="o", ms=4, mfc="white", mec=INK, label="one run")  # type: ignore[arg-type]
    )
    frame = Frame(
        f"{title}: training throughput",
        (
            where,
            (
                "Bar: median over runs; whisker: its 95 % interval (from 6 runs on). All ranks "
                "together, warm-up and evaluation excluded."
            ),
        ),
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
            bar(ax, x, 0.74 / count, row.pools[precision], look(precision))
        _label_speedup(ax, index, row, top)
    ax.set_xticks(
        range(len(block.rows)), [f"{ranks_text(r)}\n{sizes_text(block, r)}" for r in block.rows]
    )
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(block.rows) - 0.4)
    ax.set_ylim(0, top * (1.06 + 0.06 * max(1, count - 1)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: axis_number(value, top)))
    ax.set_ylabel("samples/s")
    return figure


def bar(ax: Axes, x: float, width: float, pool: Pool, style: Look) -> None:
    """Samples/s of one cell: median, its interval, and a dot a run."""
    data = pool.summary(THROUGHPUT)
    if isinstance(data, Missing):
        ax.annotate(
            "n/a", (x, 0), xytext=(0, 3), textcoords="offset points", ha="center", color=GREY
        )
        return
    ax.bar(x, data.median, width, color=style.color, edgecolor="white", lw=0.6, hatch=style.hatch)
    if data.low is not None and data.high is not None:
        spread = ([data.median - data.low], [data.high - data.median])
        ax.errorbar(x, data.median, spread, color=INK, lw=1.4, capsize=4, zorder=4)
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
    for mixed, full in SPEEDUPS:
        found = speedup(row, mixed, full)
        if not isinstance(found, Missing):
            lines.append(f"{mixed.upper()}/{full.upper()} {times(found)}")
    write_above(ax, index, lines, row.pools.values(), top)


def write_above(
    ax: Axes, index: int, lines: Iterable[str], pools: Iterable[Pool], top: float
) -> None:
    """Write lines above the bars at `index` of these pools; `top` is the axis' upper end."""
    highest = max((v for pool in pools for v in pool.values(THROUGHPUT)), default=0.0)
    ax.annotate(
        "\n".join(lines),
        (index, highest + 0.01 * top),
        xytext=(0, 4),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8.5,
        bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85},
    )


def times(found: Ratio) -> str:
    """`1.25x [1.20 to 1.31]`; with few runs the extremes, with one run the number alone."""
    text = units.ratio_summary(found).removesuffix(" (spread n/a)")
    value, space, spread = text.partition(" ")
    return f"{value}x{space}{spread}"


def axis_number(value: float, top: float) -> str:
    """A tick of an axis that ends at `top`, with the suffix that fits the end."""
    scale, unit = (1e6, " M") if top >= 1e6 else (1e3, " k") if top >= 1e3 else (1.0, "")
    return f"{value / scale:g}{unit}" if value else "0"
