"""Our runs as logs of other programs: DLLogger as NVIDIA's scripts read it, and MLPerf's. Pure.

A record holds durations, not a moment per line: the moments are the start plus what came before.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from bench.analysis.metrics import best_epoch, best_hr, reached_target, time_to_best
from bench.stats.summary import Missing

if TYPE_CHECKING:
    from ncf.record import Epoch, RunRecord

FORMS = ("dllogger", "mllog")


def lines(run: RunRecord, form: str) -> list[str]:
    """The log of one run.

    Args:
        run: a good run.
        form: one of FORMS.
    """
    return _dllogger(run) if form == "dllogger" else _mllog(run)


def _ends(run: RunRecord) -> list[tuple[Epoch, float, float, float]]:
    """Per epoch: begin, end of training and end of evaluation, seconds after the start."""
    moments, now = [], run.setup_seconds
    for epoch in run.epochs:
        trained = now + epoch.train_seconds
        moments.append((epoch, now, trained, trained + (epoch.eval_seconds or 0.0)))
        now = moments[-1][3]
    return moments


def _start(run: RunRecord) -> datetime:
    return datetime.strptime(run.started_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def _dllogger(run: RunRecord) -> list[str]:
    """Keys as in NVIDIA's NCF for PyTorch; `step` and `best_epoch` count from 0, as there."""
    start, out = _start(run), []

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
        "batch_size": run.global_batch,
        "world_size": run.world_size,
        "seed": run.seed,
        "topk": run.topk,
        "threshold": run.target_hr,
        "amp": run.precision.requested == "amp",
        "precision": run.precision.requested,
        "valid_negative": run.dataset.candidates_per_user,
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
    best, hit_rate = best_epoch(run), best_hr(run)
    closing: dict[str, Any] = {}
    if rates:
        closing["best_train_throughput"] = max(rates)
        closing["mean_train_throughput"] = math.fsum(rates) / len(rates)
    if best is not None and not isinstance(hit_rate, Missing):
        closing |= {"best_accuracy": hit_rate, "best_epoch": best.epoch - 1}
        closing["time_to_best_model"] = run.setup_seconds + _known(time_to_best(run))
    closing["time_to_target"] = end
    log([], closing, end)
    return out


def _known(value: float | Missing) -> float:
    return 0.0 if isinstance(value, Missing) else value


def _mllog(run: RunRecord) -> list[str]:
    """Keys of MLPerf training logs; NCF's own (`eval_hp_num_neg`) as in its v0.5."""
    start, out = _start(run), []

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
        "seed": run.seed,
        "global_batch_size": run.global_batch,
        "number_of_ranks": run.world_size,
        "precision": run.precision.requested,
        "train_samples": run.dataset.train_interactions,
        "eval_samples": run.dataset.test_users,
        "eval_hp_num_neg": run.dataset.candidates_per_user,
        "target_hr": run.target_hr,
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
