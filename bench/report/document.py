"""The report of a suite as a page. Pure: grouped records, published figures and pictures in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.analysis import grid
from bench.analysis.aggregate import DEFAULT
from bench.analysis.grid import has_energy
from bench.analysis.labels import axes_text, one_line, precision_label
from bench.analysis.metrics import BEST_HR
from bench.published.comparability import differences
from bench.published.figures import SOURCES, distinct, select
from bench.render.model import Heading, Items, Quote, Tabled, Text
from bench.report import (
    about as about_page,
)
from bench.report import (
    published,
    resources,
    sections,
)
from bench.report.about import about
from bench.report.published import aggregation, orientation, side_by_side, speed_measure
from bench.report.training import accuracy, convergence, incomplete, peak_memory, throughput
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block
    from bench.analysis.group import Grouped
    from bench.published.figures import Figure
    from bench.records.attempt import Attempt
    from bench.render.model import Image, Node, Table
    from bench.suite.model import Suite


def page(
    suite: Suite,
    grouped: Grouped,
    figures: Sequence[Figure],
    unreadable: Sequence[tuple[str, str]],
    images: Mapping[int, Sequence[Image]],
    notation: Notation = DEFAULT,
    foreign: Sequence[Node] = (),
) -> list[Node]:
    """The whole report.

    Args:
        suite: what was planned.
        grouped: what the stored records say.
        figures: the published figures.
        unreadable: records that could not be read, path and reason.
        images: pictures by index of the block.
        notation: how runs become one number.
        foreign: the part on runs of other programs, if there are any.
    """
    nodes: list[Node] = [Heading(1, suite.title)]
    if suite.description:
        nodes.append(Text(suite.description))
    several = len(grouped.blocks) > 1
    if several:
        nodes.append(
            Quote(
                f"The runs were made under {len(grouped.blocks)} different conditions (machine, "
                "data or versions). They are never pooled: each has its own tables, the newest "
                "first."
            )
        )
    for index, block in enumerate(grouped.blocks):
        if several:
            nodes.append(Heading(1, f"Condition {index + 1} of {len(grouped.blocks)}"))
        nodes.append(Items(about(suite, block, grouped.blocks[0])))
        if index == 0:
            nodes.append(Text(notation.explained))
        if block.runs:
            nodes += _measured(suite, block, index + 1, figures, notation)
            nodes += _energy(block, index + 1, notation)
        else:
            nodes.append(Text("There is no good run yet."))
        nodes += _missing(block, index + 1)
        found = images.get(index, ())
        nodes += [Heading(2, "Pictures"), *found] if found else []
    if several:
        nodes.append(Heading(1, "All conditions"))
    nodes += _outside(grouped.strays, unreadable)
    nodes += foreign
    nodes += _published(suite, grouped.blocks, figures, notation)
    k = next((b.condition.topk for b in grouped.blocks if b.condition is not None), 10)
    parts = [about_page.TRAINING] if any(_trains(block) for block in grouped.blocks) else []
    parts += [about_page.INFERENCE] if grid.has_inference(grouped.blocks) else []
    items = about_page.items(parts, k, notation.aggregate)
    return [*nodes, Heading(2, "How the numbers are made"), Items(items)]


def _trains(block: Block) -> bool:
    """Whether a block is about training: one that was timed at inference alone is not."""
    return any(run.epochs for run in block.runs) or not grid.has_inference([block])


def _measured(
    suite: Suite, block: Block, number: int, figures: Sequence[Figure], notation: Notation
) -> list[Node]:
    nodes: list[Node] = []
    if _trains(block):
        nodes += _training(suite, block, number, figures, notation)
    nodes += sections.inference_sections(suite, block, number, notation)
    nodes += _memory(block, number, notation)
    if _trains(block):
        nodes += sections.comparisons(suite, block, number, notation)
        nodes += sections.reach(block, number, notation)
    return nodes


def _training(
    suite: Suite, block: Block, number: int, figures: Sequence[Figure], notation: Notation
) -> list[Node]:
    assert block.condition is not None
    k, data = block.condition.topk, block.condition.dataset

    def tabled(name: str, title: str, make: Callable[[Block, Notation], Table]) -> Tabled:
        return Tabled(name, title, partial(make, block, notation), one_line(block), number)

    how = notation.name
    nodes: list[Node] = [
        Heading(2, f"Training accuracy ({how})"),
        Text(
            f"Best HR@{k} per run among 1 + {data.candidates_per_user} candidates (protocol "
            f"`{data.protocol}`). The last rows are what ranking by popularity and by chance reach "
            "on the same candidates."
        ),
        tabled("accuracy", f"Best HR@{k}, {how}", accuracy),
    ]
    low = [
        f"{precision_label(block, pool.tally.cell.precision)} ({axes_text(pool.tally.cell.axes)})"
        for pool in block.pools
        if not isinstance(hr := pool.summary(BEST_HR), Missing)
        and hr.median <= data.popularity_hr_at_k
    ]
    if low:
        nodes.append(Quote(f"Not better than popularity: {'; '.join(low)}."))
    nodes.append(tabled("convergence", f"Convergence, {how}", convergence))
    nodes += sections.verdict(suite, block, number, figures)
    nodes.append(Heading(2, f"Training throughput ({how})"))
    if suite.measures == "accuracy":
        nodes.append(
            Quote(
                "This suite measures accuracy: its runs may have shared the machine, one on each "
                "GPU. Their speed is not that of a run alone."
            )
        )
    nodes += [
        tabled("throughput", f"Training throughput, {how}", throughput),
    ]
    machine = block.condition.machine
    if not machine.gpus and any(row.ranks > 1 for row in block.rows):
        nodes.append(
            Text(
                f"All ranks share the {machine.cores} cores of one machine: strong scaling shows "
                "how well they divide them, not what more hardware would bring."
            )
        )
    if resources.has_communication(block):
        title = f"Communication, {how}"
        nodes.append(Text(resources.COMMUNICATION))
        nodes.append(tabled("communication", title, resources.communication))
    return nodes


def _memory(block: Block, number: int, notation: Notation) -> list[Node]:
    assert block.condition is not None
    what = "device memory" if block.condition.machine.gpus else "resident memory"
    title = f"Peak {what}, {notation.name}"
    table = partial(peak_memory, block, notation)
    return [
        Heading(2, f"Peak memory ({notation.name})"),
        Text(f"Peak {what} of the rank that needed most."),
        Tabled("memory", title, table, one_line(block), number),
    ]


def _energy(block: Block, number: int, notation: Notation) -> list[Node]:
    """Nothing where no run has its energy recorded."""
    if not has_energy(block):
        return []
    title = f"Energy ({notation.name})"
    table = partial(resources.energy, block, notation)
    return [
        Heading(2, title),
        Text(
            "Energy of the run's GPUs, from its start on, set-up and evaluation included; the rest "
            "of the machine is not. *To best*: until the end of the epoch with the best hit rate."
        ),
        Tabled("energy", title, table, one_line(block), number),
    ]


def _missing(block: Block, number: int) -> list[Node]:
    table = incomplete(block.tallies)
    heading = Heading(2, "Failed, missing and unavailable runs")
    if table is None:
        return [heading, Text("None: every planned run is there and no attempt failed.")]
    return [heading, Tabled("missing", heading.text, table, one_line(block), number)]


def _outside(strays: Sequence[Attempt], unreadable: Sequence[tuple[str, str]]) -> list[Node]:
    nodes: list[Node] = []
    if strays:
        keys = ", ".join(f"`{key}`" for key in sorted({attempt.cell.key for attempt in strays}))
        nodes.append(
            Text(
                f"{len(strays)} stored attempts belong to cells that the suite does not have (any "
                f"more) and enter no number: {keys}."
            )
        )
    if unreadable:
        nodes.append(Text("Records that could not be read, and enter no number:"))
        nodes.append(Items(tuple(f"`{path}`: {reason}" for path, reason in unreadable)))
    return [Heading(2, "Records left out"), *nodes] if nodes else []


def _published(
    suite: Suite, blocks: Sequence[Block], figures: Sequence[Figure], notation: Notation
) -> list[Node]:
    nodes: list[Node] = []
    trains = any(_trains(block) for block in blocks)
    for system in suite.published_systems:
        own = select(figures, system=system)
        if not own:
            nodes.append(Heading(3, system))
            nodes.append(Text("There are no published figures of this system."))
        for source in distinct(own, "source") if trains else ():
            nodes += _published_part(system, source, blocks, select(own, source=source), notation)
    nodes += sections.published_inference(suite, blocks, figures, notation)
    return [Heading(2, "Published figures"), *nodes] if nodes else []


def _published_part(
    system: str,
    source: str,
    blocks: Sequence[Block],
    figures: Sequence[Figure],
    notation: Notation,
) -> list[Node]:
    tables = orientation(figures, notation)
    if not tables:
        return []
    title = f"{system}: {SOURCES.get(source, source)}"
    ours = {"median": "medians", "mean": "means", "best": "best runs"}[notation.aggregate]
    if speed_measure(figures, notation).name == "best_epoch_throughput":
        ours += " (samples/s: of each run's best epoch)"
    how = f"How the source makes one number of its runs: {aggregation(figures)}. Ours are {ours}."
    return published.published_part(
        title,
        how,
        blocks,
        [differences(block, system) for block in blocks],
        lambda block: side_by_side(block, figures, notation),
        tables,
        figures,
        notation,
    )
