"""Every attempt of a suite, by condition and cell: what a report's numbers are made of. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from bench import units
from bench.cells import Cell, Number
from bench.html import RunList
from bench.labels import axes_text, counted
from bench.measures import BEST_HR, THROUGHPUT, TIME_TO_BEST
from bench.stats import Missing
from bench.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.grid import Pool
    from bench.group import Grouped
    from bench.measures import Measure
    from bench.store import Attempt

HEADERS = (
    "Seed", "Attempt", "Status", "Best HR", "Samples/s", "Time to best (s)", "Started (UTC)",
    "Message", "Record",
)  # fmt: skip


def run_lists(grouped: Grouped, attempts: Sequence[Attempt]) -> list[RunList]:
    """A list per block and cell that has attempts, in the order of the tables."""
    owners: dict[int, int] = {}  # by identity: the very attempts and runs that were grouped
    homes: dict[str, int] = {}
    for number, block in enumerate(grouped.blocks):
        for pool in block.pools:
            homes.setdefault(pool.tally.cell.key, number)
            owners |= {id(one): number for one in (*pool.runs, *pool.tally.failed)}
    found: dict[tuple[int, str], list[Attempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda a: (a.seed, a.attempt)):
        key = attempt.cell.key
        owner = owners.get(id(attempt.run) if attempt.ok else id(attempt), homes.get(key))
        if owner is not None:  # else its cell is outside the grid
            found[owner, key].append(attempt)
    return [
        _run_list(number + 1, pool, found[number, pool.tally.cell.key])
        for number, block in enumerate(grouped.blocks)
        for pool in block.pools
        if (number, pool.tally.cell.key) in found
    ]


def _run_list(number: int, pool: Pool, attempts: Sequence[Attempt]) -> RunList:
    cell = pool.tally.cell
    counts = {id(run) for run in pool.runs}
    rows, links = [], []
    for attempt in attempts:
        later = attempt.ok and id(attempt.run) not in counts
        message = "a later attempt of this seed counts" if later else ""
        message = attempt.failure.message if attempt.failure else message
        message = "; ".join(part for part in (message, ", ".join(attempt.flags)) if part)
        rows.append(
            (
                str(attempt.seed),
                str(attempt.attempt),
                attempt.status,
                _value(attempt, BEST_HR, units.hit_rate),
                _value(attempt, THROUGHPUT, units.count),
                _value(attempt, TIME_TO_BEST, units.seconds),
                attempt.started_at.replace("T", " ").removesuffix("Z"),
                message,
                "record",
            )
        )
        links.append(f"records/{cell.key}/seed{attempt.seed}-a{attempt.attempt}.json")
    table = Table(HEADERS, tuple(rows), ("Status", "Started (UTC)", "Message", "Record"))
    note = counted(len(pool.runs), pool.tally)
    return RunList(number, cell.key, axes_text(cell.axes), note, table, tuple(links))


def _value(attempt: Attempt, measure: Measure, form: units.Formatter) -> str:
    if attempt.run is None or not attempt.ok:
        return ""
    value = measure.of(attempt.run)
    if isinstance(value, Missing):
        return Cell(units.not_available(value.reason), Number(None, unit=measure.unit))
    return Cell(form(value), Number(value, n=1, unit=measure.unit))
