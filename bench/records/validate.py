"""Checks of a stored record: schema, place, checksum, impossible numbers. Pure."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bench.records.attempt import read_attempt
from bench.records.identity import DataIdentity
from bench.records.store import is_sealed, misplaced
from bench.suite.model import Cell, Suite, cells, make_cell
from ncf.record import Epoch, RecordError, RunRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.records.attempt import Attempt

SLACK = 1.001
"""Timed seconds may exceed those of the epoch by rounding, not by more."""


def lint(content: bytes, key: str, seed: int, number: int, suite: Suite | None) -> list[str]:
    """Problems of one record, none if it is sound.

    Args:
        content: of the file.
        key: its folder, which is the cell's key.
        seed: by its name.
        number: by its name, the attempt.
        suite: its suite as it is today, if that is known.
    """
    try:
        attempt = read_attempt(content)
    except RecordError as error:
        return [str(error)]
    problems = []
    if is_sealed(content) is False:
        problems.append("checksum mismatch: the file was modified or is corrupt")
    if place := misplaced(attempt, key, seed, number):
        problems.append(place)
    problems += _attempt(attempt)
    if suite is not None:
        problems += _cell(attempt, suite)
    if attempt.run is not None and attempt.status == "ok":
        problems += _run(attempt.run)
        same = DataIdentity(attempt.run.dataset.hash, attempt.run.dataset.candidates_hash)
        problems += discrepancies(attempt.cell, attempt.seed, same, attempt.run)
    return problems


def _attempt(attempt: Attempt) -> list[str]:
    problems = []
    started, finished = _time(attempt.started_at), _time(attempt.finished_at)
    if started is None or finished is None:
        problems.append(f"invalid times: {attempt.started_at!r} to {attempt.finished_at!r}")
    elif finished < started:
        problems.append(
            f"finished at {attempt.finished_at}, before it started at {attempt.started_at}"
        )
    if attempt.wall_seconds < 0:
        problems.append(f"wall_seconds is {attempt.wall_seconds}")
    if (attempt.failure is None) != (attempt.status == "ok"):
        problems.append(f"status {attempt.status} with failure {attempt.failure}")
    return problems


def _cell(attempt: Attempt, suite: Suite) -> list[str]:
    """The key must follow from axes and options; a cell outside the grid may be of other data."""
    made = make_cell(attempt.cell.axes, attempt.cell.options, suite.data)
    if made.key == attempt.cell.key or attempt.cell.key not in {one.key for one in cells(suite)}:
        return []
    return [f"its axes and options give the key {made.key}"]


def _run(run: RunRecord) -> list[str]:
    problems = []
    if len(run.peak_memory_bytes_per_rank) != run.world_size:
        n = len(run.peak_memory_bytes_per_rank)
        problems.append(f"memory of {n} ranks; {run.world_size} trained")
    numbers = [epoch.epoch for epoch in run.epochs]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        problems.append(f"epochs {_listed(numbers)} are not consecutive")
    for epoch in run.epochs:
        problems += [f"epoch {epoch.epoch}: {what}" for what in _epoch(epoch)]
    data = run.dataset
    for name in ("chance_hr_at_k", "popularity_hr_at_k"):
        if not 0 <= getattr(data, name) <= 1:
            problems.append(f"{name} is {getattr(data, name)}, not between 0 and 1")
    if data.effective_candidates_mean > data.candidates_per_user + 1:
        problems.append("more effective candidates than were drawn")
    return problems


def _epoch(epoch: Epoch) -> list[str]:
    problems = []
    if epoch.timed_samples > epoch.samples:
        problems.append(f"{epoch.timed_samples} timed samples of {epoch.samples}")
    if epoch.timed_seconds > epoch.train_seconds * SLACK:
        problems.append(f"{epoch.timed_seconds} timed seconds of {epoch.train_seconds}")
    for name in ("hr_at_k", "ndcg_at_k"):
        value = getattr(epoch, name)
        if value is not None and not 0 <= value <= 1:
            problems.append(f"{name} {value} is not between 0 and 1")
    hr, ndcg = epoch.hr_at_k, epoch.ndcg_at_k
    if hr is not None and ndcg is not None and ndcg > hr:
        problems.append(f"NDCG {ndcg} above HR {hr}")
    return problems


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "(none)"


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - only compared
    except ValueError:
        return None


def discrepancies(cell: Cell, seed: int, data: DataIdentity, run: RunRecord) -> list[str]:
    """What the record says differently from what was asked; such a run measured something else."""
    wrong = []
    if run.world_size != cell.ranks:
        wrong.append(f"asked for {cell.ranks} ranks, {run.world_size} trained")
    if run.seed != seed:
        wrong.append(f"asked for seed {seed}, used {run.seed}")
    precision = run.precision
    if precision.requested != cell.precision:
        wrong.append(f"asked for {cell.precision}, the record says {precision.requested} was")
    if precision.effective != precision.requested:
        wrong.append(f"{precision.requested} requested, {precision.effective} effective")
    if run.inference is not None:
        if not (run.inference and all(calls.seconds for calls in run.inference)):
            wrong.append("no call was timed")
    elif not any(epoch.timed_samples > 0 and epoch.timed_seconds > 0 for epoch in run.epochs):
        wrong.append("no epoch has timed samples")
    different = data.differs(run.dataset, cell)
    if different:
        wrong.append(different)
    for name, asked in cell.trainer_options.items():
        if name not in run.config:
            wrong.append(f"the record does not say which {name} was used")
        elif not _echoes(asked, run.config[name]):
            wrong.append(f"asked for {name} {asked}, used {run.config[name]}")
    return wrong


def _echoes(asked: Any, used: Any) -> bool:
    if asked == "auto":
        return True
    if isinstance(asked, tuple):
        return list(asked) == list(used) if isinstance(used, list | tuple) else False
    # of a path, the record keeps the last part
    return bool(asked == used) or (isinstance(asked, str) and PurePath(asked).name == used)
