"""The picture of the scaling model, with the published points. Pure apart from matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.drawing import GREY, INK, LOOKS, Frame, framed
from bench.scaling_tables import BATCH, RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Drawing

    from bench.scaling import Parallel
    from bench.scaling_tables import Known

_LINES: dict[Parallel, Any] = {
    "replicated": {"color": LOOKS["amp"].color, "ls": "--", "marker": "^"},
    "user-sharded": {"color": LOOKS["fp32"].color, "ls": "-", "marker": "o"},
}


def curves(series: Sequence[Known], system: str) -> Drawing:
    """Predicted samples/s over GPUs; a column for each series, strong above weak scaling."""
    ideal: Any = {"color": GREY, "lw": 1.2, "ls": (0, (6, 2))}
    lines = [Line2D([], [], lw=1.6, ms=4, label=f"model, {k}", **v) for k, v in _LINES.items()]
    marks: list[Any] = [
        Line2D([], [], color=INK, ls="", marker=mark, ms=6, mfc="none", label=f"published, {label}")
        for mark, label in (("s", "fitted on"), ("D", "left out"))
    ]
    legend = [*lines, Line2D([], [], label="ideal", **ideal), *marks]
    checks = [
        f"{one.label}: {100 * one.error(n):+.1f} % at {n}" for one in series for n in one.checks
    ]
    errors = "; ".join(checks)
    frame = Frame(
        f"{system}: strong and weak scaling by an alpha-beta model",
        (
            f"Nothing here was measured by us. Error of the model at the GPUs left out: {errors}.",
            "Assumptions: docs/scaling.md.",
        ),
    )
    figure, axes = framed(2, len(series), (3.8, 2.9), frame, legend)
    for column, one in enumerate(series):
        strong, weak = axes[0][column], axes[1][column]
        alone = one.rate(1)
        strong.plot(RANKS, [alone * n for n in RANKS], **ideal)
        weak.plot(RANKS, [100.0] * len(RANKS), **ideal)
        lowest = 80.0
        for kind, style in _LINES.items():
            strong.plot(RANKS, [one.rate(n, kind) for n in RANKS], lw=1.6, ms=4, **style)
            shares = [100 * one.rate(n, kind, BATCH * n) / alone / n for n in RANKS]
            weak.plot(RANKS, shares, lw=1.6, ms=4, **style)
            lowest = min([lowest, *(share - 2 for share in shares)])
        for n, rate in one.rates.items():
            mark = "D" if n in one.checks else "s"
            strong.plot([n], [rate], ls="", marker=mark, ms=7, mfc="none", mec=INK, zorder=5)
        strong.set_title(f"{one.label}: strong", loc="left")
        strong.set_yscale("log")
        strong.set_ylim(alone / 1.5, alone * 64)  # ideal leaves the panel
        strong.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:g} M"))
        weak.set_title(f"{one.label}: weak", loc="left")
        weak.set_ylim(lowest, 102)
        weak.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        weak.set_xlabel("GPUs")
        for ax in (strong, weak):
            ax.set_xscale("log", base=2)
            ax.xaxis.set_major_locator(FixedLocator((1, 2, 4, 8, 16, 64, 512)))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0][0].set_ylabel("samples/s, global batch 1,048,576")
    axes[1][0].set_ylabel("efficiency, 1,048,576 per GPU")
    return figure
