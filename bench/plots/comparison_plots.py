"""The picture of a comparison: throughput of every arm, the reference first, and the ratios.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from bench.analysis import contrasts
from bench.analysis.contrasts import arm_ratio
from bench.analysis.labels import counted
from bench.analysis.metrics import THROUGHPUT
from bench.plots.bars import axis_number, bar, times, write_above
from bench.plots.style import INK, Frame, framed, level_look
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.contrasts import Group
    from bench.analysis.grid import Block
    from bench.suite.model import Contrast

LETTERS_PER_INCH = 13
"""Of the labels below the bars; fewer than fit, as letters differ in width."""


def throughput(block: Block, contrast: Contrast, title: str, where: str) -> Figure:
    """Samples/s: a bar per arm, a dot per run, tested / reference above."""
    found = contrasts.groups(block, contrast)
    names = list(
        dict.fromkeys(contrasts.level(block, contrast, arm) for one in found for arm in one.arms)
    )
    looks = {name: level_look(index) for index, name in enumerate(names)}
    legend = [
        Patch(facecolor=style.color, edgecolor="white", hatch=style.hatch, label=name)
        for name, style in looks.items()
    ]
    legend.append(
        Line2D([], [], ls="", marker="o", ms=4, mfc="white", mec=INK, label="one run")  # type: ignore[arg-type]
    )
    note = (
        "Bar: median over runs; whisker: its 95 % interval (from 6 runs on). Above: throughput "
        f"over that of {names[0]}. All ranks together, warm-up and evaluation excluded."
    )
    frame = Frame(f"{title}: training throughput", (where, note))
    width = max(6.4, 1.1 + 0.62 * (len(names) + 0.9) * len(found))
    figure, axes = framed(1, 1, (width, 3.6), frame, legend)
    ax = axes[0][0]
    pools = [arm.pool for one in found for arm in one.arms]
    top = max((value for pool in pools for value in pool.values(THROUGHPUT)), default=1.0)
    labels = []
    for index, group in enumerate(found):
        for arm in group.arms:
            name = contrasts.level(block, contrast, arm)
            x = index + (names.index(name) - (len(names) - 1) / 2) * 0.8 / len(names)
            bar(ax, x, 0.74 / len(names), arm.pool, looks[name])
        _label_ratios(ax, index, block, contrast, group, top)
        labels.append(
            _label(block, group, int(LETTERS_PER_INCH * (width - 1.1) / (len(found) + 0.2)))
        )
    ax.set_xticks(range(len(found)), labels)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(found) - 0.4)
    ax.set_ylim(0, top * (1.06 + 0.06 * max(1, len(names) - 1)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: axis_number(value, top)))
    ax.set_ylabel("samples/s")
    return figure


def _label(block: Block, group: Group, letters: int) -> str:
    """What the arms have in common, and their sample sizes, in lines of so many letters."""
    sizes = [counted(len(arm.pool.values(THROUGHPUT)), arm.pool.tally) for arm in group.arms]
    text = sizes[0] if len(set(sizes)) == 1 else "; ".join(sizes)
    place = ", ".join(contrasts.words(block, group))
    letters = min(26, letters)
    sizes_text = textwrap.wrap(text.replace("n=", "n = "), letters)
    return "\n".join([*textwrap.wrap(place, letters), *sizes_text])


def _label_ratios(
    ax: Axes, index: int, block: Block, contrast: Contrast, group: Group, top: float
) -> None:
    lines = []
    for arm in group.tested:
        found = arm_ratio(arm, group.reference, THROUGHPUT, contrast)
        if not isinstance(found, Missing):
            several = len(group.tested) > 1
            name = f"{contrasts.level(block, contrast, arm)} " if several else ""
            lines.append(f"{name}{times(found)}")
    write_above(ax, index, lines, (arm.pool for arm in group.arms), top)
