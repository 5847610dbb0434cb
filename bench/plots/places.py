"""What a picture shows: precisions or the arms of a comparison, side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.analysis import contrasts
from bench.analysis.labels import cell_name, counted, precision_label, ranks_text, sizes_text
from bench.plots.style import FILLS, framed, level_look, look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Drawing

    from bench.analysis.grid import Block, Pool
    from bench.analysis.metrics import Metric
    from bench.plots.style import Look
    from bench.published.figures import Figure
    from bench.suite.model import Contrast


@dataclass(frozen=True)
class Subject:
    """The runs that a picture shows, and what is known of them.

    Args:
        block: the runs.
        title: the suite's name and the values of the other axes, for the heading.
        where: machine and date of the runs, for the footer.
        contrast: the comparison to show; without one, precisions are compared.
        margin: the difference of hit rates that matters, if it is known.
        figures: the published figures.
        systems: the published systems to draw.
    """

    block: Block
    title: str
    where: str
    contrast: Contrast | None = None
    margin: float | None = None
    figures: Sequence[Figure] = ()
    systems: Sequence[str] = ()

    def figure(
        self,
        heading: str,
        note: str,
        legend: Sequence[Any],
        panel: tuple[float, float],
        panels: int = 1,
        columns: int | None = None,
    ) -> tuple[Drawing, list[Any]]:
        """An empty figure and the axes of its panels, in one row by default; see `framed`."""
        title, footer = f"{self.title}: {heading}", (self.where, note)
        return framed(panels, columns or panels, panel, title, footer, legend)

    def places(self, metric: Metric) -> list[Place]:
        """The cells side by side: by the contrast if there is one, else by precision."""
        if self.contrast is None:
            return _by_precision(self.block)
        return _by_arm(self.block, self.contrast, metric)

    def has(self, metric: Metric, runs: int = 1) -> bool:
        """Whether a cell has the quantity in so many runs."""
        pools = (pool for place in self.places(metric) for pool in place.pools)
        return any(len(pool.values(metric)) >= runs for pool in pools)


@dataclass(frozen=True)
class Series:
    """The runs of one cell, its name in the legend and its look; no pool where no cell is."""

    name: str
    look: Look
    pool: Pool | None


@dataclass(frozen=True)
class Place:
    """Cells that differ in the compared axes alone: a group of bars, a panel of curves.

    `words` name what the cells have in common, `sizes` their sample sizes. All places of a
    picture have the same series, the reference first.
    """

    words: tuple[str, ...]
    sizes: str
    series: tuple[Series, ...]

    @property
    def pools(self) -> list[Pool]:
        """The pools of the cells."""
        return [series.pool for series in self.series if series.pool is not None]


def _by_precision(block: Block) -> list[Place]:
    """A place per row of the grid, with a series per precision."""
    return [
        Place(
            (ranks_text(row),),
            sizes_text(block, row),
            tuple(
                Series(precision_label(block, precision), look(precision), row.pools[precision])
                for precision in block.precisions
            ),
        )
        for row in block.rows
    ]


def _by_arm(block: Block, contrast: Contrast, metric: Metric) -> list[Place]:
    """A place per comparison of the grid, with a series per arm; `metric` is counted."""
    groups = [
        (group, {contrasts.level(block, contrast, arm): arm.pool for arm in group.arms})
        for group in contrasts.groups(block, contrast)
    ]
    names = dict.fromkeys(name for _, pools in groups for name in pools)
    places = []
    for group, pools in groups:
        sizes = [counted(len(pool.values(metric)), pool.tally) for pool in pools.values()]
        places.append(
            Place(
                tuple(contrasts.words(block, group)),
                sizes[0] if len(set(sizes)) == 1 else "; ".join(sizes),
                tuple(
                    Series(name, level_look(index), pools.get(name))
                    for index, name in enumerate(names)
                ),
            )
        )
    return places


@dataclass(frozen=True)
class Cell:
    """One cell of the grid: its name, its runs, and the arguments of its line with markers."""

    name: str
    ranks: int
    pool: Pool
    style: dict[str, Any]


def cells(block: Block) -> list[Cell]:
    """All cells of a block, also those without a good run."""
    rests = list(dict.fromkeys(row.rest for row in block.rows))
    return [
        Cell(
            cell_name(block, row, precision),
            row.ranks,
            pool,
            {**look(precision).curve, "fillstyle": FILLS[rests.index(row.rest) % len(FILLS)]},
        )
        for row, precision, pool in block.cells()
    ]
