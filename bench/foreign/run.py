"""Runs of other programs, read from their logs.

Their type keeps them apart from ours: nothing that pools attempts can pool a ForeignRun. A value
that the log does not give is None; nothing is guessed. A value that a person adds when ingesting is
marked as stated.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.records.attempt import decode, read_file
from bench.stats.summary import Missing, Value

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_VERSION = 1
"""History: 1 (2026-11) first form."""

PROGRAMS = {
    "nvidia-tensorflow": "NVIDIA's NCF for TensorFlow",
    "nvidia-pytorch": "NVIDIA's NCF for PyTorch",
    "mlperf": "MLPerf logs",
    "ncf-bench": "this trainer's own logs",
    "unknown": "DLLogger logs of an unknown program",
}


@dataclass(frozen=True)
class ForeignEpoch:
    """One epoch, counted from 1 (the logs of NVIDIA's programs count from 0)."""

    epoch: int
    hr: float | None = None
    ndcg: float | None = None
    loss: float | None = None
    train_seconds: float | None = None
    eval_seconds: float | None = None
    samples_per_second: float | None = None


@dataclass(frozen=True)
class ForeignRun:
    """One run. `finished` is false where the log ends before its closing figures."""

    program: str
    finished: bool
    file: str
    digest: str
    started_at: str | None
    seed: int | None
    world_size: int | None
    amp: bool | None
    global_batch: int | None
    topk: int | None
    candidates: int | None
    target_hr: float | None
    config: dict[str, Any]
    epochs: tuple[ForeignEpoch, ...]
    closing: dict[str, float | None] = field(default_factory=dict)
    stated: dict[str, Any] = field(default_factory=dict)

    @property
    def precision(self) -> str | None:
        """NVIDIA's logs know mixed precision only; fp32 or tf32 must be stated."""
        if self.amp:
            return "amp"
        if self.config.get("precision") in ("fp32", "tf32"):
            return str(self.config["precision"])
        return None if self.amp is None else self.stated.get("precision")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"schema_version": SCHEMA_VERSION, "kind": "foreign", **asdict(self)}


def read_run(content: bytes) -> ForeignRun:
    """A run from its file.

    Raises:
        RecordError: another kind of file, a later schema, or a field of a wrong type.
    """
    return decode(content, ForeignRun, "foreign", SCHEMA_VERSION)


def best_hr(run: ForeignRun) -> Value:
    """Highest hit rate of the logged epochs, or the closing figure."""
    rates = [epoch.hr for epoch in run.epochs if epoch.hr is not None]
    closing = run.closing.get("best_accuracy", run.closing.get("best_hr"))
    if rates:
        return max(rates)
    return closing if closing is not None else Missing("not in the log")


def throughput(run: ForeignRun) -> Value:
    """Training samples/s over the epochs: logged per epoch (PyTorch) or as an average (TF)."""
    timed = [
        (epoch.samples_per_second, epoch.train_seconds)
        for epoch in run.epochs
        if epoch.samples_per_second and epoch.train_seconds
    ]
    if timed:
        seconds = math.fsum(time for _, time in timed)
        return math.fsum(rate * time for rate, time in timed) / seconds
    average = run.closing.get("average_train_throughput", run.closing.get("mean_train_throughput"))
    return average or Missing("not in the log")


def time_to_best(run: ForeignRun) -> Value:
    """Seconds of training and evaluation to the end of the best epoch, as with our runs."""
    rated = [epoch for epoch in run.epochs if epoch.hr is not None]
    if not rated:
        return Missing("not in the log")
    best = max(rated, key=lambda epoch: epoch.hr or 0.0)
    until = [epoch for epoch in run.epochs if epoch.epoch <= best.epoch]
    if [epoch.epoch for epoch in until] != list(range(1, best.epoch + 1)):
        return Missing("the log leaves out epochs")
    if any(epoch.train_seconds is None for epoch in until):
        return Missing("not in the log")
    return math.fsum((epoch.train_seconds or 0.0) + (epoch.eval_seconds or 0.0) for epoch in until)


def load(folder: Path) -> tuple[list[ForeignRun], list[tuple[Path, str]]]:
    """The runs that were ingested for a suite, and the files that cannot be read, with why."""
    runs: list[ForeignRun] = []
    unreadable: list[tuple[Path, str]] = []
    for path in sorted((folder / "foreign").glob("*.json")):
        run = read_file(path, read_run)
        if isinstance(run, str):
            unreadable.append((path, run))
        else:
            runs.append(run)
    runs.sort(key=lambda run: (run.started_at or "", run.file, run.digest))
    return runs, unreadable
