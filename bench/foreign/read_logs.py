"""Logs of other programs: DLLogger (`DLLL {json}`) and MLPerf (`:::MLLOG {json}`). Pure.

Facts on NVIDIA's keys: DeepLearningExamples, TensorFlow/Recommendation/NCF/ncf.py (`train_time`,
`eval_time`, `ndcg`; closing `best_hr`, `average_train_throughput`; epochs before --eval-after are
not logged) and PyTorch/Recommendation/NCF/ncf.py (`train_epoch_time`, `validation_epoch_time`,
`train_throughput`; closing `best_accuracy`). Both number epochs from 0; `step` is [epoch], [] for
the closing figures and "PARAMETER" for the command line.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bench.errors import UserError
from bench.foreign.run import ForeignEpoch, ForeignRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LINE = re.compile(r"(?P<kind>DLLL|:::MLLOG)\s*(?P<json>\{.*)")
_NCF = ("ncf", "recommendation")

Entry = tuple[str, dict[str, Any]]
"""A line's text and its JSON."""


def read(text: str, file: str) -> list[ForeignRun]:
    """All runs of a log, in order; lines of other kinds are passed over.

    Args:
        text: the log.
        file: for messages.

    Raises:
        UserError: no such line, or a broken one (but the last, where a log may have been cut).
    """
    found: dict[str, list[Entry]] = {"DLLL": [], ":::MLLOG": []}
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        match = _LINE.search(line)
        if match is None:
            continue
        try:
            entry = json.loads(match["json"])
        except ValueError as error:
            if not any(map(str.strip, lines[number:])):
                break  # cut in the middle of the last line
            raise UserError(f"{file}:{number}: not JSON after {match['kind']}: {error}") from None
        if not isinstance(entry, dict):
            raise UserError(f"{file}:{number}: no JSON object after {match['kind']}")
        found[match["kind"]].append((match[0], entry))
    if found["DLLL"]:
        return [_dllogger(part, file) for part in _split(found["DLLL"], _is_parameters)]
    if found[":::MLLOG"]:
        return [_mllog(part, file) for part in _split(found[":::MLLOG"], _is_run_start)]
    raise UserError(f"{file}: no line of a log (`DLLL {{...}}` or `:::MLLOG {{...}}`)")


def _split(entries: Sequence[Entry], begins: Any) -> list[list[Entry]]:
    """Repeated runs in one file; what stands before the first begin belongs to it."""
    parts: list[list[Entry]] = [[]]
    begun = False
    for entry in entries:
        if begins(entry[1]):
            if begun:
                parts.append([])
            begun = True
        parts[-1].append(entry)
    return parts


def _is_parameters(entry: Mapping[str, Any]) -> bool:
    return entry.get("step") == "PARAMETER" or entry.get("type") == "PARAMETER"


def _is_run_start(entry: Mapping[str, Any]) -> bool:
    return entry.get("key") == "run_start"


def _digest(entries: Iterable[Entry]) -> str:
    return hashlib.sha256("\n".join(text for text, _ in entries).encode()).hexdigest()


def _dllogger(entries: Sequence[Entry], file: str) -> ForeignRun:
    config: dict[str, Any] = {}
    epochs: dict[int, dict[str, Any]] = {}
    closing: dict[str, float | None] = {}
    started = None
    for _, entry in entries:
        data, step = entry.get("data"), entry.get("step")
        started = started or _moment(entry.get("timestamp"))
        if entry.get("type") == "METADATA" or not isinstance(data, dict):
            continue
        if _is_parameters(entry):
            config = {key: _short(value) for key, value in data.items()}
        elif _is_closing(step):
            closing |= {key: _number(value) for key, value in data.items()}
        elif (number := _step(step)) is not None:
            epochs.setdefault(number, {}).update(data)
    program = _program(config, epochs, closing)
    # Our trainer counts from 1 already; what `bench export` writes counts like NVIDIA's.
    first = 0 if program == "ncf-bench" and "exported_by" not in config else 1
    if closing.get("best_epoch") is not None:
        closing["best_epoch"] = (closing["best_epoch"] or 0) + first
    return ForeignRun(
        program=program,
        finished=bool({"best_accuracy", "best_hr"} & set(closing)),
        file=PurePath(file).name,
        digest=_digest(entries),
        started_at=started,
        seed=_whole(config.get("seed")),
        world_size=_whole(config.get("world_size")),
        amp=_amp(config),
        global_batch=_whole(config.get("batch_size")),
        topk=_whole(config.get("topk")),
        candidates=_whole(config.get("valid_negative")),
        target_hr=_number(config.get("target", config.get("threshold"))),
        config=config,
        epochs=tuple(_epoch(n + first, data) for n, data in sorted(epochs.items())),
        closing=closing,
    )


def _is_closing(step: Any) -> bool:
    return step in ([], (), "SUMMARY", "summary")


def _step(step: Any) -> int | None:
    number = step[0] if isinstance(step, list) and step else step
    return _whole(number)


def _program(
    config: Mapping[str, Any], epochs: Mapping[int, Mapping[str, Any]], closing: Mapping[str, Any]
) -> str:
    """By options that only one program has, else by its names of figures."""
    keys = {key for data in epochs.values() for key in data}
    if "amp_dtype" in config:
        return "ncf-bench"
    if "grads_accumulated" in config or "threshold" in config or "validation_loss" in keys:
        return "nvidia-pytorch"
    if "loss_scale" in config or "train_time" in keys or "best_hr" in closing:
        return "nvidia-tensorflow"
    return "nvidia-pytorch" if "train_epoch_time" in keys else "unknown"


def _amp(config: Mapping[str, Any]) -> bool | None:
    if "precision" in config:
        return bool(config["precision"] == "amp")
    value = config.get("amp", config.get("fp16"))
    return value if isinstance(value, bool) else None


def _epoch(number: int, data: Mapping[str, Any]) -> ForeignEpoch:
    def of(*names: str) -> float | None:
        return next((value for n in names if (value := _number(data.get(n))) is not None), None)

    rates = [name for name in data if name.startswith("hr@")]
    gains = [name for name in data if name.startswith("ndcg")]
    return ForeignEpoch(
        epoch=number,
        hr=of(*rates),
        ndcg=of(*gains),
        loss=of("loss", "train_loss"),
        train_seconds=of("train_epoch_time", "train_time"),
        eval_seconds=of("validation_epoch_time", "eval_time"),
        samples_per_second=of("train_throughput"),
    )


def _mllog(entries: Sequence[Entry], file: str) -> ForeignRun:
    constants: dict[str, Any] = {}
    epochs: dict[int, dict[str, Any]] = {}
    opened: dict[str, float] = {}
    finished, started = False, None
    for _, entry in entries:
        key, value, moment = entry.get("key"), entry.get("value"), _number(entry.get("time_ms"))
        about = entry.get("metadata") if isinstance(entry.get("metadata"), dict) else {}
        assert isinstance(about, dict)
        number = _whole(about.get("epoch_num", about.get("first_epoch_num")))
        if key == "run_start" and moment is not None:
            started = _moment(moment / 1000)
        elif key == "run_stop":
            finished = True  # also with status "aborted": it ended without reaching its target
        elif key == "eval_accuracy" and number is not None:
            epochs.setdefault(number, {})["hr@10"] = value
        elif key in ("epoch_start", "eval_start") and moment is not None:
            opened[key] = moment
        elif key in ("epoch_stop", "eval_stop") and moment is not None and number is not None:
            begun = opened.pop(f"{key.partition('_')[0]}_start", None)
            if begun is not None:
                name = "train_epoch_time" if key == "epoch_stop" else "validation_epoch_time"
                epochs.setdefault(number, {})[name] = (moment - begun) / 1000
        elif key == "tracked_stats" and number is not None and isinstance(value, dict):
            epochs.setdefault(number, {})["train_throughput"] = value.get("throughput")
        elif entry.get("event_type") == "POINT_IN_TIME" and isinstance(key, str):
            constants[key] = _short(value)
    benchmark = constants.get("submission_benchmark")
    if benchmark is not None and str(benchmark).lower() not in _NCF:
        raise UserError(f"{file}: a log of {benchmark!r}, not of NCF")
    first = 1 if 0 in epochs else 0
    run = ForeignRun(
        program="mlperf",
        finished=finished,
        file=PurePath(file).name,
        digest=_digest(entries),
        started_at=started,
        seed=_whole(constants.get("seed")),
        world_size=_whole(constants.get("number_of_ranks")),
        amp=None,
        global_batch=_whole(constants.get("global_batch_size")),
        topk=10,
        candidates=_whole(constants.get("eval_hp_num_neg")),
        target_hr=_number(constants.get("target_hr")),
        config=constants,
        epochs=tuple(_epoch(n + first, data) for n, data in sorted(epochs.items())),
    )
    precision = constants.get("precision")
    return replace(run, amp=precision == "amp") if isinstance(precision, str) else run


def _number(value: Any) -> float | None:
    """A finite number, or None: JSON's NaN is no figure."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _moment(value: Any) -> str | None:
    """Seconds since the epoch (a number, or as text) as UTC."""
    try:
        seconds = float(value)
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _short(value: Any) -> Any:
    """A logged option; of a path only the last part, and no number that JSON cannot hold."""
    if isinstance(value, str) and "/" in value:
        return PurePath(value).name
    return None if isinstance(value, float) and not math.isfinite(value) else value
