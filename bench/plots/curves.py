"""The picture of accuracy over epochs: validation curves. Pure apart from matplotlib."""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING, Any

from bench.analysis.metrics import BEST_HR, evaluated, target
from bench.plots.style import DASHES, GREY, INK, framed, legend_entry, whole_ticks
from bench.render import units
from bench.stats.summary import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.analysis.grid import Pool
    from bench.plots.places import Subject
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
    frame = subject.frame(f"HR@{k} after each epoch", " ".join(notes))
    columns = 2 if len(places) == 4 else min(3, len(places))
    figure, axes = framed(len(places), columns, (4.0, 3.1), frame, legend)
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
