"""The parts of a report that a suite asks for: verdicts on accuracy, comparisons. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.analysis import contrasts, grid
from bench.analysis.grid import has_inference
from bench.analysis.labels import one_line
from bench.analysis.metrics import BEST_HR, PAIRS, RANKING
from bench.published import comparability
from bench.published.figures import SOURCES, distinct, select
from bench.published.tables import inference_part
from bench.render import units
from bench.render.model import Heading, Quote, Table, Tabled, Text
from bench.report import inference, verdicts
from bench.report import resources as roofline
from bench.report.published import inference_side_by_side, published_part
from bench.suite.model import SPREAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block
    from bench.published.figures import Figure
    from bench.render.model import Node
    from bench.suite.model import Contrast, Suite


COMPARED = (
    "Tested / reference, cells that agree in everything else: above 1 is faster in throughput and "
    "more in memory. {spread}"
)
ROOFLINE = (
    "FLOP and bytes of a training sample are counted from the formulation's shapes. Both peaks "
    "were measured in the run's own process: a large matmul in its compute type, and a large copy "
    "(bytes read plus bytes written). The limit is min(matmul peak, FLOP/byte x copy peak); "
    "*achieved* is samples/s x FLOP/sample. All are those of one rank. More than 100 % of a limit "
    "by memory means that part of the bytes came from caches, which a large copy does not see."
)
SPREADS = {
    "median": "Ratios divide medians; their intervals combine those of the two medians on the log "
    "scale, their extremes are those over all pairs of runs.",
    "mean": "Ratios divide means.",
    "best": "Ratios divide best runs.",
}


def verdict(suite: Suite, block: Block, number: int, figures: Sequence[Figure]) -> list[Node]:
    """Whether reduced precision, and whatever else the suite asks about, trains as well."""
    asked = list(suite.equivalence)
    by_precision = contrasts.precisions(block)
    if by_precision and len(block.precisions) > 1 and by_precision not in asked:
        asked.insert(0, by_precision)
    nodes: list[Node] = []
    warnings: list[str] = []
    if asked and suite.margin_hr is None:
        why = "the suite does not say which difference would matter (`[report] margin_hr`)"
        nodes, asked = [Text(f"None: {why}.")], []
    for contrast in asked:
        first = not any(isinstance(node, Tabled) for node in nodes)
        found, extra = _one_verdict(suite, block, number, contrast, explain=first)
        nodes += found
        warnings += extra
    warnings += verdicts.too_good(block, figures)
    if warnings:
        nodes.append(Quote(f"Too good to be true? {'; '.join(warnings)}. Look for a leak first."))
    return [Heading(2, "Verdict on accuracy"), *nodes] if nodes else []


def comparisons(suite: Suite, block: Block, number: int, notation: Notation) -> list[Node]:
    """Speed and memory over a reference's, for every axis that the suite asks about."""
    nodes: list[Node] = []
    for contrast in suite.compare:
        named = " and ".join(contrast.axes)
        lines = verdicts.pairs(block, contrast)
        if not lines:
            continue
        table = partial(verdicts.speed_and_memory, block, contrast, lines, notation)
        title = f"Comparison of {named} ({notation.name})"
        nodes += [
            Heading(2, title),
            Text(COMPARED.format(spread=SPREADS[notation.aggregate])),
            Tabled("comparison", title, table, one_line(block), number),
        ]
    return nodes


def reach(block: Block, number: int, notation: Notation) -> list[Node]:
    """How near training came to the machine's limits; nothing where no run was probed."""
    if not grid.has_roofline(block):
        return []
    title = f"Roofline ({notation.name})"
    table = partial(roofline.table, block, notation)
    return [
        Heading(2, title),
        Text(ROOFLINE),
        Tabled("roofline", title, table, one_line(block), number),
    ]


def _one_verdict(
    suite: Suite, block: Block, number: int, contrast: Contrast, *, explain: bool
) -> tuple[list[Node], list[str]]:
    """One comparison's table, and what looks too good in it."""
    assert block.condition is not None
    k = block.condition.topk
    groups = contrasts.groups(block, contrast)
    margin = contrasts.margin_of(groups, suite.margin_hr, BEST_HR)
    named = "" if contrast.axes == ("precision",) else f", {' and '.join(contrast.axes)}"
    if margin is None:
        why = "the margin is the reference's SD over seeds, and no reference has runs that differ"
        return [Text(f"None{named.replace(',', ' on')}: {why}.")], []
    lines = verdicts.verdicts_of(block, margin, contrast)
    if not lines:
        return ([Text(f"None on {named[2:]}: an arm has no good run.")] if named else []), []
    nodes: list[Node] = [Text(verdicts.EXPLAINED.format(k=k))] if explain else []
    if suite.margin_hr == SPREAD:
        runs = sum(len(group.reference.pool.values(BEST_HR)) for group in groups)
        names = {contrasts.level(block, contrast, group.reference) for group in groups}
        nodes.append(
            Text(
                f"Margin: the standard deviation over seeds of {' and '.join(sorted(names))}, "
                f"{units.significant(margin, 3)} ({runs} runs, pooled within cells). It is "
                "estimated from the runs that are tested, so the error of 5 % holds approximately."
            )
        )
    title = f"Verdict on HR@{k}{named}"
    nodes.append(
        Tabled(
            "verdict",
            title,
            partial(verdicts.table, block, contrast, lines),
            one_line(block),
            number,
        )
    )
    better = verdicts.better_than_full(block, contrast, lines) if not named else []
    return nodes, better


def inference_sections(suite: Suite, block: Block, number: int, notation: Notation) -> list[Node]:
    """Throughput, latency and ranking of one block, and what the suite asks to compare."""
    how = notation.name
    nodes: list[Node] = []

    def tabled(name: str, title: str, make: Callable[[Block, Notation], Table]) -> Tabled:
        return Tabled(name, title, partial(make, block, notation), one_line(block), number)

    if grid.has_work(block, PAIRS):
        title = f"Inference throughput ({how})"
        nodes += [Heading(2, title), tabled("inference", title, inference.throughput)]
        title = f"Inference latency ({how})"
        nodes += [
            Heading(2, title),
            Text("Of one call. *Calls*: timed calls of a run; *runs*: what the spreads are over."),
            tabled("latency", title, inference.latencies),
        ]
    if grid.has_work(block, RANKING):
        title = f"Ranking the whole catalogue ({how})"
        nodes += [Heading(2, title), tabled("ranking", title, inference.ranking)]
    for contrast in suite.compare:
        for work, name in ((PAIRS, "inference"), (RANKING, "ranking")):
            if grid.has_work(block, work) and verdicts.pairs(block, contrast):
                title = f"Comparison of {' and '.join(contrast.axes)} in {name} ({how})"
                make = partial(inference.compared, contrast=contrast, work=work)
                nodes += [Heading(2, title), tabled("comparison", title, make)]
    return nodes


def published_inference(
    suite: Suite, blocks: Sequence[Block], figures: Sequence[Figure], notation: Notation
) -> list[Node]:
    """The published inference of the suite's systems: beside ours, or alone with the reasons."""
    nodes: list[Node] = []
    if not has_inference(blocks):
        return nodes
    for system in suite.published_systems:
        own = comparability.of_inference(select(figures, system=system))
        for source in distinct(own, "source"):
            nodes += _one_published(system, source, blocks, select(own, source=source), notation)
    return nodes


def _one_published(
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
        lambda block: inference_side_by_side(block, figures, notation),
        [table],
        figures,
        notation,
    )
