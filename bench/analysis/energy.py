"""Energy of runs, from what the driver's counters told while they ran. Pure.

The energy is that of the run's GPUs over the whole process: set-up and evaluation included, the
rest of the machine not. Runs without a known figure for every GPU have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis.labels import head, precision_label, rest_names, word_names
from bench.analysis.measures import joules, joules_to_best, samples_per_joule
from bench.render import units
from bench.render.model import Cell, Number, Table
from bench.stats.summary import Missing, Summary, Value, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.records.attempt import Attempt


def summary(
    pool: Pool, attempts: Mapping[int, Attempt], measure: Callable[[Attempt], Value]
) -> Summary | Missing:
    """A quantity over the runs of a pool that have it."""
    found = values(pool, attempts, measure)
    return summarize(found) if found else Missing("not recorded" if pool.runs else "no good run")


def values(
    pool: Pool, attempts: Mapping[int, Attempt], measure: Callable[[Attempt], Value]
) -> list[float]:
    """The quantity of every run that has it."""
    own = [attempts[id(run)] for run in pool.runs if id(run) in attempts]
    return [value for attempt in own if not isinstance(value := measure(attempt), Missing)]


def known(block: Block, attempts: Mapping[int, Attempt]) -> bool:
    """Whether any run of a block has its energy recorded."""
    return any(values(pool, attempts, joules) for pool in block.pools)


def table(block: Block, attempts: Mapping[int, Attempt], notation: Notation) -> Table:
    """Samples per joule and energy to the best HR@k, by ranks and precision."""
    labels = [precision_label(block, precision) for precision in block.precisions]

    def cell(
        pool: Pool,
        measure: Callable[[Attempt], Value],
        better: str,
        unit: str,
    ) -> Cell:
        data = summary(pool, attempts, measure)
        keys = (pool.tally.cell.key,)
        if isinstance(data, Missing):
            return Cell(units.not_available(data.reason), Number(None, n=0, unit=unit), keys)
        text = f"{notation.text(data, units.count, better)}, n={data.n}"
        return Cell(text, Number(notation.value(data, better), n=data.n, unit=unit), keys)

    rows = []
    for row in block.rows:
        pools = [row.pools[precision] for precision in block.precisions]
        rows.append(
            (
                *head(row),
                *(cell(p, samples_per_joule, "higher", "samples/J") for p in pools),
                *(cell(p, joules_to_best, "lower", "J") for p in pools),
            )
        )
    headers = ("Ranks", *rest_names(block), *(f"{label} (samples/J)" for label in labels))
    return Table(
        (*headers, *(f"{label} to best (J)" for label in labels)), tuple(rows), word_names(block)
    )
