"""One published system in a report: beside the runs it can be compared with, or alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.about import one_line
from bench.page import Heading, Tabled, Text
from bench.published import is_inverted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.grid import Block
    from bench.notation import Notation
    from bench.page import Node
    from bench.published import Figure
    from bench.tables import Table


def part(
    title: str,
    how: str,
    blocks: Sequence[Block],
    gaps: Sequence[Sequence[str]],
    beside: Callable[[Block], Table],
    alone: Sequence[Table],
    figures: Sequence[Figure],
    notation: Notation,
) -> list[Node]:
    """Heading, how the source counts, and tables.

    Args:
        title: of the system and source.
        how: what one number of the source, and of ours, is.
        blocks: ours.
        gaps: what parts each block from the source's setting; empty where they can be compared.
        beside: the table of a block and the figures.
        alone: the figures' own tables, for where no block can be compared.
        figures: of this system and source.
        notation: of the report.
    """
    same = [index for index, found in enumerate(gaps) if not found]
    if same:
        name = f"Ours ({notation.name}) beside {title}"
        tables = [
            Tabled("published", name, beside(blocks[i]), one_line(blocks[i]), i + 1) for i in same
        ]
        return [Heading(3, title), Text(how), *tables]
    if is_inverted(figures):
        how += " The source prints its speed-ups inverted; here they stand upright."
    reasons = "; ".join(gaps[0])
    return [
        Heading(3, title),
        Text(f"For orientation only, not comparable with the runs above: {reasons}. {how}"),
        *(Tabled("published", title, table) for table in alone),
    ]
