"""The histogram of best HR@k over runs: precisions, or the levels of any axis, above each other.

Pure apart from matplotlib.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from bench.analysis.labels import counted
from bench.analysis.metrics import BEST_HR
from bench.plots.style import BAND, INK, framed, whole_ticks, write_reason
from bench.render import units
from bench.stats.summary import Missing, common_bins, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Pool
    from bench.plots.places import Place, Subject
    from bench.plots.style import Look


def histogram(subject: Subject) -> Figure:
    """Best HR@k of every run: the reference above what is compared with it, a column per place.

    Without a contrast, a column per number of ranks and a panel per precision. With a margin, a
    band around the mean of the reference shows where the others must lie.
    """
    assert subject.block.condition is not None
    data, k = subject.block.condition.dataset, subject.block.condition.topk
    places = subject.places(BEST_HR)
    edges = common_bins(
        [v for place in places for pool in place.pools for v in pool.values(BEST_HR)],
        1 / data.test_users,
    )
    notes = f"Dashed line: mean. All panels share bins of {edges[1] - edges[0]:.2g} HR@{k}."
    bands = _margin_bands(places, subject.margin)
    if bands:
        reference = places[0].series[0].name
        notes += f" Band: mean of {reference} ± {subject.margin:.3g}, the margin of equivalence."
    frame = subject.frame(f"best HR@{k} of every run", notes)
    # Air on both sides; a single bin does not fill the panel.
    pad = (edges[1] - edges[0]) * max(0.5, (8 - len(edges)) / 2)
    low = min([edges[0] - pad, *(band[0] - pad for band in bands.values())])
    high = max([edges[-1] + pad, *(band[1] + pad for band in bands.values())])
    digits = max(4, units.hit_rate_digits(data.test_users))
    rows, columns = len(places[0].series), len(places)
    width = 4.0 if columns <= 3 else 3.2
    figure, axes = framed(rows * columns, columns, (width, 2.2), frame, [])
    tallest = 1
    for j, place in enumerate(places):
        for i, series in enumerate(place.series):
            ax = axes[i * columns + j]
            if series.pool is None:
                ax.set_visible(False)
                continue
            name = ", ".join([series.name, *place.words])
            name += f"  ({counted(len(series.pool.values(BEST_HR)), series.pool.tally)})"
            ax.set_title("\n".join(textwrap.wrap(name, int(width * 13))), loc="left", pad=16)
            tallest = max(tallest, _bars(ax, series.pool, series.look, edges))
            _mark_mean(ax, series.pool.values(BEST_HR), (low, high), digits)
            if j in bands:
                ax.axvspan(*bands[j], color=BAND, lw=0, zorder=0)
            ax.set_xlim(low, high)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            whole_ticks(ax.yaxis, 4)
            if i == rows - 1:
                ax.set_xlabel(f"best HR@{k}")
            if j == 0:
                ax.set_ylabel("runs")
    for ax in axes:
        ax.set_ylim(0, tallest * 1.08)
    return figure


def _bars(ax: Axes, pool: Pool, style: Look, edges: Sequence[float]) -> int:
    """Draw the runs of one cell; returns the height of its tallest bar."""
    values = pool.values(BEST_HR)
    if not values:
        reason = "never evaluated" if pool.runs else "no good run"
        write_reason(ax, "not in the grid" if pool.tally.outside else reason)
        return 0
    heights, _, _ = ax.hist(
        values, edges, color=style.color, edgecolor="white", lw=0.6, hatch=style.hatch
    )
    return int(max(heights))


def _margin_bands(places: Sequence[Place], margin: float | None) -> dict[int, tuple[float, float]]:
    """Per column, the mean of the reference ± margin; none where nothing is compared with it."""
    bands: dict[int, tuple[float, float]] = {}
    for index, place in enumerate(places):
        reference = place.series[0].pool
        if margin is None or len(place.series) < 2 or reference is None:
            continue
        data = reference.summary(BEST_HR)
        if not isinstance(data, Missing):
            bands[index] = (data.mean - margin, data.mean + margin)
    return bands


def _mark_mean(ax: Axes, values: Sequence[float], limits: tuple[float, float], digits: int) -> None:
    """The mean as a line, its number above the panel where no bar can hide it."""
    if not values:
        return
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
