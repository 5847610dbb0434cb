"""`ncf infer`: throughput and latency of a frozen model, as a table and as a record.

Weights come from a checkpoint or are random, pairs and users are random, as in the published
measurements. A call's seconds end when its scores are in the host's memory. Folding the tables,
tracing and compilation are set-up or warm-up, never part of a timed call.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import record
from ncf.cli import need_tensorflow
from ncf.config.infer import InferConfig
from ncf.config.options import add_arguments, configuration
from ncf.data import dataset
from ncf.data.progress import say
from ncf.errors import UserError
from ncf.evaluation import inference
from ncf.evaluation.inference import timed_calls
from ncf.model import precision
from ncf.ranks import horovod as distributed
from ncf.ranks import job
from ncf.runtime import environment
from ncf.runtime.code_hash import INFER
from ncf.training import checkpoint
from ncf.training import epoch_log as tensorboard

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from ncf.model.neumf import Parameters

MOST_STREAMS = 64
"""Chunks scored side by side; more threads than this share the operations of a chunk."""
_POOL_PAIRS = 1 << 20
_POOL_BATCHES = 16
_EXIT_CODES = {"ok": 0, "nan": 3, "invalid": 4, "interrupted": 130}


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
    started, begun = _now(), time.perf_counter()
    logger = tensorboard.Logger(config.log_path, time.time)
    model = Model(config)
    logger.log("LOG", "PARAMETER", model.echo)
    setup_seconds = time.perf_counter() - begun
    measured: list[record.Latencies] = []
    status, reason = model.refused()
    try:
        if status == "ok":
            for found in model.measurements(time.perf_counter):
                measured.append(found)
                logger.log("LOG", [], inference.dllogger_names(found))
                say(_progress(found))
    except FloatingPointError as error:
        status, reason = "nan", str(error)
    except KeyboardInterrupt:
        status, reason = "interrupted", "stopped by a signal"
    except Exception:
        if not stop.asked:  # else a signal that arrived inside a library's own error
            raise
        status, reason = "interrupted", "stopped by a signal"
    logger.close()
    result = model.result(status, reason, started, setup_seconds, tuple(measured))
    if config.record:
        try:
            record.write_json(Path(config.record), result.to_dict())
        except OSError as error:
            raise UserError(f"--record {config.record}: {error.strerror}") from None
    if reason:
        say(f"{status}: {reason}")
    if config.json:
        print(json.dumps([inference.latency_summary(found) for found in measured], indent=1))
    elif measured:
        print(inference.latency_table(measured))
    return _EXIT_CODES[status]


class Model:
    """Weights, device and what is timed."""

    def __init__(self, config: InferConfig) -> None:
        import tensorflow as tf

        self.config = config
        self.data = dataset.load(Path(config.data)) if config.data else None
        place = distributed.place_from_environment(dict(os.environ))
        if place.size > 1:
            raise UserError(f"ncf infer measures 1 rank, and {place.size} were started")
        streams = MOST_STREAMS if config.formulation == "fast" else 1
        self._devices = distributed.prepare_devices(place, config.threads, streams)
        on_gpu = self._devices.on_gpu
        gpu = environment.gpu_details() if on_gpu else None
        capable = environment.tf32_capable(gpu)
        self.hardware = environment.hardware(on_gpu=on_gpu, threads=self._devices.threads)
        self.precision = precision.establish(
            config.precision, config.amp_dtype, on_gpu=on_gpu, tf32_capable=capable
        )
        self._dtype = tf.as_dtype(self.precision.compute_dtype)
        self.seed = secrets.randbelow(2**31) if config.seed is None else config.seed
        self._rng = np.random.default_rng(self.seed)
        self.checkpoint: dict[str, Any] = {}
        self.parameters = self._weights()
        self.users, self.items = (
            int(table.shape[0]) for table in (self.parameters.gmf_user, self.parameters.gmf_item)
        )
        if config.work != "pairs" and config.topk > self.items:
            raise UserError(f"--topk {config.topk}: there are only {self.items} items to rank")
        self.warmup_seconds = 0.0
        self.echo = {**config.echo(), "seed": self.seed, **self._sizes()}

    def _weights(self) -> Parameters:
        from ncf.model import neumf as model

        config, data = self.config, self.data
        if config.load_checkpoint_path:
            path = Path(config.load_checkpoint_path)
            found = checkpoint.restore(path, "--load_checkpoint_path", data)
            self.checkpoint = found.meta
            return found.parameters
        users = data.n_users if data else config.n_users
        items = data.n_items if data else config.n_items
        return model.create(users, items, config.factors, config.layers, self.seed)

    def _sizes(self) -> dict[str, Any]:
        """Sizes as used, whatever the options said."""
        widths = [kernel.shape[1] for kernel in self.parameters.kernels]
        first = self.parameters.mlp_user.shape[1] + self.parameters.mlp_item.shape[1]
        return {
            "n_users": self.users,
            "n_items": self.items,
            "factors": int(self.parameters.gmf_user.shape[1]),
            "layers": [int(width) for width in (first, *widths)],
        }

    def refused(self) -> tuple[str, str | None]:
        """Another precision than asked for is not worth measuring."""
        asked, found = self.precision.requested, self.precision.effective
        if asked != found:
            return "invalid", f"{asked} was requested and the device computes in {found}"
        return "ok", None

    def measurements(self, clock: Callable[[], float]) -> Iterator[record.Latencies]:
        """Every batch size, one after the other.

        Raises:
            FloatingPointError: a score is not finite.
        """
        from ncf.evaluation.pairs import CHUNK, GPU_CHUNK, Scorer

        config, begun = self.config, clock()
        chunk = GPU_CHUNK if self._devices.on_gpu else CHUNK
        streams, form = self._devices.streams, config.formulation
        scorer = Scorer(self.parameters, self._dtype, form, streams=streams, chunk=chunk)
        self.warmup_seconds += clock() - begun
        if config.work != "ranking":
            for size in config.batch_sizes:
                yield self._time("pairs", size, size, scorer_call(scorer), clock)
        if config.work != "pairs":
            from ncf.evaluation.catalogue import Catalogue

            catalogue = Catalogue(
                self.parameters,
                self._dtype,
                form,
                streams=streams,
                chunk=chunk,
                tables=scorer.tables,
            )
            rank = self._ranking_call(catalogue)
            for size in config.ranking_users:
                yield self._time("ranking", size, size * self.items, rank, clock)

    def _time(
        self, work: str, size: int, scores: int, call: Callable[[Any], Any], clock: Any
    ) -> record.Latencies:
        config, begun = self.config, clock()
        inputs = self._inputs(work, size)
        seconds = timed_calls(
            call,
            inputs,
            clock,
            warmup=config.warmup_batches,
            most=config.num_batches,
            seconds=config.seconds,
        )
        self.warmup_seconds += clock() - begun - math.fsum(seconds)
        return record.Latencies(work, size, scores, config.warmup_batches, seconds)

    def _inputs(self, work: str, size: int) -> list[Any]:
        """Batches that are taken in turn, so that a small one does not find its rows in cache."""
        import tensorflow as tf

        count = max(1, min(_POOL_BATCHES, self.config.num_batches, _POOL_PAIRS // size))

        def drawn(most: int) -> Any:
            return self._rng.integers(0, most, size).astype(np.int32)

        if work == "ranking":
            return [drawn(self.users) for _ in range(count)]
        return [
            (tf.constant(drawn(self.users)), tf.constant(drawn(self.items))) for _ in range(count)
        ]

    def _ranking_call(self, catalogue: Any) -> Callable[[Any], Any]:
        from ncf import metrics
        from ncf.evaluation.catalogue import best_of

        offsets, items = np.zeros(self.users + 1, np.int64), np.zeros(0, np.int32)
        if self.data is not None:
            offsets, items = np.asarray(self.data.train_offsets), np.asarray(self.data.train_items)

        def call(users: Any) -> None:
            try:
                for _ in best_of(catalogue, users, offsets, items, self.config.topk):
                    pass
            except metrics.NonFiniteScores as error:
                raise FloatingPointError(str(error)) from None

        return call

    def result(
        self,
        status: str,
        reason: str | None,
        started: str,
        setup_seconds: float,
        measured: tuple[record.Latencies, ...],
    ) -> record.RunRecord:
        """What was measured on what; such a run has no epochs."""
        return record.RunRecord(
            status=status,
            reason=reason,
            started_at=started,
            finished_at=_now(),
            seed=self.seed,
            world_size=1,
            topk=self.config.topk,
            target_hr=None,
            global_batch=max(self.config.batch_sizes),
            config=self.echo,
            precision=self.precision,
            dataset=self._dataset(),
            epochs=(),
            setup_seconds=setup_seconds,
            warmup_seconds=self.warmup_seconds,
            peak_memory_bytes_per_rank=(
                environment.peak_memory_bytes(on_gpu=self._devices.on_gpu),
            ),
            versions=environment.versions("not used", INFER),
            hardware=self.hardware,
            inference=measured,
        )

    def _dataset(self) -> record.Dataset:
        """Sizes; the candidates are those stored with the data, none of which is scored here."""
        data = self.data
        stored = data.manifest["candidates"] if data else {}
        known = (data.manifest.get("hr_at_10") or {}) if data else {}
        return record.Dataset(
            name=data.name if data else "random pairs",
            hash=data.hash if data else f"{self.users}x{self.items}",
            users=self.users,
            items=self.items,
            train_interactions=data.n_train if data else 0,
            test_users=data.n_test if data else 0,
            protocol=str(stored.get("protocol", "none")),
            candidates_per_user=int(stored.get("per_user", 0)),
            candidates_hash=str(stored.get("hash", "none")),
            effective_candidates_mean=float(stored.get("effective_mean") or 0.0),
            chance_hr_at_k=float(known.get("chance") or 0.0),
            popularity_hr_at_k=float(known.get("popularity") or 0.0),
        )


def scorer_call(scorer: Any) -> Callable[[Any], Any]:
    """A call that returns when the scores are here, and refuses those that are not finite.

    The check is on the sum, which one pass over the scores gives: it is part of a call's time.
    """

    def call(pair: Any) -> None:
        total = float(scorer(*pair).numpy().sum(dtype=np.float64))
        if not math.isfinite(total):
            raise FloatingPointError("scores are not finite")

    return call


def _progress(found: record.Latencies) -> str:
    figures = inference.latency_summary(found)
    rate, median = figures["scores_per_second"], figures["p50_seconds"]
    what = f"{found.work} of {found.batch_size:,}: {rate:,.0f} scores/s"
    return f"{what}, median {median * 1000:,.3f} ms (n={figures['n']})"


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
