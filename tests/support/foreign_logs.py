"""Logs as NVIDIA's NCF scripts and MLPerf write them, made up line by line with known figures."""

from __future__ import annotations

import json


def dll(step, data, at=0.0, kind="LOG"):
    entry = {
        "timestamp": str(1_600_000_000.0 + at),
        "datetime": "2020-09-13 12:26:40.000000",
        "elapsedtime": str(at),
        "type": kind,
        "step": step,
        "data": data,
    }
    return "DLLL " + json.dumps(entry)


def metadata(metric):
    return "DLLL " + json.dumps(
        {
            "timestamp": "1600000000.0",
            "elapsedtime": "0.0",
            "datetime": "2020-09-13 12:26:40.000000",
            "type": "METADATA",
            "metric": metric,
            "metadata": {"unit": "samples/s"},
        }
    )


def pytorch(rates=(0.90, 0.95, 0.94), *, seed=1, amp=True, gpus=8, speed=1e8, closing=True):
    """20 s of training and 1 s of evaluation an epoch."""
    options = {
        "data": "/data/cache/ml-20m", "feature_spec_file": "feature_spec.yaml", "epochs": 30,
        "batch_size": 1048576, "valid_batch_size": 1048576, "factors": 64,
        "layers": [256, 256, 128, 64], "negative_samples": 4, "learning_rate": 0.0045, "topk": 10,
        "seed": seed, "threshold": 1.0, "beta1": 0.25, "beta2": 0.5, "eps": 1e-8, "dropout": 0.5,
        "checkpoint_dir": "", "load_checkpoint_path": None, "mode": "train",
        "grads_accumulated": 1, "amp": amp, "log_path": "log.json", "world_size": gpus,
        "distributed": gpus > 1, "local_rank": 0,
    }  # fmt: skip
    lines = [metadata("train_throughput"), dll("PARAMETER", options)]
    for epoch, rate in enumerate(rates):
        data = {
            "train_throughput": speed, "hr@10": rate, "train_epoch_time": 20.0,
            "validation_epoch_time": 1.0, "eval_throughput": 5e7, "validation_loss": 0.1,
            "train_loss": 0.12,
        }  # fmt: skip
        lines.append(dll([epoch], data, at=21.0 * (epoch + 1)))
    if closing:
        best = max(range(len(rates)), key=lambda index: rates[index])
        data = {
            "best_train_throughput": speed, "best_eval_throughput": 5e7,
            "mean_train_throughput": speed, "mean_eval_throughput": 5e7,
            "best_accuracy": rates[best], "best_epoch": best, "time_to_target": 70.0,
            "time_to_best_model": 48.0, "validation_loss": 0.1, "train_loss": 0.12,
        }  # fmt: skip
        lines.append(dll([], data, at=70.0))
    return "\n".join(lines) + "\n"


def tensorflow(rates=(0.955, 0.958), *, seed=None, amp=False, gpus=1, speed=1.5e7):
    """Epochs up to --eval-after (8) are not logged; the first logged one is number 9, from 0."""
    options = {
        "data": "/data", "epochs": 11, "batch_size": 1048576, "valid_users_per_batch": 5000,
        "factors": 64, "layers": [256, 256, 128, 64], "negative_samples": 4,
        "learning_rate": 0.0045, "topk": 10, "seed": seed, "target": 0.9562, "amp": amp,
        "xla": False, "valid_negative": 100, "beta1": 0.25, "beta2": 0.5, "eps": 1e-8,
        "dropout": 0.5, "loss_scale": 8192, "checkpoint_dir": None,
        "load_checkpoint_path": None, "mode": "train", "eval_after": 8, "log_path": "log.json",
        "world_size": gpus,
    }  # fmt: skip
    lines = [metadata("best_hr"), dll("PARAMETER", options)]
    for epoch, rate in enumerate(rates, start=9):
        data = {"train_time": 6.0, "eval_time": 0.5, "hr@10": rate, "ndcg": 0.7}
        lines.append(dll([epoch], data))
    closing = {
        "average_train_time_per_epoch": 6.0, "average_train_throughput": speed,
        "average_eval_time_per_epoch": 0.5, "average_eval_throughput": 2e7,
        "first_epoch_to_hit": 10, "best_hr": max(rates), "best_epoch": 10,
    }  # fmt: skip
    lines.append(dll([], closing))
    return "\n".join(lines) + "\n"


def mlperf(benchmark="ncf"):
    """Two epochs of 5 s, evaluated in 1 s."""

    def line(kind, key, value, ms, **about):
        entry = {
            "namespace": "", "time_ms": 1_544_000_000_000 + ms, "event_type": kind, "key": key,
            "value": value, "metadata": {"file": "ncf.py", "lineno": 1, **about},
        }  # fmt: skip
        return "0: :::MLLOG " + json.dumps(entry)

    lines = [
        line("POINT_IN_TIME", "submission_benchmark", benchmark, 0),
        line("POINT_IN_TIME", "seed", 7, 0),
        line("POINT_IN_TIME", "global_batch_size", 1048576, 0),
        line("INTERVAL_START", "run_start", None, 0),
    ]
    for epoch, rate in ((1, 0.6), (2, 0.636)):
        begin = 6000 * (epoch - 1)
        lines += [
            line("INTERVAL_START", "epoch_start", None, begin, epoch_num=epoch),
            line("INTERVAL_END", "epoch_stop", None, begin + 5000, epoch_num=epoch),
            line("INTERVAL_START", "eval_start", None, begin + 5000, epoch_num=epoch),
            line("POINT_IN_TIME", "eval_accuracy", rate, begin + 6000, epoch_num=epoch),
            line("INTERVAL_END", "eval_stop", None, begin + 6000, epoch_num=epoch),
        ]
    lines.append(line("INTERVAL_END", "run_stop", None, 12000, status="success"))
    return "noise of the container\n" + "\n".join(lines) + "\n"
