"""One side of a comparison: per cell its facts (records.identity) and every sample. Pure.

A side is made of stored attempts or read from a baseline; from then on the two are alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.analysis import metrics
from bench.analysis.labels import axes_text
from bench.records.identity import Condition, Facts, Fingerprint, differences, facts
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.records.attempt import Attempt


@dataclass(frozen=True)
class Made:
    """Which run a sample is of."""

    seed: int
    attempt: int
    finished_at: str


@dataclass(frozen=True)
class CellRuns:
    """The runs of one cell of one side, in the order in which they were made.

    Attributes:
        label: axes for people: "ranks 1, precision fp32".
        facts: what must agree; see records.identity.
        fingerprint: the same as short hashes.
        samples: by metric, a value a run; None where a run has none.
        flags: how many runs have each flag.
    """

    key: str
    label: str
    facts: Facts
    fingerprint: Mapping[str, str]
    runs: tuple[Made, ...]
    samples: Mapping[str, tuple[float | None, ...]]
    flags: Mapping[str, int]

    def values(self, name: str) -> list[float]:
        """The samples of a metric, without those that are missing."""
        return [value for value in self.samples.get(name, ()) if value is not None]


@dataclass(frozen=True)
class Side:
    """Cells by key; `label` says whose they are."""

    label: str
    cells: Mapping[str, CellRuns]


def side(label: str, attempts: Iterable[Attempt], *, every: bool = False) -> Side:
    """The good runs of each cell: of the newest condition, and the last one of a seed.

    Args:
        label: for tables.
        attempts: of any status and order.
        every: take every good run, so that a seed may count several times.
    """
    found: dict[str, list[Attempt]] = {}
    for attempt in sorted(attempts, key=lambda one: (one.finished_at, one.seed, one.attempt)):
        if attempt.ok:
            found.setdefault(attempt.cell.key, []).append(attempt)
    cells = {}
    for key, runs in found.items():
        newest = Condition.of(runs[-1])
        same = [run for run in runs if Condition.of(run) == newest]
        last = same if every else list({run.seed: run for run in same}.values())
        last.sort(key=lambda one: (one.finished_at, one.seed, one.attempt))
        cells[key] = _cell(last)
    return Side(label, cells)


def _cell(runs: Sequence[Attempt]) -> CellRuns:
    newest = runs[-1]
    samples = {one.name: _samples(one, runs) for one in metrics.GATED}
    flags = Counter(flag for run in runs for flag in run.flags)
    return CellRuns(
        key=newest.cell.key,
        label=axes_text(newest.cell.axes),
        facts=facts(newest),
        fingerprint=asdict(Fingerprint.of(newest)),
        runs=tuple(Made(run.seed, run.attempt, run.finished_at) for run in runs),
        samples={
            name: values for name, values in samples.items() if values.count(None) < len(values)
        },
        flags=dict(sorted(flags.items())),
    )


def _samples(metric: metrics.Metric, runs: Sequence[Attempt]) -> tuple[float | None, ...]:
    found = (metric.of(run) for run in runs)
    return tuple(None if isinstance(value, Missing) else value for value in found)


def pairs(
    baseline: Side, tested: Side, across: Sequence[str] = ()
) -> list[tuple[CellRuns | None, CellRuns | None]]:
    """Cells of both sides that belong together, baseline first; None where one has no partner.

    Cells of one key are pairs; of the others, those that differ least, so that a baseline of
    another grid is named by what differs and not only by what is absent.
    """
    common = [key for key in baseline.cells if key in tested.cells]
    found: list[tuple[CellRuns | None, CellRuns | None]] = [
        (baseline.cells[key], tested.cells[key]) for key in common
    ]
    old = [cell for key, cell in baseline.cells.items() if key not in common]
    new = [cell for key, cell in tested.cells.items() if key not in common]
    for cell in new:
        if not old:
            found.append((None, cell))
            continue
        nearest = min(old, key=lambda cell_: len(differences(cell_.facts, cell.facts, across)))
        old.remove(nearest)
        found.append((nearest, cell))
    return [*found, *((cell, None) for cell in old)]
