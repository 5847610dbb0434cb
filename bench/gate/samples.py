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
class RunRef:
    """The run that a sample comes from."""

    seed: int
    attempt: int
    finished_at: str


@dataclass(frozen=True)
class CellSamples:
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
    runs: tuple[RunRef, ...]
    samples: Mapping[str, tuple[float | None, ...]]
    flags: Mapping[str, int]

    def values(self, name: str) -> list[float]:
        """The samples of a metric, without those that are missing."""
        return [value for value in self.samples.get(name, ()) if value is not None]


@dataclass(frozen=True)
class Side:
    """Cells by key; `label` says whose they are."""

    label: str
    cells: Mapping[str, CellSamples]


def side(label: str, attempts: Iterable[Attempt], *, every: bool = False) -> Side:
    """The good runs of each cell: of the newest condition, and the last one of a seed.

    Args:
        label: for tables.
        attempts: of any status and order.
        every: take every good run, so that a seed may count several times.
    """

    def order(attempt: Attempt) -> tuple[str, int, int]:
        return attempt.finished_at, attempt.seed, attempt.attempt

    by_cell: dict[str, list[Attempt]] = {}
    for attempt in sorted(attempts, key=order):
        if attempt.ok:
            by_cell.setdefault(attempt.cell.key, []).append(attempt)
    cells = {}
    for key, runs in by_cell.items():
        newest = Condition.of(runs[-1])
        same = [run for run in runs if Condition.of(run) == newest]
        last = same if every else sorted({run.seed: run for run in same}.values(), key=order)
        cells[key] = _cell(last)
    return Side(label, cells)


def _cell(runs: Sequence[Attempt]) -> CellSamples:
    newest = runs[-1]
    samples = {metric.name: _samples(metric, runs) for metric in metrics.GATED}
    flags = Counter(flag for run in runs for flag in run.flags)
    return CellSamples(
        key=newest.cell.key,
        label=axes_text(newest.cell.axes),
        facts=facts(newest),
        fingerprint=asdict(Fingerprint.of(newest)),
        runs=tuple(RunRef(run.seed, run.attempt, run.finished_at) for run in runs),
        samples={
            name: values for name, values in samples.items() if values.count(None) < len(values)
        },
        flags=dict(sorted(flags.items())),
    )


def _samples(metric: metrics.Metric, runs: Sequence[Attempt]) -> tuple[float | None, ...]:
    values = map(metric.of, runs)
    return tuple(None if isinstance(value, Missing) else value for value in values)


def pairs(
    baseline: Side, tested: Side, across: Sequence[str] = ()
) -> list[tuple[CellSamples | None, CellSamples | None]]:
    """Matching cells of both sides, baseline first; None where a cell has no partner.

    Cells with the same key match. The others are matched with the cell that differs least, so that
    a baseline of another grid is reported by its differences and not only as absent.
    """
    common = [key for key in baseline.cells if key in tested.cells]
    matches: list[tuple[CellSamples | None, CellSamples | None]] = [
        (baseline.cells[key], tested.cells[key]) for key in common
    ]
    rest = [cell for key, cell in baseline.cells.items() if key not in common]
    for key, new in tested.cells.items():
        if key in common:
            continue
        nearest = min(
            rest, key=lambda old: len(differences(old.facts, new.facts, across)), default=None
        )
        if nearest is not None:
            rest.remove(nearest)
        matches.append((nearest, new))
    return [*matches, *((cell, None) for cell in rest)]
