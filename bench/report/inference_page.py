"""The parts of a report about inference. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis import grid
from bench.analysis.grid import has_inference
from bench.analysis.labels import one_line
from bench.analysis.metrics import PAIRS, RANKING
from bench.published import comparability
from bench.published.figures import SOURCES, distinct, select
from bench.published.tables import inference_part
from bench.render.model import Heading, Tabled, Text
from bench.report import inference, inference_published
from bench.report.published import published_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block
    from bench.published.figures import Figure
    from bench.render.model import Node, Table
    from bench.suite.model import Suite


def measured(suite: Suite, block: Block, number: int, notation: Notation) -> list[Node]:
    """Throughput, latency and ranking of one block, and what the suite asks to compare."""
    how = notation.name
    nodes: list[Node] = []

    def tabled(name: str, title: str, table: Table) -> Tabled:
        return Tabled(name, title, table, one_line(block), number)

    if grid.has_work(block, PAIRS):
        title, rates = f"Inference throughput ({how})", inference.throughput(block, notation)
        nodes += [Heading(2, title), tabled("inference", title, rates)]
        title, times = f"Inference latency ({how})", inference.latencies(block, notation)
        nodes += [
            Heading(2, title),
            Text("Of one call. *Calls*: timed calls of a run; *runs*: what the spreads are over."),
            tabled("latency", title, times),
        ]
    if grid.has_work(block, RANKING):
        title = f"Ranking the whole catalogue ({how})"
        nodes += [Heading(2, title), tabled("ranking", title, inference.ranking(block, notation))]
    for contrast in suite.compare:
        for work, name in ((PAIRS, "inference"), (RANKING, "ranking")):
            table = inference.compared(block, contrast, work, notation)
            if table is not None:
                title = f"Comparison of {' and '.join(contrast.axes)} in {name} ({how})"
                nodes += [Heading(2, title), tabled("comparison", title, table)]
    return nodes


def published(
    suite: Suite, blocks: Sequence[Block], figures: Sequence[Figure], notation: Notation
) -> list[Node]:
    """The published inference of the suite's systems: beside ours, or alone with the reasons."""
    nodes: list[Node] = []
    if not has_inference(blocks):
        return nodes
    for system in suite.published_systems:
        own = comparability.of_inference(select(figures, system=system))
        for source in distinct(own, "source"):
            nodes += _one(system, source, blocks, select(own, source=source), notation)
    return nodes


def _one(
    system: str,
    source: str,
    blocks: Sequence[Block],
    figures: Sequence[Figure],
    notation: Notation,
) -> list[Node]:
    title = f"Inference on {system}: {SOURCES.get(source, source)}"
    ways = [way for way in distinct(figures, "aggregation") if way]
    how = f"How the source makes one number of its runs: {', '.join(ways) or 'not stated'}."
    table, _ = inference_part(figures, notation.digits)
    return published_part(
        title,
        how,
        blocks,
        [comparability.inference_differences(block, system, figures) for block in blocks],
        lambda block: inference_published.side_by_side(block, figures, notation),
        [table],
        figures,
        notation,
    )
