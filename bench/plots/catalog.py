"""The pictures that set cells of a whole block against each other, as bytes.

Pure apart from matplotlib.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.analysis import contrasts, grid
from bench.analysis.metrics import BEST_HR, PAIRS, THROUGHPUT
from bench.plots import comparison_plots
from bench.plots import curves as accuracy_plots
from bench.plots import histograms as histogram_plots
from bench.plots import inference as inference_plots
from bench.plots import roofline as roofline_plots
from bench.plots.style import Picture, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.grid import Block
    from bench.published.figures import Figure
    from bench.suite.model import Suite


def draw(
    suite: Suite, block: Block, title: str, where: str, figures: Sequence[Figure] = ()
) -> dict[str, Picture]:
    """The pictures of a block, by file name.

    Args:
        suite: what it asks to compare.
        block: the runs.
        title: the suite's name and data, for the headings.
        where: machine and date of the runs, for the footers.
        figures: the published ones.
    """
    pictures = {}
    for contrast in suite.equivalence:
        groups = contrasts.groups(block, contrast)
        margin = contrasts.margin_of(groups, suite.margin_hr, BEST_HR)
        if any(arm.pool.values(BEST_HR) for group in groups for arm in group.arms):
            name = "+".join(contrast.axes)
            pictures[f"curves-of-arms-{name}"] = render(
                partial(accuracy_plots.arms, block, contrast, title, where)
            )
            pictures[f"equivalence-{name}"] = render(
                partial(histogram_plots.levels, block, contrast, title, where, margin)
            )
    for contrast in suite.compare:
        groups = contrasts.groups(block, contrast)
        if any(arm.pool.values(THROUGHPUT) for group in groups for arm in group.arms):
            pictures[f"comparison-{'+'.join(contrast.axes)}"] = render(
                partial(comparison_plots.throughput, block, contrast, title, where)
            )
    if grid.has_roofline(block):
        pictures["roofline"] = render(lambda: roofline_plots.roofline(block, title, where))
    if grid.has_inference([block]):
        systems = suite.published_systems
        pictures["inference-throughput"] = render(
            lambda: inference_plots.throughput(block, title, where, figures, systems)
        )
    if grid.has_work(block, PAIRS):
        pictures["inference-latency"] = render(
            lambda: inference_plots.latencies(block, title, where)
        )
    return pictures
