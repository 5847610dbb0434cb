"""Logarithmic axes with readable ticks: 1, 2, 5 where a decade is wide, suffixes k to T."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

MANY_DECADES = 2.2
"""Beyond so many decades only powers of ten get a tick."""


def logarithmic(
    ax: Axes,
    across: tuple[float, float],
    along: tuple[float, float],
    tick: Callable[[float], str] | None = None,
) -> None:
    """Make both axes logarithmic between these ends, with a grid; `tick` writes those along."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*across)
    ax.set_ylim(*along)
    ax.grid(visible=True, axis="both")
    for axis, span, form in ((ax.xaxis, across, short), (ax.yaxis, along, tick or short)):
        decades = math.log10(span[1] / span[0])
        subs = (1.0,) if decades > MANY_DECADES else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(10, subs, numticks=max(3, math.ceil(decades) + 1)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _, form=form: form(value)))


def short(value: float) -> str:
    """A tick's number: 262144 -> "262 k", 5e11 -> "500 G"."""
    for scale, suffix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= scale:
            return f"{value / scale:.3g}{suffix}"
    return f"{value:g}"
