"""Energy of runs, from what the driver's counters told while they ran. Pure.

The energy is that of the run's GPUs over the whole process: set-up and evaluation included, the
rest of the machine not. Runs without a known figure for every GPU have none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench import units
from bench.cells import Cell, Number
from bench.labels import head, precision_label, rest_names, word_names
from bench.measures import best_epoch
from bench.stats import Missing, Summary, Value, summarize
from bench.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.grid import Block, Pool
    from bench.notation import Notation
    from bench.store import Attempt


def joules(attempt: Attempt) -> Value:
    """Energy of all GPUs of a run."""
    gpus = (attempt.telemetry or {}).get("gpus") or []
    found = [gpu.get("energy_joules") for gpu in gpus]
    if not found or any(not _positive(value) for value in found):
        return Missing("not recorded")
    return math.fsum(found)


def samples_per_joule(attempt: Attempt) -> Value:
    """Training samples per joule."""
    energy = joules(attempt)
    if isinstance(energy, Missing) or attempt.run is None:
        return energy
    samples = sum(epoch.samples for epoch in attempt.run.epochs)
    return samples / energy if samples else Missing("no samples")


def joules_to_best(attempt: Attempt) -> Value:
    """Energy until the end of the epoch with the best hit rate, from the start of the process."""
    used = (attempt.telemetry or {}).get("epoch_energy_joules") or {}
    best = best_epoch(attempt.run) if attempt.run else None
    value: Any = used.get(str(best.epoch)) if best else None
    return float(value) if _positive(value) else Missing("not recorded")


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


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
