"""The pictures with bars: throughput, what a suite compares, and samples per joule.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from matplotlib.patches import Patch

from bench.analysis import contrasts
from bench.analysis.contrasts import SPEEDUPS, arm_ratio, speedup
from bench.analysis.metrics import SAMPLES_PER_JOULE, THROUGHPUT
from bench.plots.style import (
    GREY,
    INK,
    LABEL_BOX,
    estimate,
    legend_entry,
    plot_estimates,
    short,
    write_label,
)
from bench.render import units
from bench.stats.summary import Missing, Ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Pool
    from bench.analysis.metrics import Metric
    from bench.plots.places import Subject
    from bench.plots.style import Look

LETTERS_PER_INCH = 13
"""Of the labels below the bars; fewer than fit, as letters differ in width."""


def throughput(subject: Subject) -> Figure:
    """Samples/s by ranks: a bar per precision, a dot per run, the speed-up above."""
    ratios = [
        [
            f"{mixed.upper()}/{full.upper()} {times(ratio)}"
            for mixed, full in SPEEDUPS
            if not isinstance(ratio := speedup(row, mixed, full), Missing)
        ]
        for row in subject.block.rows
    ]
    note = "All ranks together, warm-up and evaluation excluded."
    return _draw(subject, THROUGHPUT, "training throughput", note, ratios)


def comparison(subject: Subject) -> Figure:
    """Samples/s: a bar per arm, the reference first, a dot per run, tested / reference above."""
    block, contrast = subject.block, subject.contrast
    assert contrast is not None
    ratios = []
    for group in contrasts.groups(block, contrast):
        lines = []
        for arm in group.tested:
            ratio = arm_ratio(arm, group.reference, THROUGHPUT, contrast)
            name = f"{contrasts.level(block, contrast, arm)} " if len(group.tested) > 1 else ""
            if not isinstance(ratio, Missing):
                lines.append(f"{name}{times(ratio)}")
        ratios.append(lines)
    reference = subject.places(THROUGHPUT)[0].series[0].name
    note = (
        f"Above: throughput over that of {reference}. All ranks together, warm-up and evaluation "
        "excluded."
    )
    return _draw(subject, THROUGHPUT, "training throughput", note, ratios)


def samples_per_joule(subject: Subject) -> Figure:
    """Samples per joule by ranks: a bar per precision, a dot per run."""
    note = (
        "Energy of the run's GPUs from its start to its end, set-up and evaluation included; the "
        "rest of the machine is not."
    )
    return _draw(subject, SAMPLES_PER_JOULE, "samples per joule", note)


def _draw(
    subject: Subject,
    metric: Metric,
    heading: str,
    note: str,
    texts: Sequence[Sequence[str]] = (),
) -> Figure:
    """A group of bars per place, `texts` above it: a bar per series, a dot per run."""
    places = subject.places(metric)
    note = f"Bar: median over runs; whisker: its 95 % interval (from 6 runs on). {note}"
    series, count = places[0].series, len(places[0].series)
    legend = [
        *(
            Patch(facecolor=s.look.color, edgecolor="white", hatch=s.look.hatch, label=s.name)
            for s in series
        ),
        legend_entry("one run", ls="", marker="o", ms=4, mfc="white", mec=INK),
    ]
    width = max(6.4, 1.1 + 0.62 * (count + 0.9) * len(places))
    figure, (ax,) = subject.figure(heading, note, legend, (width, 3.6))
    top = max(v for place in places for pool in place.pools for v in pool.values(metric))
    letters = min(26, int(LETTERS_PER_INCH * (width - 1.1) / (len(places) + 0.2)))
    labels = []
    for index, place in enumerate(places):
        for position, s in enumerate(place.series):
            if s.pool is not None:
                x = index + (position - (count - 1) / 2) * 0.8 / count
                _bar(ax, x, 0.74 / count, s.pool, metric, s.look)
        if texts:
            highest = max((v for pool in place.pools for v in pool.values(metric)), default=0.0)
            text, xy = "\n".join(texts[index]), (index, highest + 0.01 * top)
            write_label(ax, text, xy, (0, 4), ha="center", va="bottom", bbox=LABEL_BOX)
        parts = (", ".join(place.words), place.sizes.replace("n=", "n = "))
        labels.append("\n".join(line for part in parts for line in textwrap.wrap(part, letters)))
    ax.set_xticks(range(len(places)), labels)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(places) - 0.4)
    ax.set_ylim(0, top * (1.06 + 0.06 * max(1, count - 1)))
    ax.yaxis.set_major_formatter(lambda value, _: short(value, top))
    ax.set_ylabel(metric.unit)
    return figure


def _bar(ax: Axes, x: float, width: float, pool: Pool, metric: Metric, style: Look) -> None:
    """One cell: median, its interval, and a dot per run."""
    data = pool.summary(metric)
    if isinstance(data, Missing):
        write_label(ax, "n/a", (x, 0), (0, 3), ha="center", color=GREY, fontsize=9.5)
        return
    ax.bar(x, data.median, width, color=style.color, edgecolor="white", lw=0.6, hatch=style.hatch)
    if data.low is not None:
        plot_estimates(ax, [(x, estimate(data))], color=INK, lw=1.4, capsize=4, zorder=4)
    values = pool.values(metric)
    # Spread by order of seeds, not by chance: the picture is the same every time.
    xs = [x + ((i + 0.5) / len(values) - 0.5) * width * 0.8 for i in range(len(values))]
    if len(values) <= 30:
        ax.plot(xs, values, "o", ms=3.5, mfc="white", mec=INK, mew=0.7)
    else:
        ax.plot(xs, values, "o", ms=1.8, mfc=INK, mew=0, alpha=0.5)


def times(ratio: Ratio) -> str:
    """`1.25x [1.20 to 1.31]`; with few runs the extremes, with one run the number alone."""
    text = f"{units.ratio(ratio.value)}x"
    if ratio.low is not None and ratio.high is not None:
        return f"{text} [{units.ratio(ratio.low)} to {units.ratio(ratio.high)}]"
    if ratio.min is not None and ratio.max is not None:
        return f"{text} ({units.ratio(ratio.min)} to {units.ratio(ratio.max)})"
    return text
