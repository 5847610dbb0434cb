"""`ncf evaluate`: a checkpoint under one protocol or several, each row with its protocol."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.cli import need_tensorflow
from ncf.cli.recommend import add_model_arguments, model_and_data
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ncf import record

PROTOCOLS = ("stored", "nvidia", "unique", "mlperf", "full")
MOST_STREAMS = 64
_EXIT_CODES = {"ok": 0, "nan": 3, "invalid": 4}


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
    """Run `ncf evaluate`."""
    need_tensorflow()
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
    return _Run(parsed).run()


class _Run:
    def __init__(self, parsed: argparse.Namespace) -> None:
        import tensorflow as tf

        from ncf.model import precision
        from ncf.ranks import horovod as distributed
        from ncf.runtime import environment

        self.parsed, self.started, self.begun = parsed, _now(), time.perf_counter()
        self.data, self.restored = model_and_data(parsed.checkpoint, parsed.data)
        place = distributed.place_from_environment(dict(os.environ))
        if place.size > 1:
            raise UserError(f"ncf evaluate runs on 1 rank, and {place.size} were started")
        self.devices = distributed.prepare_devices(place, parsed.threads, MOST_STREAMS)
        self.ranks = distributed.Ranks(place)
        on_gpu = self.devices.on_gpu
        gpu = environment.gpu_details() if on_gpu else None
        self.hardware = environment.hardware(on_gpu=on_gpu, threads=self.devices.threads)
        self.precision = precision.establish(
            parsed.precision, "auto", on_gpu=on_gpu, tf32_capable=environment.tf32_capable(gpu)
        )
        self.dtype = tf.as_dtype(self.precision.compute_dtype)

    def run(self) -> int:
        """Evaluate, print, write the record."""
        from ncf import metrics, record

        found: list[tuple[record.Dataset, record.Evaluation]] = []
        status, reason = "ok", None
        if self.precision.requested != self.precision.effective:
            status = "invalid"
            reason = f"{self.precision.requested} was requested, {self.precision.effective} found"
        setup_seconds = time.perf_counter() - self.begun
        try:
            if status == "ok":
                found.extend(self._evaluate(name) for name in self.parsed.protocol)
        except metrics.NonFiniteScores as error:
            status, reason = "nan", str(error)
        rows = [row for _, row in found]
        if self.parsed.record and found:
            result = self._record(status, reason, setup_seconds, found)
            try:
                record.write_json(Path(self.parsed.record), result.to_dict())
            except OSError as error:
                raise UserError(f"--record {self.parsed.record}: {error.strerror}") from None
        if reason:
            print(f"{status}: {reason}", file=sys.stderr, flush=True)
        print(
            json.dumps([asdict(row) for row in rows], indent=1) if self.parsed.json else table(rows)
        )
        return _EXIT_CODES[status]

    def _evaluate(self, name: str) -> tuple[record.Dataset, record.Evaluation]:
        from ncf import record
        from ncf.evaluation import protocol

        parsed, full = self.parsed, name == "full"
        asked = protocol.Asked(
            None if name == "stored" else name,
            None if full else parsed.valid_negative,
            parsed.topk,
            2048,
            "fast",
        )
        built = protocol.build(
            asked,
            self.data,
            self.restored.parameters,
            self.dtype,
            self.ranks,
            streams=self.devices.streams,
        )
        start = time.perf_counter()
        totals = built.evaluator.run(parsed.topk)
        about = built.dataset
        return about, record.Evaluation(
            protocol=about.protocol,
            candidates_per_user=about.candidates_per_user,
            candidates_hash=about.candidates_hash,
            test_users=about.test_users,
            topk=parsed.topk,
            hr_at_k=totals.hr,
            ndcg_at_k=totals.ndcg,
            recall_at_k=totals.hr,
            chance_hr_at_k=about.chance_hr_at_k,
            popularity_hr_at_k=about.popularity_hr_at_k,
            scores=built.scores,
            seconds=time.perf_counter() - start,
        )

    def _record(
        self,
        status: str,
        reason: str | None,
        setup_seconds: float,
        found: list[tuple[record.Dataset, record.Evaluation]],
    ) -> record.RunRecord:
        from ncf import record
        from ncf.runtime import environment
        from ncf.runtime.code_hash import EVALUATE

        about, first = found[0]
        config = dict(self.restored.meta["config"])
        epoch = record.Epoch(
            self.restored.epoch,
            0,
            0,
            0.0,
            0,
            0.0,
            0.0,
            first.seconds,
            first.hr_at_k,
            first.ndcg_at_k,
        )
        memory = environment.peak_memory_bytes(on_gpu=self.devices.on_gpu)
        return record.RunRecord(
            status=status,
            reason=reason,
            started_at=self.started,
            finished_at=_now(),
            seed=int(self.restored.meta.get("seed", 0)),
            world_size=1,
            topk=self.parsed.topk,
            target_hr=None,
            global_batch=int(config.get("batch_size", 0)),
            config={**config, "mode": "test", "precision": self.parsed.precision},
            precision=self.precision,
            dataset=about,
            epochs=(epoch,),
            setup_seconds=setup_seconds,
            warmup_seconds=0.0,
            peak_memory_bytes_per_rank=(memory,),
            versions=environment.versions("not used", EVALUATE),
            hardware=self.hardware,
            evaluations=tuple(row for _, row in found),
        )


def table(rows: Sequence[record.Evaluation]) -> str:
    """A Markdown table, a row per protocol; rates of two protocols are not comparable."""
    k = rows[0].topk if rows else 0
    rates = [f"{name}@{k}" for name in ("HR", "NDCG", "Recall")]
    heads = ["Protocol", "Candidates", "Users", *rates, "Popularity", "Chance", "Seconds"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for row in rows:
        values: list[Any] = [row.hr_at_k, row.ndcg_at_k, row.recall_at_k]
        values += [row.popularity_hr_at_k, row.chance_hr_at_k]
        shown = [f"{value:.4f}" for value in values]
        size = f"{row.candidates_per_user:,}" if row.protocol != "full" else "every item"
        lines.append([row.protocol, size, f"{row.test_users:,}", *shown, f"{row.seconds:.1f}"])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = "\n\nRates of different protocols are different quantities: never compare two rows."
    return text + (note if len(rows) > 1 else "")


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
