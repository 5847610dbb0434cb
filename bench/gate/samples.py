"""A side of a comparison: per cell the facts that must agree, and every sample of every run. Pure.

A side is made of stored attempts or read from a baseline; from then on the two are alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.analysis import metrics
from bench.analysis.labels import plain
from bench.records.identity import (
    CODE,
    HOROVOD,
    NOT_USED,
    Condition,
    Fingerprint,
    Machine,
    gpus_text,
)
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.records.attempt import Attempt

TRAINER = "ncf"
"""The trainer's own version, beside those of what it is built on."""
PARTS = ("hardware", "software", "code", "data", "protocol", "cell")
"""What a fingerprint consists of, and what --across can leave out."""


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
        facts: by part of the fingerprint, what must agree.
        fingerprint: the same as short hashes.
        samples: by metric, a value a run; None where a run has none.
        flags: how many runs have each flag.
    """

    key: str
    label: str
    facts: Mapping[str, Mapping[str, str]]
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
        label=", ".join(f"{name} {plain(v)}" for name, v in newest.cell.axes.items()) or "all",
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


def facts(attempt: Attempt) -> dict[str, dict[str, str]]:
    """What must agree before two runs may be compared, by part of the fingerprint, as text."""
    run, machine = attempt.run, Machine.of(attempt.host)
    assert run is not None
    versions = {name: v for name, v in run.versions.items() if v != NOT_USED}
    code = {name: versions.pop(name, "unknown")[:12] for name in (CODE, TRAINER)}
    gpus: Sequence[Mapping[str, Any]] = attempt.host.get("gpus") or ()
    options = {**attempt.cell.trainer_options, "batch_size": run.global_batch}
    options.pop("precision", None)  # what was effective counts
    return {
        "hardware": {
            "processor": machine.cpu_model,
            "cores": _known(machine.cores),
            "memory_gib": _known(machine.memory_gib),
            "gpus": gpus_text(machine),
            "gpu_count": str(len(gpus)),
            "mig_slices": str(sum(bool(gpu.get("card")) for gpu in gpus)),
            "driver": _known(machine.driver),
            "machine_id": _known(machine.name),
            **({"ranks_on_hosts": machine.slots} if machine.slots else {}),
        },
        "software": dict(sorted(versions.items())),
        "code": code,
        "data": {"name": run.dataset.name, "hash": run.dataset.hash},
        "protocol": {
            "protocol": run.dataset.protocol,
            "candidates_per_user": str(run.dataset.candidates_per_user),
            "candidates_hash": run.dataset.candidates_hash,
            "k": str(run.topk),
        },
        "cell": {
            "ranks": str(run.world_size),
            "precision": run.precision.effective,
            **{name: plain(value) for name, value in sorted(options.items())},
        },
    }


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def differences(
    ours: CellRuns, theirs: CellRuns, across: Sequence[str] = (), left_out: Sequence[str] = ()
) -> tuple[str, ...]:
    """What keeps two cells from being compared: "hardware.gpus: 8x A (baseline) or 1x B (here)".

    Other code is what a gate is there to compare: it never keeps cells apart.

    Args:
        ours: of the tested side.
        theirs: of the baseline.
        across: parts that may differ.
        left_out: single keys that may differ.
    """
    found = []
    for part in PARTS:
        if part == CODE or part in across:
            continue
        a, b = theirs.facts.get(part, {}), ours.facts.get(part, {})
        for name in dict.fromkeys((*a, *b)):
            if name == HOROVOD and not (name in a and name in b):
                continue  # one rank may not have loaded it
            if f"{part}.{name}" not in left_out and a.get(name) != b.get(name):
                old, new = (one.get(name, "not there") for one in (a, b))
                found.append(f"{part}.{name}: {old} in the baseline, {new} here")
    return tuple(found)


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
        nearest = min(old, key=lambda one: len(differences(cell, one, across)))
        old.remove(nearest)
        found.append((nearest, cell))
    return [*found, *((cell, None) for cell in old)]
