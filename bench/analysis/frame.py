"""Stored runs as a pandas DataFrame: one row a run, or one row an epoch."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.analysis import metrics
from bench.errors import UserError
from bench.records.identity import Fingerprint
from bench.records.store import load
from bench.stats.summary import Missing
from bench.suite.parse import SET_BY_SWEEP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.records.attempt import Attempt

LEVELS = ("run", "epoch")
_EPOCH_UNITS = {
    "train_seconds": "s",
    "timed_seconds": "s",
    "eval_seconds": "s",
    "elapsed_seconds": "s",
    "throughput": "samples/s",
    "loss": "nats",
    "hr_at_k": "fraction",
    "ndcg_at_k": "fraction",
}


def frame(
    folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, level: str = "run"
) -> pd.DataFrame:
    """See `bench.frame`. `attrs["units"]` has the unit of each column that has one."""
    if level not in LEVELS:
        raise UserError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    rows: list[dict[str, Any]] = []
    for folder in [folders] if isinstance(folders, str | os.PathLike) else folders:
        if not (Path(folder) / "records").is_dir():
            raise UserError(f"{folder}: not a suite's folder (it has no records)")
        loaded = load(Path(folder))
        for path, reason in loaded.unreadable:
            warnings.warn(f"{path}: skipped: {reason}", stacklevel=3)
        for attempt in loaded.attempts:
            rows += [_run_row(attempt)] if level == "run" else _epoch_rows(attempt)
    data: pd.DataFrame = pd.DataFrame(rows)
    for name in data.columns:
        values = data[name].dropna()
        if values.dtype == object and len({type(value) for value in values}) > 1:
            data[name] = data[name].map(str, na_action="ignore")
    for name in {"started_at", "finished_at"} & set(data.columns):
        data[name] = pd.to_datetime(data[name], utc=True, errors="coerce")
    units = {metric.name: metric.unit for metric in metrics.ALL} if level == "run" else _EPOCH_UNITS
    data.attrs["units"] = {"wall_seconds": "s", **units}
    return data


def _identity(attempt: Attempt) -> dict[str, Any]:
    """The first columns of both levels: which run this is, and its outcome."""
    return {
        "suite": attempt.suite,
        "cell": attempt.cell.key,
        "ranks": attempt.cell.ranks,
        "precision": attempt.cell.precision,
        "seed": attempt.seed,
        "attempt": attempt.attempt,
        "status": attempt.status,
        "ok": attempt.ok,
    }


def _options(attempt: Attempt) -> dict[str, Any]:
    """The last columns of both levels: every axis and option of the trainer; (64, 32) as 64x32."""
    options = dict(attempt.run.config) if attempt.run else {}
    options |= attempt.cell.trainer_options
    return {
        name: "x".join(map(str, value)) if isinstance(value, list | tuple) else value
        for name, value in options.items()
        if name not in SET_BY_SWEEP
    }


def _run_row(attempt: Attempt) -> dict[str, Any]:
    values = {metric.name: metric.of(attempt) for metric in metrics.ALL}
    parts = asdict(Fingerprint.of(attempt)) if attempt.run else {}
    gpus = attempt.host.get("gpus") or ()
    return {
        **_identity(attempt),
        **{name: math.nan if isinstance(v, Missing) else v for name, v in values.items()},
        "flags": ",".join(attempt.flags),
        "failure": attempt.failure.message if attempt.failure else None,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "wall_seconds": attempt.wall_seconds,
        "dataset": attempt.run.dataset.name if attempt.run else None,
        "cpu": attempt.host.get("cpu_model"),
        "gpu": gpus[0].get("name") if gpus else None,
        "gpus": len(gpus),
        "machine": attempt.host.get("machine_id"),
        **{f"fingerprint_{part}": value for part, value in parts.items()},
        **_options(attempt),
    }


def _epoch_rows(attempt: Attempt) -> list[dict[str, Any]]:
    rows, elapsed = [], 0.0
    for epoch in attempt.run.epochs if attempt.run else ():
        elapsed += epoch.train_seconds + (epoch.eval_seconds or 0.0)
        speed = epoch.timed_samples / epoch.timed_seconds if epoch.timed_seconds > 0 else None
        more = {"elapsed_seconds": elapsed, "throughput": speed}
        rows.append({**_identity(attempt), **asdict(epoch), **more, **_options(attempt)})
    return rows
