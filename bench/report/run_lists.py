"""Every attempt of a suite, by condition and cell: what a report's numbers are made of. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from bench.analysis import metrics
from bench.analysis.labels import axes_text, counted
from bench.analysis.metrics import BEST_HR, THROUGHPUT, TIME_TO_BEST
from bench.render import units
from bench.render.html import RunList
from bench.render.model import Estimate, Table
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.grid import Pool
    from bench.analysis.group import Grouped
    from bench.analysis.metrics import Metric
    from bench.records.attempt import Attempt
    from bench.render.model import Item

Column = tuple[str, "Metric", units.Formatter]

TRAINING: tuple[Column, ...] = (
    ("Best HR", BEST_HR, units.hit_rate),
    ("Samples/s", THROUGHPUT, units.count),
    ("Time to best (s)", TIME_TO_BEST, units.seconds),
)


def run_lists(grouped: Grouped, attempts: Sequence[Attempt]) -> list[RunList]:
    """A list per block and cell that has attempts, in the order of the tables."""
    owners: dict[tuple[str, int, int], int] = {}
    homes: dict[str, int] = {}
    for number, block in enumerate(grouped.blocks):
        for pool in block.pools:
            homes.setdefault(pool.tally.cell.key, number)
            owners |= {_key(one): number for one in (*pool.attempts, *pool.tally.failed)}
    found: dict[tuple[int, str], list[Attempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda a: (a.seed, a.attempt)):
        key = attempt.cell.key
        owner = owners.get(_key(attempt), homes.get(key))
        if owner is not None:  # else its cell is outside the grid
            found[owner, key].append(attempt)
    return [
        _run_list(number + 1, pool, found[number, pool.tally.cell.key])
        for number, block in enumerate(grouped.blocks)
        for pool in block.pools
        if (number, pool.tally.cell.key) in found
    ]


def _key(attempt: Attempt) -> tuple[str, int, int]:
    return attempt.cell.key, attempt.seed, attempt.attempt


def _run_list(number: int, pool: Pool, attempts: Sequence[Attempt]) -> RunList:
    cell, columns = pool.tally.cell, _columns(pool)
    counted_keys = {_key(attempt) for attempt in pool.attempts}
    rows, links = [], []
    for attempt in attempts:
        later = attempt.ok and _key(attempt) not in counted_keys
        message = "a later attempt of this seed counts" if later else ""
        message = attempt.failure.message if attempt.failure else message
        message = "; ".join(part for part in (message, ", ".join(attempt.flags)) if part)
        rows.append(
            (
                attempt.seed,
                attempt.attempt,
                attempt.status,
                *(_value(attempt, measure, form) for _, measure, form in columns),
                attempt.started_at.replace("T", " ").removesuffix("Z"),
                message,
                "record",
            )
        )
        links.append(f"records/{cell.key}/seed{attempt.seed}-a{attempt.attempt}.json")
    headers = ("Seed", "Attempt", "Status", *(name for name, _, _ in columns), "Started (UTC)")
    left = ("Status", "Started (UTC)", "Message", "Record")
    table = Table((*headers, "Message", "Record"), tuple(rows), left)
    note = counted(len(pool.runs), pool.tally)
    return RunList(number, cell.key, axes_text(cell.axes), note, table, tuple(links))


def _columns(pool: Pool) -> tuple[Column, ...]:
    """What a run is worth in three numbers: of training or, where none was trained, inference."""
    pairs, users = (metrics.batches(pool.runs, work) for work in ("pairs", "ranking"))
    if any(run.epochs for run in pool.runs) or not (pairs or users):
        return TRAINING
    found: list[Column] = []
    if pairs:
        rate = metrics.scores_rate("pairs", pairs[-1])
        median = metrics.latency("pairs", pairs[0], "p50")
        found.append((f"Samples/s at batch {units.count(pairs[-1])}", rate, units.count))
        found.append((f"p50 at batch {units.count(pairs[0])} (ms)", median, units.milliseconds))
    if users:
        ranked = metrics.users_rate(users[-1])
        found.append((f"Users/s, {units.count(users[-1])} a call", ranked, units.compact))
    return tuple(found)


def _value(attempt: Attempt, metric: Metric, form: units.Formatter) -> Item:
    if attempt.run is None or not attempt.ok:
        return ""
    value = metric.of(attempt)
    if isinstance(value, Missing):
        return Estimate(None, form, value.reason, unit=metric.unit)
    return Estimate(value, form, n=1, unit=metric.unit)
