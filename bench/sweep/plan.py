"""What a sweep has to do: the grid, minus what is stored, minus what this machine cannot run. Pure.

A stored run counts only if it was made here and on the same data: records that came with the
repository, or from another machine, are shown and reported but never stand in for our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.errors import UserError, show
from bench.host.machine import Host, unavailable
from bench.records.attempt import Attempt
from bench.records.identity import DataIdentity, Machine, is_stale
from bench.suite.model import Cell, Suite, cells, ordered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.host.machine import Host
    from bench.records.attempt import Attempt


@dataclass(frozen=True)
class Selection:
    """The part of a grid to look at; None means all."""

    ranks: tuple[int, ...] | None = None
    precisions: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    rerun: str | None = None
    """None: what has no good run. Else only these again: see cell_plan.RERUN."""

    def of(self, suite: Suite) -> tuple[tuple[Cell, ...], tuple[int, ...]]:
        """The chosen cells and seeds.

        Raises:
            UserError: a value that the suite does not have.
        """
        grid = cells(suite)
        _check("--ranks", self.ranks, [cell.ranks for cell in grid])
        _check("--precision", self.precisions, [cell.precision for cell in grid])
        _check("--seeds", self.seeds, suite.seeds)
        chosen = tuple(
            cell
            for cell in grid
            if (self.ranks is None or cell.ranks in self.ranks)
            and (self.precisions is None or cell.precision in self.precisions)
        )
        if not chosen:
            raise UserError("--ranks and --precision together choose no cell of the suite")
        return chosen, tuple(s for s in suite.seeds if self.seeds is None or s in self.seeds)


def _check(option: str, chosen: Sequence[Any] | None, known: Iterable[Any]) -> None:
    values = list(dict.fromkeys(known))
    for value in chosen or ():
        if value not in values:
            listed = ", ".join(map(str, values))
            raise UserError(f"{option} {value}: the suite has {listed}")


@dataclass(frozen=True)
class Plan:
    """The cells, the runs to make in their order, and stored attempts outside the grid."""

    suite: Suite
    cells: tuple[CellPlan, ...]
    runs: tuple[tuple[Cell, int], ...]
    strays: tuple[Attempt, ...]
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
        """How long runs have taken so far."""
        known = [(c.cell.key, c.seconds, len(c.good)) for c in self.cells if c.seconds is not None]
        return Durations({key: [seconds] * n for key, seconds, n in known})

    @property
    def expected_seconds(self) -> float | None:
        """Wall time of the runs to make, going by stored ones; None if there are none."""
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
            "records_outside_the_suite": sorted({a.cell.key for a in self.strays}),
        }


@dataclass
class Durations:
    """Wall seconds of finished runs by cell key, to guess those to come."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, cell: Cell, seconds: float) -> None:
        """Count one more run."""
        self.seconds.setdefault(cell.key, []).append(seconds)

    def expect(self, to_come: Iterable[Cell]) -> float | None:
        """Seconds for the given runs: the mean of their cell, else of all; None without any."""
        everything = [value for values in self.seconds.values() for value in values]
        if not everything:
            return None
        overall = sum(everything) / len(everything)
        means = {key: sum(values) / len(values) for key, values in self.seconds.items()}
        return sum(means.get(cell.key, overall) for cell in to_come)


def make_plan(
    suite: Suite,
    selection: Selection,
    attempts: Iterable[Attempt],
    host: Host,
    data: DataIdentity | None,
    installed: Mapping[str, str] | None = None,
) -> Plan:
    """Compare the grid with what is stored.

    Args:
        suite: the grid.
        selection: the part of it that is wanted.
        attempts: everything stored for the suite.
        host: this machine.
        data: what would be trained on; None if that is not known yet, then any data counts.
        installed: versions that a run would have now, as far as the trainer tells them.
    """
    chosen, seeds = selection.of(suite)
    grid = {cell.key for cell in cells(suite)}
    by_cell: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_cell.setdefault(attempt.cell.key, []).append(attempt)
    here = Here(suite, host, data, installed or {})
    plans = tuple(
        plan_cell(
            cell,
            tuple(seed for seed in suite.seeds_of(cell) if seed in seeds),
            by_cell.get(cell.key, []),
            here,
            selection.rerun,
        )
        for cell in chosen
    )
    missing = {plan.cell.key: set(plan.to_run) for plan in plans}
    return Plan(
        suite=suite,
        cells=plans,
        runs=tuple(
            (cell, seed)
            for cell, seed in ordered(suite, chosen, seeds)
            if seed in missing[cell.key]
        ),
        strays=tuple(a for key, found in by_cell.items() if key not in grid for a in found),
        seeds=seeds,
    )


def none_available(plan: Plan) -> UserError:
    """What to say when no chosen cell can run here."""
    reasons = list(dict.fromkeys(str(cell.unavailable) for cell in plan.cells))
    return UserError(f"no cell of {show(plan.suite.name)} can run here: {'; '.join(reasons)}")


def mixtures(plan: Plan, attempts: Iterable[Attempt]) -> list[str]:
    """A line for each way in which the good runs of the grid differ, so that none are pooled."""
    grid = {cell.key for cell in cells(plan.suite)}
    good = [a for a in attempts if a.ok and a.cell.key in grid]
    data = Counter(f"{a.run.dataset.name} {a.run.dataset.hash}" for a in good if a.run)
    machines = Counter(
        f"{machine.cpu_model} ({machine.name})" for machine in (Machine.of(a.host) for a in good)
    )
    lines = []
    for what, found in (("data sets", data), ("machines", machines)):
        if len(found) > 1:
            listed = ", ".join(f"{name}: {n}" for name, n in sorted(found.items()))
            lines.append(f"good runs from {len(found)} {what}, never pooled: {listed}")
    return lines


RERUN = {
    "failed": "repetitions without a good run whose last attempt failed",
    "invalid": "those whose last attempt was invalid",
    "stale": "good ones that other software or code than now installed has made",
    "all": "every one, good ones too",
}


@dataclass(frozen=True)
class CellPlan:
    """One cell.

    Attributes:
        seeds: those that are wanted.
        good: those with a good run that stands for one made here and now.
        attempts: the number of the attempt that is good, by seed.
        to_run: those that `run` would make.
        failed: attempts of these seeds by status.
        to_retry: seeds without a good run whose attempts here failed.
        elsewhere: seeds with a good run from another machine or data set only.
        stale: good seeds whose run was made by other software or code than is installed now.
        unavailable: why this machine cannot run the cell.
        seconds: mean wall time of a good run.
    """

    cell: Cell
    seeds: tuple[int, ...]
    good: tuple[int, ...]
    to_run: tuple[int, ...]
    failed: Mapping[str, int]
    to_retry: int
    elsewhere: int
    unavailable: str | None
    seconds: float | None
    stale: tuple[int, ...] = ()
    attempts: Mapping[int, int] = field(default_factory=dict)

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
class Here:
    """What a run made now would be made with."""

    suite: Suite
    host: Host
    data: DataIdentity | None
    installed: Mapping[str, str]


def plan_cell(
    cell: Cell, seeds: tuple[int, ...], attempts: Sequence[Attempt], here: Here, rerun: str | None
) -> CellPlan:
    """Compare one cell with what is stored of it.

    Args:
        cell: what is planned.
        seeds: those that are wanted.
        attempts: everything stored for the cell.
        here: this machine and what is installed.
        rerun: None for what is missing, else a word of RERUN.
    """
    wanted = set(seeds)
    known = sorted((a for a in attempts if a.seed in wanted), key=lambda a: a.attempt)
    done = {a.seed: a for a in known if a.ok and counts(a, here.host, here.data)}
    elsewhere = {a.seed for a in known if a.ok} - set(done)
    last = {a.seed: a.status for a in known if a.seed not in done and made_here(a, here.host)}
    stale = tuple(
        seed for seed, a in done.items() if a.run and is_stale(a.run.versions, here.installed)
    )
    missing = tuple(seed for seed in seeds if seed not in done)
    again = {
        None: missing,
        "failed": [seed for seed in missing if last.get(seed, "interrupted") not in _NO_FAILURE],
        "invalid": [seed for seed in missing if last.get(seed) == "invalid"],
        "stale": stale,
        "all": seeds,
    }[rerun]
    reason = unavailable(here.suite, here.host, cell)
    failed = Counter(attempt.status for attempt in known if not attempt.ok)
    return CellPlan(
        cell=cell,
        seeds=seeds,
        good=tuple(seed for seed in seeds if seed in done),
        to_run=() if reason else tuple(again),
        failed=dict(sorted(failed.items())),
        to_retry=len([seed for seed in missing if last.get(seed, "ok") != "ok"]),
        elsewhere=len(elsewhere),
        unavailable=reason,
        seconds=sum(a.wall_seconds for a in done.values()) / len(done) if done else None,
        stale=stale,
        attempts={seed: a.attempt for seed, a in done.items()},
    )


_NO_FAILURE = ("ok", "interrupted")


def counts(attempt: Attempt, host: Host, data: DataIdentity | None) -> bool:
    """Whether a good attempt stands for a run that would be made here and now."""
    assert attempt.run is not None
    same_data = data is None or data.differs(attempt.run.dataset, attempt.cell) is None
    return same_data and made_here(attempt, host)


def made_here(attempt: Attempt, host: Host) -> bool:
    """Whether an attempt was made by this installation, and on its hardware as it is today."""
    return Machine.of(attempt.host) == Machine.of(host.to_dict())
