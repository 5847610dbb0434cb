"""The picture of energy, where the driver told it. Pure apart from matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.analysis.labels import precision_label, ranks_text, sizes_text
from bench.analysis.metrics import SAMPLES_PER_JOULE
from bench.plots.style import GREY, INK, Frame, framed, look
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Block, Pool


def samples_per_joule(block: Block, title: str, where: str) -> Figure:
    """Samples per joule by ranks: a bar per precision, a dot per run."""
    legend = [
        Patch(facecolor=style.color, edgecolor="white", hatch=style.hatch, label=label)
        for style, label in ((look(p), precision_label(block, p)) for p in block.precisions)
    ]
    legend.append(
        Line2D([], [], ls="", marker="o", ms=4, mfc="white", mec=INK, label="one run")  # type: ignore[arg-type]
    )
    note = (
        "Bar: median over runs. Energy of the run's GPUs from its start to its end, set-up and "
        "evaluation included; the rest of the machine is not."
    )
    frame = Frame(f"{title}: samples per joule", (where, note))
    count = len(block.precisions)
    width = max(6.4, 1.1 + 0.62 * (count + 0.7) * len(block.rows))
    figure, axes = framed(1, 1, (width, 3.2), frame, legend)
    ax = axes[0][0]
    top = max(value for pool in block.pools for value in pool.values(SAMPLES_PER_JOULE))
    for index, row in enumerate(block.rows):
        for position, precision in enumerate(block.precisions):
            x = index + (position - (count - 1) / 2) * 0.8 / count
            _bar(ax, x, 0.74 / count, row.pools[precision], precision)
    ax.set_xticks(
        range(len(block.rows)), [f"{ranks_text(r)}\n{sizes_text(block, r)}" for r in block.rows]
    )
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(block.rows) - 0.4)
    ax.set_ylim(0, 1.08 * top)
    ax.set_ylabel("samples / joule")
    return figure


def _bar(ax: Axes, x: float, width: float, pool: Pool, precision: str) -> None:
    style = look(precision)
    data = pool.summary(SAMPLES_PER_JOULE)
    if isinstance(data, Missing):
        ax.annotate(
            "n/a", (x, 0), xytext=(0, 3), textcoords="offset points", ha="center", color=GREY
        )
        return
    ax.bar(x, data.median, width, color=style.color, edgecolor="white", lw=0.6, hatch=style.hatch)
    values = pool.values(SAMPLES_PER_JOULE)
    shifts = [((index + 0.5) / len(values) - 0.5) * width * 0.8 for index in range(len(values))]
    ax.plot([x + s for s in shifts], values, "o", ms=3.5, mfc="white", mec=INK, mew=0.7)
