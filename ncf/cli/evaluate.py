"""`ncf evaluate`: a checkpoint under one protocol or several, each row with its protocol."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ncf.cli import need_tensorflow
from ncf.cli.common import (
    EXIT_CODES,
    add_model_arguments,
    load_model_and_data,
    markdown_table,
    prepare_machine,
    require_one_rank,
)
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ncf import record
    from ncf.cli.common import Machine
    from ncf.data.dataset import Data
    from ncf.training.checkpoint import Restored

PROTOCOLS = ("stored", "nvidia", "unique", "mlperf", "full")


def evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf evaluate`."""
    add_model_arguments(parser)
    parser.add_argument(
        "--protocol",
        nargs="+",
        choices=PROTOCOLS,
        default=["stored"],
        help="candidates as prepared (stored) or drawn, or the whole catalogue (full) [stored]",
    )
    parser.add_argument(
        *("--valid_negative", "--valid-negative"),
        type=int,
        metavar="N",
        help="sampled candidates per test user [as prepared]; full has none",
    )
    parser.add_argument("-k", "--topk", type=int, default=10, metavar="N", help="k of HR@k [10]")
    parser.add_argument(
        "--precision", choices=("fp32", "tf32", "amp"), default="fp32", help="[fp32]"
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="0: all cores [0]")
    parser.add_argument(
        "--record", default="", metavar="FILE", help="write the record (JSON) there"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def evaluate(parsed: argparse.Namespace) -> int:
    """Evaluate, print the rates and write the record; returns the exit code."""
    need_tensorflow()
    _check(parsed)
    from ncf import metrics, record
    from ncf.model.precision import mismatch
    from ncf.training import epoch_log

    started, begun = record.utc_now(), time.perf_counter()
    data, restored = load_model_and_data(parsed.checkpoint, parsed.data)
    require_one_rank("evaluate")
    machine = prepare_machine(parsed.precision, threads=parsed.threads)
    reason = mismatch(machine.precision)
    status = "invalid" if reason else "ok"
    setup_seconds = time.perf_counter() - begun
    results: list[tuple[record.Dataset, record.Evaluation]] = []
    try:
        for name in parsed.protocol if status == "ok" else ():
            results.append(_evaluate(name, parsed, data, restored, machine))  # noqa: PERF401 - a NaN keeps the earlier ones
    except metrics.NonFiniteScores as error:
        status, reason = "nan", str(error)
    if results:
        times = (started, setup_seconds)
        result = _record(status, reason, times, parsed, restored, machine, results)
        epoch_log.write_record(parsed.record, result)
    if reason:
        print(f"{status}: {reason}", file=sys.stderr, flush=True)
    rows = [row for _, row in results]
    print(json.dumps([asdict(row) for row in rows], indent=1) if parsed.json else table(rows))
    return EXIT_CODES[status]


def _check(parsed: argparse.Namespace) -> None:
    for name in ("topk", "valid_negative"):
        value = getattr(parsed, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} {value}: must be at least 1")
    if parsed.valid_negative is not None and set(parsed.protocol) == {"full"}:
        raise UserError(
            "--valid_negative means nothing with --protocol full, which ranks every item"
        )
    if len(set(parsed.protocol)) < len(parsed.protocol):
        raise UserError(f"--protocol {' '.join(parsed.protocol)}: one is listed twice")


def _evaluate(
    name: str, parsed: argparse.Namespace, data: Data, restored: Restored, machine: Machine
) -> tuple[record.Dataset, record.Evaluation]:
    from ncf import record
    from ncf.evaluation import protocol

    evaluation = protocol.build(
        protocol.EvaluationOptions(
            None if name == "stored" else name,
            None if name == "full" else parsed.valid_negative,
            parsed.topk,
        ),
        data,
        restored.parameters,
        machine.dtype,
        machine.ranks,
        streams=machine.devices.streams,
    )
    start = time.perf_counter()
    totals = evaluation.evaluator.run(parsed.topk)
    described = evaluation.dataset
    return described, record.Evaluation(
        protocol=described.protocol,
        candidates_per_user=described.candidates_per_user,
        candidates_hash=described.candidates_hash,
        test_users=described.test_users,
        topk=parsed.topk,
        hr_at_k=totals.hr,
        ndcg_at_k=totals.ndcg,
        recall_at_k=totals.hr,
        chance_hr_at_k=described.chance_hr_at_k,
        popularity_hr_at_k=described.popularity_hr_at_k,
        scores=evaluation.scores,
        seconds=time.perf_counter() - start,
    )


def _record(
    status: str,
    reason: str | None,
    times: tuple[str, float],
    parsed: argparse.Namespace,
    restored: Restored,
    machine: Machine,
    results: Sequence[tuple[record.Dataset, record.Evaluation]],
) -> record.RunRecord:
    """The record of all protocols; its data set and epoch are those of the first."""
    from ncf import record
    from ncf.runtime import environment
    from ncf.runtime.code_hash import EVALUATE

    described, first = results[0]
    config = dict(restored.meta["config"])
    rates = (first.seconds, first.hr_at_k, first.ndcg_at_k)
    memory = environment.peak_memory_bytes(on_gpu=machine.devices.on_gpu)
    return record.RunRecord(
        status=status,
        reason=reason,
        started_at=times[0],
        finished_at=record.utc_now(),
        seed=int(restored.meta.get("seed", 0)),
        world_size=1,
        topk=parsed.topk,
        target_hr=None,
        global_batch=int(config.get("batch_size", 0)),
        config={**config, "mode": "test", "precision": parsed.precision},
        precision=machine.precision,
        dataset=described,
        epochs=(record.Epoch(restored.epoch, 0, 0, 0.0, 0, 0.0, 0.0, *rates),),
        setup_seconds=times[1],
        warmup_seconds=0.0,
        peak_memory_bytes_per_rank=(memory,),
        versions=environment.versions("not used", EVALUATE),
        hardware=machine.hardware,
        evaluations=tuple(row for _, row in results),
    )


def table(rows: Sequence[record.Evaluation]) -> str:
    """A Markdown table, a row per protocol; rates of two protocols are not comparable."""
    k = rows[0].topk if rows else 0
    rates = [f"{name}@{k}" for name in ("HR", "NDCG", "Recall")]
    headers = ["Protocol", "Candidates", "Users", *rates, "Popularity", "Chance", "Seconds"]
    lines = []
    for row in rows:
        values: list[Any] = [row.hr_at_k, row.ndcg_at_k, row.recall_at_k]
        values += [row.popularity_hr_at_k, row.chance_hr_at_k]
        size = f"{row.candidates_per_user:,}" if row.protocol != "full" else "every item"
        shown = [f"{value:.4f}" for value in values]
        lines.append([row.protocol, size, f"{row.test_users:,}", *shown, f"{row.seconds:.1f}"])
    text = markdown_table(headers, lines, left=["Protocol"])
    note = "\n\nRates of different protocols are different quantities: never compare two rows."
    return text + (note if len(rows) > 1 else "")
