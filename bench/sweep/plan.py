"""The plan of a sweep: the grid, minus stored runs, minus cells this machine cannot run. Pure.

A stored run counts only if it was made on this machine and on the same data: records that came
with the repository, or from another machine, are reported but do not replace our own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.errors import UserError, show
from bench.host.machine import unavailable
from bench.records.identity import Machine, is_stale
from bench.suite.model import Cell, Suite, cells, ordered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.host.machine import Host
    from bench.records.attempt import Attempt
    from bench.records.identity import DataIdentity

RERUN = {
    "failed": "repetitions without a successful run whose last attempt failed",
    "invalid": "repetitions whose last attempt was invalid",
    "stale": "successful runs made by other software or code than is installed now",
    "all": "all repetitions, successful ones too",
}


@dataclass(frozen=True)
class Selection:
    """A part of a grid; None means all."""

    ranks: tuple[int, ...] | None = None
    precisions: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    rerun: str | None = None
    """Which cells to rerun (a key of RERUN); None runs only repetitions without a good run."""

    def of(self, suite: Suite) -> tuple[tuple[Cell, ...], tuple[int, ...]]:
        """The selected cells and seeds.

        Raises:
            UserError: a value that the suite does not have, or no cell is selected.
        """
        grid = cells(suite)
        _check("--ranks", self.ranks, [cell.ranks for cell in grid])
        _check("--precision", self.precisions, [cell.precision for cell in grid])
        _check("--seeds", self.seeds, suite.seeds)
        selected = tuple(
            cell
            for cell in grid
            if (self.ranks is None or cell.ranks in self.ranks)
            and (self.precisions is None or cell.precision in self.precisions)
        )
        if not selected:
            raise UserError("--ranks and --precision together select no cell of the suite")
        return selected, tuple(s for s in suite.seeds if self.seeds is None or s in self.seeds)


def _check(option: str, values: Sequence[Any] | None, allowed: Iterable[Any]) -> None:
    allowed = list(dict.fromkeys(allowed))
    for value in values or ():
        if value not in allowed:
            raise UserError(f"{option} {value}: the suite has {', '.join(map(str, allowed))}")


@dataclass(frozen=True)
class CellPlan:
    """One cell.

    Attributes:
        seeds: the selected seeds.
        attempts: the number of the attempt that is good here and now, by seed.
        to_run: seeds that `run` would run.
        failed: number of failed attempts by status.
        to_retry: number of seeds without a good run whose attempts here failed.
        elsewhere: number of seeds with a good run from another machine or data set only.
        stale: good seeds whose run was made by other software or code than is installed now.
        unavailable: why this machine cannot run the cell.
        seconds: mean wall time of a good run.
    """

    cell: Cell
    seeds: tuple[int, ...]
    attempts: Mapping[int, int]
    to_run: tuple[int, ...]
    failed: Mapping[str, int]
    to_retry: int
    elsewhere: int
    stale: tuple[int, ...]
    unavailable: str | None
    seconds: float | None

    @property
    def good(self) -> tuple[int, ...]:
        """Seeds with a good run."""
        return tuple(seed for seed in self.seeds if seed in self.attempts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {
            "cell": self.cell.key,
            "axes": dict(self.cell.axes),
            "stored": len(self.good),
            "to_run": list(self.to_run),
            "failed_attempts": dict(self.failed),
            "from_elsewhere": self.elsewhere,
            "stale": list(self.stale),
            "not_available": self.unavailable,
            "mean_wall_seconds": self.seconds,
        }


@dataclass(frozen=True)
class Plan:
    """The cells, the runs in their order, and stored attempts of cells outside the grid."""

    suite: Suite
    cells: tuple[CellPlan, ...]
    runs: tuple[tuple[Cell, int], ...]
    outside: tuple[Attempt, ...]
    seeds: tuple[int, ...]

    @property
    def available(self) -> tuple[CellPlan, ...]:
        """The cells that this machine can run."""
        return tuple(cell for cell in self.cells if cell.unavailable is None)

    @property
    def total(self) -> int:
        """Runs of all available cells."""
        return sum(len(cell.seeds) for cell in self.available)

    @property
    def stored(self) -> int:
        """Good runs of the available cells."""
        return sum(len(cell.good) for cell in self.available)

    @property
    def durations(self) -> Durations:
        """Wall times of the good runs."""
        timed = [(c.cell.key, c.seconds, len(c.good)) for c in self.cells if c.seconds is not None]
        return Durations({key: [seconds] * n for key, seconds, n in timed})

    @property
    def expected_seconds(self) -> float | None:
        """Expected wall time of the runs; None without stored runs."""
        return self.durations.expect(cell for cell, _ in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {
            "suite": self.suite.name,
            "cells": [cell.to_dict() for cell in self.cells],
            "runs": self.total,
            "stored": self.stored,
            "to_run": len(self.runs),
            "expected_seconds": self.expected_seconds,
            "records_outside_the_suite": sorted({a.cell.key for a in self.outside}),
        }


@dataclass
class Durations:
    """Wall seconds of finished runs by cell key, to estimate the time of further runs."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, cell: Cell, seconds: float) -> None:
        """Add one run."""
        self.seconds.setdefault(cell.key, []).append(seconds)

    def expect(self, runs: Iterable[Cell]) -> float | None:
        """Seconds of further runs: the mean of their cell, else of all; None without any."""
        everything = [value for values in self.seconds.values() for value in values]
        if not everything:
            return None
        overall = sum(everything) / len(everything)
        means = {key: sum(values) / len(values) for key, values in self.seconds.items()}
        return sum(means.get(cell.key, overall) for cell in runs)


def make_plan(
    suite: Suite,
    selection: Selection,
    attempts: Iterable[Attempt],
    host: Host,
    data: DataIdentity | None,
    installed: Mapping[str, str] | None = None,
) -> Plan:
    """Compare the grid with the stored attempts.

    Args:
        suite: the grid.
        selection: the part of it to plan.
        attempts: everything stored for the suite.
        host: this machine.
        data: the data to train on; None if not known yet, then any data counts.
        installed: versions that a run would have now, as far as the trainer reports them.
    """
    selected, seeds = selection.of(suite)
    by_cell: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_cell[attempt.cell.key].append(attempt)

    def plan_cell(cell: Cell) -> CellPlan:
        chosen = tuple(seed for seed in suite.seeds_of(cell) if seed in seeds)
        here = sorted((a for a in by_cell.get(cell.key, ()) if a.seed in chosen), key=_number)
        good = {a.seed: a for a in here if a.ok and _counts(a, host, data)}
        stale = tuple(
            seed for seed, a in good.items() if a.run and is_stale(a.run.versions, installed or {})
        )
        last = {a.seed: a.status for a in here if a.seed not in good and made_here(a, host)}
        reason = unavailable(suite, host, cell)
        failed = Counter(attempt.status for attempt in here if not attempt.ok)
        return CellPlan(
            cell=cell,
            seeds=chosen,
            attempts={seed: a.attempt for seed, a in good.items()},
            to_run=() if reason else _to_run(chosen, set(good), last, stale, selection.rerun),
            failed=dict(sorted(failed.items())),
            to_retry=sum(status != "ok" for status in last.values()),
            elsewhere=len({a.seed for a in here if a.ok} - set(good)),
            stale=stale,
            unavailable=reason,
            seconds=sum(a.wall_seconds for a in good.values()) / len(good) if good else None,
        )

    plans = tuple(plan_cell(cell) for cell in selected)
    to_run = {plan.cell.key: set(plan.to_run) for plan in plans}
    runs = (run for run in ordered(suite, selected, seeds) if run[1] in to_run[run[0].key])
    grid = {cell.key for cell in cells(suite)}
    outside = (a for key, stored in by_cell.items() if key not in grid for a in stored)
    return Plan(suite, plans, tuple(runs), tuple(outside), seeds)


def _number(attempt: Attempt) -> int:
    return attempt.attempt


def _to_run(
    seeds: Sequence[int],
    good: set[int],
    last: Mapping[int, str],
    stale: Sequence[int],
    rerun: str | None,
) -> tuple[int, ...]:
    """Seeds to run; `last` is the status of the last attempt of seeds without a good run."""
    missing = [seed for seed in seeds if seed not in good]
    no_failure = ("ok", "interrupted")
    choices: dict[str | None, Sequence[int]] = {
        None: missing,
        "failed": [seed for seed in missing if last.get(seed, "ok") not in no_failure],
        "invalid": [seed for seed in missing if last.get(seed) == "invalid"],
        "stale": stale,
        "all": seeds,
    }
    return tuple(choices[rerun])


def _counts(attempt: Attempt, host: Host, data: DataIdentity | None) -> bool:
    """Whether a good attempt replaces a run that would be made here and now."""
    assert attempt.run is not None
    same_data = data is None or data.differs(attempt.run.dataset, attempt.cell) is None
    return same_data and made_here(attempt, host)


def made_here(attempt: Attempt, host: Host) -> bool:
    """Whether an attempt was made by this installation, on its hardware as it is now."""
    return Machine.of(attempt.host) == Machine.of(host.to_dict())


def require_available(suite: Suite, selection: Selection, host: Host) -> None:
    """Check that this machine can run at least one selected cell.

    Raises:
        UserError: it cannot; with every reason.
    """
    selected, _ = selection.of(suite)
    reasons = [unavailable(suite, host, cell) for cell in selected]
    if all(reasons):
        listed = "; ".join(dict.fromkeys(str(reason) for reason in reasons))
        raise UserError(f"no cell of {show(suite.name)} can run here: {listed}")


def mixtures(suite: Suite, attempts: Iterable[Attempt]) -> list[str]:
    """A line for each fact that differs between the good runs of the grid (never pooled)."""
    grid = {cell.key for cell in cells(suite)}
    good = [a for a in attempts if a.ok and a.cell.key in grid]
    data = Counter(f"{a.run.dataset.name} {a.run.dataset.hash}" for a in good if a.run)
    machines = Counter(
        f"{machine.cpu_model} ({machine.name})" for machine in (Machine.of(a.host) for a in good)
    )
    return [
        f"good runs from {len(counts)} {what}, never pooled: "
        + ", ".join(f"{name}: {n}" for name, n in sorted(counts.items()))
        for what, counts in (("data sets", data), ("machines", machines))
        if len(counts) > 1
    ]
