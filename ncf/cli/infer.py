"""`ncf infer`: throughput and latency of a frozen model, as a table and as a record.

Weights come from a checkpoint or are random, pairs and users are random, as in the published
measurements. A call's seconds end when its scores are in the host's memory. Making the tables,
tracing and compilation are set-up or warm-up, never part of a timed call.
"""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf import record
from ncf.cli import need_tensorflow
from ncf.cli.common import (
    EXIT_CODES,
    MOST_STREAMS,
    markdown_table,
    prepare_machine,
    require_one_rank,
)
from ncf.config.infer import InferConfig
from ncf.config.options import add_arguments, configuration
from ncf.data import dataset
from ncf.data.progress import say
from ncf.errors import UserError
from ncf.evaluation import inference
from ncf.model import precision
from ncf.ranks import job
from ncf.runtime import environment
from ncf.runtime.code_hash import INFER
from ncf.training import checkpoint, epoch_log

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ncf.data.dataset import Data
    from ncf.model.neumf import Parameters


def infer_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf infer`."""
    add_arguments(parser, InferConfig)


def infer(parsed: argparse.Namespace) -> int:
    """Run `ncf infer`."""
    config = configuration(InferConfig, parsed)
    need_tensorflow()
    return run(config)


def run(config: InferConfig) -> int:
    """Measure as configured; print the table, write the record; return the exit code."""
    stop = job.Stop()
    started, begun = record.utc_now(), time.perf_counter()
    logger = epoch_log.Logger(config.log_path, time.time)
    data = dataset.load(Path(config.data)) if config.data else None
    streams = MOST_STREAMS if config.formulation == "fast" else 1
    require_one_rank("infer")
    machine = prepare_machine(
        config.precision, config.amp_dtype, threads=config.threads, streams=streams
    )
    seed = secrets.randbelow(2**31) if config.seed is None else config.seed
    parameters = _weights(config, data, seed)
    sizes = _sizes(parameters)
    if config.work != "pairs" and config.topk > sizes["n_items"]:
        raise UserError(f"--topk {config.topk}: there are only {sizes['n_items']} items to rank")
    engine = inference.Engine(config, parameters, machine.dtype, machine.devices, data, seed)
    options = {**config.echo(), "seed": seed, **sizes}
    logger.log("LOG", "PARAMETER", options)
    setup_seconds = time.perf_counter() - begun
    measured: list[record.Latencies] = []
    reason = precision.mismatch(machine.precision)
    status = "invalid" if reason else "ok"
    try:
        if status == "ok":
            for latencies in engine.measurements(time.perf_counter):
                measured.append(latencies)
                logger.log("LOG", [], inference.dllogger_names(latencies))
                say(_progress(latencies))
    except FloatingPointError as error:
        status, reason = "nan", str(error)
    except KeyboardInterrupt:
        status, reason = job.STOPPED
    except Exception:
        if not stop.requested:  # else a signal that arrived inside a library's own error
            raise
        status, reason = job.STOPPED
    logger.close()
    result = record.RunRecord(
        status=status,
        reason=reason,
        started_at=started,
        finished_at=record.utc_now(),
        seed=seed,
        world_size=1,
        topk=config.topk,
        target_hr=None,
        global_batch=max(config.batch_sizes),
        config=options,
        precision=machine.precision,
        dataset=_describe(data, sizes),
        epochs=(),
        setup_seconds=setup_seconds,
        warmup_seconds=engine.warmup_seconds,
        peak_memory_bytes_per_rank=(environment.peak_memory_bytes(on_gpu=machine.devices.on_gpu),),
        versions=environment.versions("not used", INFER),
        hardware=machine.hardware,
        inference=tuple(measured),
    )
    epoch_log.write_record(config.record, result)
    if reason:
        say(f"{status}: {reason}")
    if config.json:
        print(json.dumps([inference.latency_summary(item) for item in measured], indent=1))
    elif measured:
        print(latency_table(measured))
    return EXIT_CODES[status]


def _weights(config: InferConfig, data: Data | None, seed: int) -> Parameters:
    from ncf.model import neumf

    if config.load_checkpoint_path:
        path = Path(config.load_checkpoint_path)
        return checkpoint.restore(path, "--load_checkpoint_path", data).parameters
    users = data.n_users if data else config.n_users
    items = data.n_items if data else config.n_items
    return neumf.create(users, items, config.factors, config.layers, seed)


def _sizes(parameters: Parameters) -> dict[str, Any]:
    """Sizes as used, whatever the options said."""
    widths = [kernel.shape[1] for kernel in parameters.kernels]
    first = parameters.mlp_user.shape[1] + parameters.mlp_item.shape[1]
    return {
        "n_users": int(parameters.gmf_user.shape[0]),
        "n_items": int(parameters.gmf_item.shape[0]),
        "factors": int(parameters.gmf_user.shape[1]),
        "layers": [int(width) for width in (first, *widths)],
    }


def _describe(data: Data | None, sizes: dict[str, Any]) -> record.Dataset:
    """Sizes; the candidates are those stored with the data, none of which is scored here."""
    users, items = sizes["n_users"], sizes["n_items"]
    stored = data.manifest["candidates"] if data else {}
    rates = (data.manifest.get("hr_at_10") or {}) if data else {}
    return record.Dataset(
        name=data.name if data else "random pairs",
        hash=data.hash if data else f"{users}x{items}",
        users=users,
        items=items,
        train_interactions=data.n_train if data else 0,
        test_users=data.n_test if data else 0,
        protocol=str(stored.get("protocol", "none")),
        candidates_per_user=int(stored.get("per_user", 0)),
        candidates_hash=str(stored.get("hash", "none")),
        effective_candidates_mean=float(stored.get("effective_mean") or 0.0),
        chance_hr_at_k=float(rates.get("chance") or 0.0),
        popularity_hr_at_k=float(rates.get("popularity") or 0.0),
    )


def _progress(latencies: record.Latencies) -> str:
    figures = inference.latency_summary(latencies)
    rate, median = figures["scores_per_second"], figures["p50_seconds"]
    what = f"{latencies.work} of {latencies.batch_size:,}: {rate:,.0f} scores/s"
    return f"{what}, median {median * 1000:,.3f} ms (n={figures['n']})"


def latency_table(measured: Sequence[record.Latencies]) -> str:
    """A Markdown table, a row per work and batch size; milliseconds of a call."""
    names = ("mean", "p50", *inference.TAILS, "max")
    headers = ["Work", "Batch", "Scores/s", "Users/s", "n", *(f"{name} (ms)" for name in names)]
    rows = []
    for latencies in measured:
        figures = inference.latency_summary(latencies)
        users = figures["batches_per_second"] * latencies.batch_size
        rows.append(
            [
                latencies.work,
                f"{latencies.batch_size:,}",
                f"{figures['scores_per_second']:,.0f}",
                f"{users:,.1f}" if latencies.work == "ranking" else "",
                str(figures["n"]),
                *(_milliseconds(figures[f"{name}_seconds"]) for name in names),
            ]
        )
    text = markdown_table(headers, rows, left=["Work"])
    calls = min(len(latencies.seconds) for latencies in measured)
    short = {
        name: record.FEWEST[q] for name, q in inference.TAILS.items() if calls < record.FEWEST[q]
    }
    if short:
        needs = ", ".join(f"{name} {fewest}" for name, fewest in short.items())
        text += f"\n\nn/a: too few calls for that percentile (needed: {needs})."
    return text


def _milliseconds(seconds: float | None) -> str:
    return "n/a" if seconds is None else f"{seconds * 1000:,.3f}"
