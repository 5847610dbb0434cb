"""How every picture looks and how it becomes bytes: style, frame, PNG and SVG.

The same figure gives the same bytes: fonts come with matplotlib, the user's matplotlibrc is not
read, and files carry neither date nor version.
"""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bench.stats.summary import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from bench.stats.summary import Summary

INK, GREY, LIGHT, BAND = "#1a1a1a", "#5f5f5f", "#d9d9d9", "#dfe4ef"


@dataclass(frozen=True)
class Look:
    """How one precision is drawn; colour alone never distinguishes two of them."""

    color: str
    line: str
    marker: str
    hatch: str

    @property
    def curve(self) -> dict[str, Any]:
        """The arguments of a line with markers."""
        return {"color": self.color, "ls": self.line, "marker": self.marker}


# Okabe & Ito, "Color Universal Design": distinct under every common colour blindness, and by
# lightness on a grey print.
LOOKS = {
    "fp32": Look("#0072B2", "-", "o", ""),
    "tf32": Look("#009E73", "-.", "s", "..."),
    "amp": Look("#E69F00", "--", "^", "///"),
}
OTHER = Look("#CC79A7", ":", "D", "xx")
LEVELS = (LOOKS["fp32"], LOOKS["amp"], LOOKS["tf32"], OTHER, Look("#56B4E9", "-", "v", "\\\\"))
"""Levels of any other axis, in their order."""

FILLS: tuple[Literal["full", "none", "left", "bottom", "right", "top"], ...] = (
    "full", "none", "left", "bottom", "right", "top",
)  # fmt: skip
"""Colour and mark show the precision; the filling of a mark distinguishes the other axes."""

DASHES = (0, (6, 2))
"""The line style of ideals and targets."""

LABEL_BOX: Any = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85}
"""Behind a label that lies on data."""

STYLE: Any = {
    "font.family": ["DejaVu Sans"],  # ships with matplotlib
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": LIGHT,
    "grid.linewidth": 0.7,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    # A page in dark mode shows the picture as a light card, never black text on black.
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "svg.fonttype": "path",  # text looks and fits the same on a machine without the font
    "svg.hashsalt": "ncf-bench",
}


@dataclass(frozen=True)
class Picture:
    """One picture in both file forms."""

    png: bytes
    svg: bytes


def look(precision: str) -> Look:
    """The look of a precision; unknown ones share a fourth colour."""
    return LOOKS.get(precision, OTHER)


def level_look(index: int) -> Look:
    """The look of the level with this number, from 0; after the fifth they repeat."""
    return LEVELS[index % len(LEVELS)]


def render(draw: Callable[..., Figure], *arguments: Any) -> Picture:
    """Draw in the style of this module, whatever the user's settings, and write both forms."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figure = draw(*arguments)
        FigureCanvasAgg(figure)
        _settle(figure)
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "ncf-bench"})
    # Trailing blanks in the SVG's paths would trouble every `git diff --check`.
    lines = svg.getvalue().decode("utf-8").splitlines()
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return Picture(png.getvalue(), text.encode("utf-8"))


def _settle(figure: Figure) -> None:
    """Lay out once and round: the solver's last digits depend on the order of its sets."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        axes.set_position((round(left, 4), round(bottom, 4), round(width, 4), round(height, 4)))


def framed(
    panels: int,
    columns: int,
    panel: tuple[float, float],
    title: str,
    footer: Sequence[str],
    legend: Sequence[Any] = (),
) -> tuple[Figure, list[Any]]:
    """A figure of panels, with room for title, legend and footer measured in inches.

    Args:
        panels: how many there are.
        columns: panels from left to right.
        panel: width and height of one panel with its labels, inches.
        title: the heading, wrapped to the width.
        footer: machine, date and reading aid, each wrapped to the width.
        legend: labelled handles, set in a row between title and panels, never on data.

    Returns:
        The figure and the axes of its panels, row by row.
    """
    rows = math.ceil(panels / columns)
    width = max(columns * panel[0], 6.4)
    heading = textwrap.wrap(title, int(width * 9.6))
    notes = [line for part in footer for line in textwrap.wrap(part, int(width * 14.5))]
    per_row = _legend_columns(legend, width)
    legend_rows = math.ceil(len(legend) / per_row) if legend else 0
    above = 0.12 + 0.22 * len(heading) + 0.24 * legend_rows + 0.06
    below = 0.10 + 0.165 * len(notes)
    height = above + rows * panel[1] + below
    figure = Figure(figsize=(width, height), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(
        rect=(0.01, below / height, 0.98, 1 - (above + below) / height),
        w_pad=0.06,
        h_pad=0.05,
    )
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.set_visible(False)
    left = 0.12 / width
    top = 1 - 0.10 / height
    figure.text(
        left, top, "\n".join(heading), va="top", fontsize=12, fontweight="bold", linespacing=1.25
    )
    if legend:
        figure.legend(
            handles=list(legend),
            loc="upper left",
            bbox_to_anchor=(left, 1 - (0.10 + 0.22 * len(heading)) / height),
            ncols=per_row,
            borderaxespad=0,
            borderpad=0.2,
            columnspacing=1.6,
            handlelength=2.4,
        )
    figure.text(
        left, 0.08 / height, "\n".join(notes), va="bottom", fontsize=8, color=GREY, linespacing=1.3
    )
    return figure, axes[:panels]


def _legend_columns(legend: Sequence[Any], width: float) -> int:
    """All entries in one row if they fit, else as many columns as the longest allows.

    An entry takes its handle and gap (0.8 inch) and about 0.073 inch a character.
    """
    entries = [0.8 + 0.073 * len(str(handle.get_label())) for handle in legend] or [1.0]
    if sum(entries) <= width:
        return len(entries)
    return max(1, min(len(entries), int(width / max(entries))))


def legend_entry(label: str, **style: Any) -> Line2D:
    """A line or mark of the legend."""
    return Line2D([], [], label=label, **style)


def plot_points(ax: Axes, points: Iterable[tuple[float, float]], **style: Any) -> None:
    """Draw a line or marks through (x, y)."""
    points = list(points)
    ax.plot([x for x, _ in points], [y for _, y in points], **style)


Estimate = tuple[float, float, float]
"""A value, and the lower and upper end of its bar."""


def estimate(data: Summary | Ratio) -> Estimate:
    """A median or ratio with its interval, with its extremes where runs are few."""
    value = data.value if isinstance(data, Ratio) else data.median
    low = data.min if data.low is None else data.low
    high = data.max if data.high is None else data.high
    return value, value if low is None else low, value if high is None else high


def plot_estimates(ax: Axes, points: Sequence[tuple[float, Estimate]], **style: Any) -> None:
    """Draw (x, estimate) with error bars."""
    xs, ys = [x for x, _ in points], [value for _, (value, _, _) in points]
    below = [value - low for _, (value, low, _) in points]
    above = [high - value for _, (value, _, high) in points]
    ax.errorbar(xs, ys, (below, above), **style)


def write_label(
    ax: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write a label so many points away from (x, y)."""
    style = {"fontsize": 8.5, **style}
    ax.annotate(text, place, xytext=offset, textcoords="offset points", **style)


def write_reason(ax: Axes, reason: str) -> None:
    """Say in the middle of a panel why it is empty."""
    ax.text(0.5, 0.5, reason, ha="center", transform=ax.transAxes, color=GREY)


def whole_ticks(axis: Axis, most: int = 10) -> None:
    """Ticks at whole numbers only."""
    axis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))


MANY_DECADES = 2.2
"""Beyond so many decades only powers of ten get a tick."""


def logarithmic(
    ax: Axes,
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
    y_tick: Callable[[float], str] | None = None,
) -> None:
    """Make both axes logarithmic between these limits, with a grid; `y_tick` formats y."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*x_limits)
    ax.set_ylim(*y_limits)
    ax.grid(visible=True, axis="both")
    for axis, limits, tick in ((ax.xaxis, x_limits, short), (ax.yaxis, y_limits, y_tick or short)):
        decades = math.log10(limits[1] / limits[0])
        subs = (1.0,) if decades > MANY_DECADES else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(10, subs, numticks=max(3, math.ceil(decades) + 1)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _, tick=tick: tick(value)))


def short(value: float, top: float | None = None) -> str:
    """A tick's number, in the unit of `top` if given: 262144 -> "262 k", 5e11 -> "500 G"."""
    for scale, suffix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value and (top or value) >= scale:
            return f"{value / scale:.3g}{suffix}"
    return f"{value:g}"
