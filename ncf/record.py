"""The record: what one training run did, as immutable data and as JSON.

This module is the whole contract between the trainer and the orchestrator: another trainer can
join a sweep by writing the same JSON. It uses the standard library only. Facts are stored here;
throughput, speed-up and time to target are derived from them in one place in bench.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

SCHEMA_VERSION = 1
"""History: 1 (2026-11) first form."""

STATUSES = ("ok", "nan", "invalid", "interrupted", "error")


class RecordError(Exception):
    """A record that cannot be read, with the file and the reason in one line."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the training positives.

    `samples` and `train_seconds` cover every step of the epoch; `timed_samples` and
    `timed_seconds` leave out the warm-up steps (tracing, compilation, first touches), so that a
    throughput always divides samples and seconds of the *same* steps. Seconds are those of the
    slowest rank, samples are summed over ranks and exclude padding.
    """

    epoch: int
    steps: int
    samples: int
    train_seconds: float
    timed_samples: int
    timed_seconds: float
    loss: float
    eval_seconds: float | None = None
    hr_at_k: float | None = None
    ndcg_at_k: float | None = None


@dataclass(frozen=True)
class Precision:
    """Precision requested and precision measured; a mismatch makes a run invalid."""

    requested: str
    effective: str
    compute_dtype: str
    probe: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """Identity and size of the data, and what HR@k means on it (protocol, candidates, chance)."""

    name: str
    hash: str
    users: int
    items: int
    train_interactions: int
    test_users: int
    protocol: str
    candidates_per_user: int
    candidates_hash: str
    effective_candidates_mean: float
    chance_hr_at_k: float
    popularity_hr_at_k: float


@dataclass(frozen=True)
class Latencies:
    """Timed inference calls of one batch size, after `warmup_batches` that were left out.

    `work` is "pairs" (batch_size (user, item) pairs are scored) or "ranking" (the top k of the
    whole catalogue for batch_size users). `scores_per_batch` counts scored (user, item) pairs;
    `seconds` holds one number per call, the device waited for.
    """

    work: str
    batch_size: int
    scores_per_batch: int
    warmup_batches: int
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Evaluation:
    """A finished model under one protocol; rates of different protocols are different quantities.

    `scores` pairs were scored in `seconds`. With one held-out item a user, recall@k is HR@k.
    """

    protocol: str
    candidates_per_user: int
    candidates_hash: str
    test_users: int
    topk: int
    hr_at_k: float
    ndcg_at_k: float
    recall_at_k: float
    chance_hr_at_k: float
    popularity_hr_at_k: float
    scores: int
    seconds: float


@dataclass(frozen=True)
class Roofline:
    """What a training sample costs, and what this machine can do in the run's precision.

    `flops_per_sample` and `bytes_per_sample` are counted from the formulation's shapes
    (ncf.model.roofline has the formulas); the two peaks were measured by a short probe in the
    run's own process, with its threads: square matmuls in `compute_dtype`, and large float32
    arrays added to others in place (bytes read plus bytes written).
    """

    formulation: str
    compute_dtype: str
    flops_per_sample: float
    bytes_per_sample: float
    matmul_flops_per_second: float
    copy_bytes_per_second: float


@dataclass(frozen=True)
class Communication:
    """What the ranks sent each other in training; of one rank, seconds per rank in rank order.

    `reduced_bytes_per_step` counts the bytes handed to the all-reduces by one rank, the same
    on all; `waiting_seconds_per_rank` is the time inside it (waiting for others included) in
    `measured_steps` steps whose whole time was `step_seconds_per_rank`.
    """

    parallel: str
    reduced_bytes_per_step: int
    measured_steps: int
    waiting_seconds_per_rank: tuple[float, ...]
    step_seconds_per_rank: tuple[float, ...]


@dataclass(frozen=True)
class RunRecord:
    """One run of the trainer. `reason` says why when `status` is not "ok".

    The last fields are None where a run has no such thing, or an older program wrote it. Of
    `negatives_checked` training negatives of the first epoch, `false_negatives` were training
    items of their own user. `inference` is what `ncf infer` measured; such a run has no epochs.
    `evaluations` is what `ncf evaluate` measured, one per protocol; `dataset` is of the first.
    """

    status: str
    started_at: str
    finished_at: str
    seed: int
    world_size: int
    topk: int
    target_hr: float | None
    global_batch: int
    config: Mapping[str, Any]
    precision: Precision
    dataset: Dataset
    epochs: tuple[Epoch, ...]
    setup_seconds: float
    warmup_seconds: float
    peak_memory_bytes_per_rank: tuple[int, ...]
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]
    reason: str | None = None
    false_negatives: int | None = None
    negatives_checked: int | None = None
    inference: tuple[Latencies, ...] | None = None
    roofline: Roofline | None = None
    communication: Communication | None = None
    evaluations: tuple[Evaluation, ...] | None = None
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunRecord:
        """Rebuild a record; unknown keys of later versions are ignored.

        Raises:
            RecordError: a key is missing, or the schema is newer than this program.
        """
        check_header(data.get("schema_version"), data.get("status", STATUSES[0]))
        record: RunRecord = _build(cls, data)
        return record


def check_header(version: Any, status: Any) -> None:
    """Raise RecordError for a later schema or an unknown status of a run."""
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise RecordError(f"schema_version {version!r} is not between 1 and {SCHEMA_VERSION}")
    if status not in STATUSES:
        raise RecordError(f"status {status!r} is none of {', '.join(STATUSES)}")


_NESTED: Mapping[str, Any] = {
    "precision": Precision,
    "dataset": Dataset,
    "epochs": Epoch,
    "inference": Latencies,
    "roofline": Roofline,
    "communication": Communication,
    "evaluations": Evaluation,
}


def _build(cls: Any, data: Any) -> Any:
    """An instance of cls from the items that it has fields for; lists become tuples."""
    if not isinstance(data, Mapping):
        raise RecordError(f"{cls.__name__} is a {type(data).__name__}, not an object")
    names, required = _fields(cls)
    missing = [name for name in required if name not in data]
    if missing:
        raise RecordError(f"{cls.__name__} lacks {', '.join(map(repr, missing))}")
    return cls(**{name: _value(_NESTED.get(name), data[name]) for name in names if name in data})


def _value(kind: Any, data: Any) -> Any:
    if isinstance(data, list | tuple):
        return tuple(_value(kind, item) for item in data)
    return data if kind is None or data is None else _build(kind, data)


@lru_cache
def _fields(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of all fields, and of those without a default; asked once per class."""
    every = fields(cls)
    required = (f for f in every if f.default is MISSING and f.default_factory is MISSING)
    return tuple(f.name for f in every), tuple(f.name for f in required)


FEWEST = {0.90: 10, 0.95: 20, 0.99: 100}
"""Least number of values per percentile: with fewer, the largest value would pass for it."""


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of ascending values by linear interpolation (numpy's default rule)."""
    position = q * (len(ordered) - 1)
    lower = math.floor(position)
    upper = min(lower + 1, len(ordered) - 1)
    a, b = ordered[lower], ordered[upper]
    # Never outside [a, b], which `a + f * (b - a)` alone does not promise.
    return min(max(a + (position - lower) * (b - a), a), b)


def tail(values: Sequence[float], q: float) -> float | None:
    """A high percentile, such as a latency's p99 (q one of FEWEST); None with too few values."""
    return None if len(values) < FEWEST[q] else quantile(sorted(values), q)


def utc_now() -> str:
    """The time as it is written in a record, such as 2026-11-30T12:00:00Z."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write data so that path holds either the old content or the whole new one, never a part.

    Not-a-number is refused: JSON has none, and a record must be readable by any parser.
    """
    text = json.dumps(data, indent=1, sort_keys=False, allow_nan=False, ensure_ascii=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write text atomically; see `write_file`."""
    write_file(path, lambda file: file.write(text.encode()))


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file in the same folder, sync it, then rename it to path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        RecordError: the file is missing, unreadable, half-written or no object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error})") from None
    if not isinstance(data, dict):
        raise RecordError(f"{path}: a JSON {type(data).__name__}, not an object")
    return data


def read_run(path: Path) -> RunRecord:
    """Read the record of one run; RecordError names the file and what is wrong with it."""
    try:
        return RunRecord.from_dict(read_json(path))
    except RecordError as error:
        message = str(error)
        raise RecordError(
            message if message.startswith(str(path)) else f"{path}: {message}"
        ) from None
