"""Logs of other programs, read and written: DLLogger (`DLLL {}`) and MLPerf (`:::MLLOG {}`).

Facts on NVIDIA's keys: DeepLearningExamples, TensorFlow/Recommendation/NCF/ncf.py (`train_time`,
`eval_time`, `ndcg`; closing `best_hr`, `average_train_throughput`; epochs before --eval-after are
not logged) and PyTorch/Recommendation/NCF/ncf.py (`train_epoch_time`, `validation_epoch_time`,
`train_throughput`; closing `best_accuracy`). Both number epochs from 0; `step` is [epoch], [] for
the closing figures and "PARAMETER" for the command line. Pure.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import datetime, timedelta, timezone
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bench.analysis.metrics import best_epoch, best_hr, reached_target, time_to_best
from bench.errors import UserError
from bench.files import utc_text, utc_time
from bench.foreign.run import ForeignEpoch, ForeignRun
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ncf.record import Epoch, RunRecord

FORMS = ("dllogger", "mllog")

Entry = tuple[str, dict[str, Any]]
"""A line's text and its JSON."""

_LINE = re.compile(r"(?P<kind>DLLL|:::MLLOG)\s*(?P<json>\{.*)")
_NCF = ("ncf", "recommendation")

_DLLOGGER_OPTIONS = {
    "global_batch": ("batch_size",),
    "world_size": ("world_size",),
    "seed": ("seed",),
    "topk": ("topk",),
    "target_hr": ("target", "threshold"),
    "candidates": ("valid_negative",),
}
"""Keys of the command line by field of ForeignRun; the last is NVIDIA's for PyTorch, which we
write."""

_DLLOGGER_EPOCH = {
    "loss": ("loss", "train_loss"),
    "train_seconds": ("train_time", "train_epoch_time"),
    "eval_seconds": ("eval_time", "validation_epoch_time"),
    "samples_per_second": ("train_throughput",),
}
"""Keys of an epoch by field of ForeignEpoch, in the same way."""

_MLLOG_CONSTANTS = {
    "seed": ("seed",),
    "global_batch": ("global_batch_size",),
    "world_size": ("number_of_ranks",),
    "candidates": ("eval_hp_num_neg",),
    "target_hr": ("target_hr",),
}
"""Keys of MLPerf's constants by field of ForeignRun; `eval_hp_num_neg` is NCF's own, of v0.5."""


def read(text: str, file: str) -> list[ForeignRun]:
    """All runs of a log, in order; other lines are ignored.

    Args:
        text: the log.
        file: for messages.

    Raises:
        UserError: the log has no such line, or one that is not JSON (the last line may be cut).
    """
    entries: dict[str, list[Entry]] = {"DLLL": [], ":::MLLOG": []}
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
        entries[match["kind"]].append((match[0], entry))
    if entries["DLLL"]:
        return [_read_dllogger(part, file) for part in _split(entries["DLLL"], _is_parameters)]
    if entries[":::MLLOG"]:
        return [_read_mllog(part, file) for part in _split(entries[":::MLLOG"], _is_run_start)]
    raise UserError(f"{file}: no line of a log (`DLLL {{...}}` or `:::MLLOG {{...}}`)")


def _split(
    entries: Sequence[Entry], begins: Callable[[Mapping[str, Any]], bool]
) -> list[list[Entry]]:
    """The runs in one file; entries before the first begin belong to the first run."""
    starts = [index for index, (_, entry) in enumerate(entries) if begins(entry)]
    ends = [*starts[1:], len(entries)]
    return [list(entries[start:end]) for start, end in zip([0, *starts[1:]], ends, strict=True)]


def _is_parameters(entry: Mapping[str, Any]) -> bool:
    return entry.get("step") == "PARAMETER" or entry.get("type") == "PARAMETER"


def _is_run_start(entry: Mapping[str, Any]) -> bool:
    return entry.get("key") == "run_start"


def _source(entries: Iterable[Entry], file: str) -> dict[str, Any]:
    digest = hashlib.sha256("\n".join(text for text, _ in entries).encode()).hexdigest()
    return {"file": PurePath(file).name, "digest": digest}


def _facts(keys: Mapping[str, Sequence[str]], data: Mapping[str, Any]) -> dict[str, Any]:
    """The number of each field under the first of its keys that has one, else None."""
    return {
        field: next((v for name in names if (v := _number(data.get(name))) is not None), None)
        for field, names in keys.items()
    }


def _run_facts(keys: Mapping[str, Sequence[str]], data: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a run, where all but the target are whole numbers."""
    facts = _facts(keys, data)
    return {
        field: value if field == "target_hr" else _whole(value) for field, value in facts.items()
    }


def _read_dllogger(entries: Sequence[Entry], file: str) -> ForeignRun:
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
        elif step in ([], "SUMMARY", "summary"):
            closing |= {key: _number(value) for key, value in data.items()}
        elif (number := _whole(step[0] if isinstance(step, list) else step)) is not None:
            epochs.setdefault(number, {}).update(data)
    program = _program(config, epochs, closing)
    # Our trainer counts from 1 already; what `ncf-bench export` writes counts like NVIDIA's.
    first = 0 if program == "ncf-bench" and "exported_by" not in config else 1
    if closing.get("best_epoch") is not None:
        closing["best_epoch"] = (closing["best_epoch"] or 0) + first
    return ForeignRun(
        program=program,
        finished=bool({"best_accuracy", "best_hr"} & set(closing)),
        started_at=started,
        amp=_amp(config),
        config=config,
        epochs=tuple(_epoch(n + first, data) for n, data in sorted(epochs.items())),
        closing=closing,
        **_source(entries, file),
        **_run_facts(_DLLOGGER_OPTIONS, config),
    )


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
    rates = tuple(name for name in data if name.startswith("hr@"))
    gains = tuple(name for name in data if name.startswith("ndcg"))
    return ForeignEpoch(number, **_facts({**_DLLOGGER_EPOCH, "hr": rates, "ndcg": gains}, data))


def _read_mllog(entries: Sequence[Entry], file: str) -> ForeignRun:
    constants: dict[str, Any] = {}
    epochs: dict[int, dict[str, Any]] = {}
    opened: dict[str, float] = {}
    finished, started = False, None
    for _, entry in entries:
        key, value, moment = entry.get("key"), entry.get("value"), _number(entry.get("time_ms"))
        metadata = entry.get("metadata")
        about: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
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
    precision = constants.get("precision")
    return ForeignRun(
        program="mlperf",
        finished=finished,
        started_at=started,
        amp=precision == "amp" if isinstance(precision, str) else None,
        topk=10,
        config=constants,
        epochs=tuple(_epoch(n + first, data) for n, data in sorted(epochs.items())),
        **_source(entries, file),
        **_run_facts(_MLLOG_CONSTANTS, constants),
    )


def _number(value: Any) -> float | None:
    """A finite number, or None: JSON's NaN is not a figure."""
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
        return utc_text(datetime.fromtimestamp(seconds, timezone.utc))
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _short(value: Any) -> Any:
    """A logged option; of a path only the last part, and no number that JSON cannot hold."""
    if isinstance(value, str) and "/" in value:
        return PurePath(value).name
    return None if isinstance(value, float) and not math.isfinite(value) else value


def lines(run: RunRecord, form: str) -> list[str]:
    """The log of one of our runs, in one of FORMS.

    A record holds durations, not a moment per line: each moment is the start plus what came before.
    """
    return _write_dllogger(run) if form == "dllogger" else _write_mllog(run)


def _ends(run: RunRecord) -> list[tuple[Epoch, float, float, float]]:
    """Per epoch: begin, end of training and end of evaluation, seconds after the start."""
    moments, now = [], run.setup_seconds
    for epoch in run.epochs:
        trained = now + epoch.train_seconds
        moments.append((epoch, now, trained, trained + (epoch.eval_seconds or 0.0)))
        now = moments[-1][3]
    return moments


def _written(keys: Mapping[str, Sequence[str]], run: RunRecord) -> dict[str, Any]:
    """What a log says of our run, under the last of the keys of each field."""
    facts = {
        "global_batch": run.global_batch,
        "world_size": run.world_size,
        "seed": run.seed,
        "topk": run.topk,
        "target_hr": run.target_hr,
        "candidates": run.dataset.candidates_per_user,
    }
    return {names[-1]: facts[field] for field, names in keys.items()}


def _write_dllogger(run: RunRecord) -> list[str]:
    """Keys as in NVIDIA's NCF for PyTorch; `step` and `best_epoch` count from 0, as there."""
    start, out = utc_time(run.started_at), []

    def log(step: Any, data: dict[str, Any], elapsed: float) -> None:
        moment = start + timedelta(seconds=elapsed)
        entry = {
            "timestamp": f"{moment.timestamp():.6f}",
            "datetime": moment.strftime("%Y-%m-%d %H:%M:%S.%f"),
            "elapsedtime": f"{elapsed:.6f}",
            "type": "LOG",
            "step": step,
            "data": data,
        }
        out.append("DLLL " + json.dumps(entry, allow_nan=False))

    options = {
        **run.config,
        **_written(_DLLOGGER_OPTIONS, run),
        "amp": run.precision.requested == "amp",
        "precision": run.precision.requested,
        "exported_by": "ncf-bench",
    }
    log("PARAMETER", options, 0.0)
    rates, end = [], run.setup_seconds
    for epoch, _, _, end in _ends(run):
        data: dict[str, Any] = {}
        if epoch.train_seconds > 0:
            data["train_throughput"] = epoch.samples / epoch.train_seconds
            rates.append(data["train_throughput"])
        data |= {"train_epoch_time": epoch.train_seconds, "train_loss": epoch.loss}
        if epoch.hr_at_k is not None:
            data |= {f"hr@{run.topk}": epoch.hr_at_k, "ndcg": epoch.ndcg_at_k}
            data["validation_epoch_time"] = epoch.eval_seconds
        log([epoch.epoch - 1], data, end)
    best, hit_rate, seconds = best_epoch(run), best_hr(run), time_to_best(run)
    closing: dict[str, Any] = {}
    if rates:
        closing["best_train_throughput"] = max(rates)
        closing["mean_train_throughput"] = math.fsum(rates) / len(rates)
    if best is not None and not isinstance(hit_rate, Missing):
        closing |= {"best_accuracy": hit_rate, "best_epoch": best.epoch - 1}
        seconds = 0.0 if isinstance(seconds, Missing) else seconds
        closing["time_to_best_model"] = run.setup_seconds + seconds
    closing["time_to_target"] = end
    log([], closing, end)
    return out


def _write_mllog(run: RunRecord) -> list[str]:
    """Keys as in MLPerf training logs."""
    start, out = utc_time(run.started_at), []

    def log(kind: str, key: str, value: Any, elapsed: float, **about: Any) -> None:
        moment = start + timedelta(seconds=elapsed)
        entry = {
            "namespace": "",
            "time_ms": round(moment.timestamp() * 1000),
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": {"file": "ncf-bench", "lineno": 0, **about},
        }
        out.append(":::MLLOG " + json.dumps(entry, allow_nan=False))

    config = run.config
    constants = {
        "submission_benchmark": "ncf",
        "submission_division": "open",
        **_written(_MLLOG_CONSTANTS, run),
        "precision": run.precision.requested,
        "train_samples": run.dataset.train_interactions,
        "eval_samples": run.dataset.test_users,
        "opt_name": "adam",
        "opt_base_learning_rate": config.get("learning_rate"),
        "opt_adam_beta_1": config.get("beta1"),
        "opt_adam_beta_2": config.get("beta2"),
        "opt_adam_epsilon": config.get("eps"),
    }
    log("INTERVAL_START", "init_start", None, 0.0)
    for key, value in constants.items():
        if value is not None:
            log("POINT_IN_TIME", key, value, 0.0)
    log("INTERVAL_END", "init_stop", None, run.setup_seconds)
    log("INTERVAL_START", "run_start", None, run.setup_seconds)
    end = run.setup_seconds
    for epoch, begin, trained, end in _ends(run):
        number = {"epoch_num": epoch.epoch}
        log("INTERVAL_START", "epoch_start", None, begin, **number)
        log("INTERVAL_END", "epoch_stop", None, trained, **number)
        if epoch.train_seconds > 0:
            rate = {"throughput": epoch.samples / epoch.train_seconds}
            log("POINT_IN_TIME", "tracked_stats", rate, trained, **number)
        if epoch.hr_at_k is not None:
            log("INTERVAL_START", "eval_start", None, trained, **number)
            log("POINT_IN_TIME", "eval_accuracy", epoch.hr_at_k, end, **number)
            log("INTERVAL_END", "eval_stop", None, end, **number)
    status = "aborted" if reached_target(run) is False else "success"
    log("INTERVAL_END", "run_stop", None, end, status=status)
    return out
