"""The pictures of accuracy: HR@k over epochs, and the histogram of best HR@k over runs.

Pure apart from matplotlib.
"""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

from bench.analysis.labels import counted
from bench.analysis.metrics import BEST_HR, evaluated, target
from bench.plots.style import (
    BAND,
    DASHES,
    GREY,
    INK,
    legend_entry,
    whole_ticks,
    write_label,
    write_reason,
)
from bench.render import units
from bench.stats.summary import Missing, common_bins, quantile, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Pool
    from bench.plots.places import Place, Subject
    from bench.plots.style import Look

QUARTILES_FROM = 4
"""Runs from which the band shows quartiles; with fewer it shows all of them."""

POPULARITY: Any = {"color": GREY, "lw": 1.2, "ls": (0, (1, 1.5))}
TARGET: Any = {"color": INK, "lw": 1.2, "ls": DASHES}
MEDIAN: Any = {"lw": 1.8, "ms": 4}


def curves(subject: Subject) -> Figure:
    """HR@k by epoch, with popularity and target.

    A panel per number of ranks with a curve per precision; with a contrast, a panel per comparison
    of the grid with a curve per arm.
    """
    assert subject.block.condition is not None
    data, k = subject.block.condition.dataset, subject.block.condition.topk
    places = subject.places(BEST_HR)
    pools = [pool for place in places for pool in place.pools]
    runs = [run for pool in pools for run in pool.runs]
    popularity = data.popularity_hr_at_k
    points = [hr for run in runs for _, hr in evaluated(run)]
    low, high = min([*points, popularity]), max([*points, popularity])
    targets = sorted({hr for run in runs if (hr := target(run)) is not None})
    # A target far above every curve would press them flat: then it is only named.
    near = [hr for hr in targets if hr <= high + 0.5 * (high - low)]
    legend = [
        *(legend_entry(s.name, **s.look.curve, **MEDIAN) for s in places[0].series),
        legend_entry(f"popularity {units.hit_rate(popularity)}", **POPULARITY),
        *(legend_entry(f"target {units.hit_rate(hr)}", **TARGET) for hr in near),
    ]
    notes = ["Line: median over seeds. Band: quartiles from 4 runs on, else smallest to largest."]
    if any(len({len(run.epochs) for run in pool.runs}) > 1 for pool in pools):
        notes.append("Dotted: only the runs that were still training.")
    notes += [
        f"Target {units.hit_rate(hr)} lies above the picture." for hr in targets if hr not in near
    ]
    columns = 2 if len(places) == 4 else min(3, len(places))
    note = " ".join(notes)
    figure, axes = subject.figure(
        f"HR@{k} after each epoch", note, legend, (4.0, 3.1), len(places), columns
    )
    last = max((run.epochs[-1].epoch for run in runs if run.epochs), default=1)
    margin = 0.05 * (high - low) or 0.01
    for ax, place in zip(axes, places, strict=True):
        name = f"{', '.join(place.words)}  ({place.sizes})"
        ax.set_title("\n".join(textwrap.wrap(name, 48)), loc="left")
        ax.axhline(popularity, zorder=1, **POPULARITY)
        for hr in near:
            ax.axhline(hr, zorder=1, **TARGET)
        for index, series in enumerate(place.series):
            if series.pool is not None:
                _curve(ax, series.pool, series.look, index / len(place.series))
        ax.set_xlim(max(0.5, 1 - 0.04 * last), 1.04 * last)
        ax.set_ylim(low - margin, max([high, *near]) + margin)
        whole_ticks(ax.xaxis)
        ax.set_xlabel("epoch")
        ax.set_ylabel(f"HR@{k}")
    return figure


def _curve(ax: Axes, pool: Pool, style: Look, stagger: float) -> None:
    """Median and band; markers are staggered so that curves on top of each other both show."""
    by_epoch: dict[int, list[float]] = {}
    for run in pool.runs:
        for epoch, hr in evaluated(run):
            by_epoch.setdefault(epoch.epoch, []).append(hr)
    if not by_epoch:
        return
    medians = {epoch: statistics.median(by_epoch[epoch]) for epoch in sorted(by_epoch)}
    full = [epoch for epoch in medians if len(by_epoch[epoch]) == len(pool.runs)]
    step = max(1, len(full) // 8)
    ax.plot(
        full,
        [medians[epoch] for epoch in full],
        markevery=(int(stagger * step), step),
        **style.curve,
        **MEDIAN,
    )
    if len(pool.runs) > 1:
        bands = [_band(by_epoch[epoch]) for epoch in full]
        lower, upper = [low for low, _ in bands], [high for _, high in bands]
        ax.fill_between(full, lower, upper, color=style.color, alpha=0.22, lw=0)
    tail = full[-1:] + [epoch for epoch in medians if not full or epoch > full[-1]]
    if len(tail) > len(full[-1:]):
        ax.plot(tail, [medians[epoch] for epoch in tail], color=style.color, ls=":", lw=1.5)


def _band(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    if len(ordered) < QUARTILES_FROM:
        return ordered[0], ordered[-1]
    return quantile(ordered, 0.25), quantile(ordered, 0.75)


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
    note = f"Dashed line: mean. All panels share bins of {edges[1] - edges[0]:.2g} HR@{k}."
    bands = _margin_bands(places, subject.margin)
    if bands:
        reference = places[0].series[0].name
        note += f" Band: mean of {reference} ± {subject.margin:.3g}, the margin of equivalence."
    # Air on both sides; a single bin does not fill the panel.
    pad = (edges[1] - edges[0]) * max(0.5, (8 - len(edges)) / 2)
    low = min([edges[0] - pad, *(band[0] - pad for band in bands.values())])
    high = max([edges[-1] + pad, *(band[1] + pad for band in bands.values())])
    digits = max(4, units.hit_rate_digits(data.test_users))
    rows, columns = len(places[0].series), len(places)
    width = 4.0 if columns <= 3 else 3.2
    figure, axes = subject.figure(
        f"best HR@{k} of every run", note, (), (width, 2.2), rows * columns, columns
    )
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
    text = f"mean {data.mean:.{digits}f}, {spread}"
    write_label(ax, text, (data.mean, 1), (0, 3), xycoords=("data", "axes fraction"), ha=side)
