"""Times inference calls of a frozen model, and computes their throughput and latencies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf.metrics import NonFiniteScores
from ncf.record import FEWEST, Latencies, quantile, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ncf.config.infer import InferConfig
    from ncf.data.dataset import Data
    from ncf.evaluation.catalogue import Catalogue
    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Devices

_POOL_PAIRS = 1 << 20
_POOL_BATCHES = 16

LEAST_TIMED = 3
"""Calls that are timed however long they take: fewer say nothing about their spread."""


def timed_calls(
    call: Callable[[Any], Any],
    inputs: Sequence[Any],
    clock: Callable[[], float],
    *,
    warmup: int,
    most: int,
    seconds: float,
) -> tuple[float, ...]:
    """Seconds of each call after the warm-up.

    Args:
        call: takes one input; returns when the device has finished.
        inputs: taken in turn.
        clock: seconds, monotonic.
        warmup: calls that are left out at the start; fewer than `most`.
        most: calls in all.
        seconds: no further call begins after so much time, once LEAST_TIMED were timed.

    Raises:
        ValueError: the warm-up would leave nothing to time.
    """
    if warmup >= most:
        raise ValueError(f"a warm-up of {warmup} leaves nothing of {most} calls to time")
    for number in range(warmup):
        call(inputs[number % len(inputs)])
    timed: list[float] = []
    begun = clock()
    for number in range(warmup, most):
        start = clock()
        if len(timed) >= LEAST_TIMED and start - begun >= seconds:
            break
        call(inputs[number % len(inputs)])
        timed.append(clock() - start)
    return tuple(timed)


TAILS = {f"p{q * 100:.0f}": q for q in FEWEST}


def latency_summary(latencies: Latencies) -> dict[str, Any]:
    """Figures of one batch size: scores and users (or pairs) per second, seconds per call.

    Throughput is scores divided by the seconds of the same calls, without the warm-up. Percentiles
    without enough calls (`ncf.record.FEWEST`) are None.
    """
    seconds = latencies.seconds
    total = math.fsum(seconds)
    return {
        "work": latencies.work,
        "batch_size": latencies.batch_size,
        "n": len(seconds),
        "scores_per_second": len(seconds) * latencies.scores_per_batch / total,
        "batches_per_second": len(seconds) / total,
        # fsum / n may land an ulp outside the data; a mean lies within them
        "mean_seconds": min(max(total / len(seconds), min(seconds)), max(seconds)),
        "p50_seconds": quantile(sorted(seconds), 0.5),
        **{f"{name}_seconds": tail(seconds, q) for name, q in TAILS.items()},
        "max_seconds": max(seconds),
    }


def dllogger_names(latencies: Latencies) -> dict[str, float]:
    """The figures under the names of NVIDIA's inference scripts, without those that are missing."""
    figures = latency_summary(latencies)
    begin = (
        f"batch_{latencies.batch_size}"
        if latencies.work == "pairs"
        else f"users_{latencies.batch_size}"
    )
    named = {f"{begin}_mean_throughput": figures["scores_per_second"]}
    for name in ("mean", *TAILS):
        if figures[f"{name}_seconds"] is not None:
            named[f"{begin}_{name}_latency"] = figures[f"{name}_seconds"]
    return named


class Engine:
    """Times a model on random pairs and users.

    Args:
        config: what is timed, and for how long.
        parameters: weights.
        dtype: type of the matmuls.
        devices: of this rank.
        data: training items to leave out of a ranking; none if None.
        seed: of the pairs and users.

    `warmup_seconds` adds up what is not part of a timed call.
    """

    def __init__(
        self,
        config: InferConfig,
        parameters: Parameters,
        dtype: Any,
        devices: Devices,
        data: Data | None,
        seed: int,
    ) -> None:
        self._config, self._parameters, self._dtype = config, parameters, dtype
        self._devices, self._data = devices, data
        self._rng = np.random.default_rng(seed)
        self._users = int(parameters.gmf_user.shape[0])
        self._items = int(parameters.gmf_item.shape[0])
        self.warmup_seconds = 0.0

    def measurements(self, clock: Callable[[], float]) -> Iterator[Latencies]:
        """Every batch size, one after the other.

        Raises:
            FloatingPointError: a score is not finite.
        """
        from ncf.evaluation.catalogue import Catalogue
        from ncf.evaluation.precomputed import CHUNK, GPU_CHUNK, Scorer

        config, begun = self._config, clock()
        chunk = GPU_CHUNK if self._devices.on_gpu else CHUNK
        model = (self._parameters, self._dtype, config.formulation)
        streams = self._devices.streams
        scorer = Scorer(*model, streams=streams, chunk=chunk)
        self.warmup_seconds += clock() - begun
        if config.work != "ranking":
            for size in config.batch_sizes:
                yield self._time("pairs", size, size, scorer_call(scorer), clock)
        if config.work != "pairs":
            catalogue = Catalogue(*model, streams=streams, chunk=chunk, tables=scorer.tables)
            rank = self._ranking_call(catalogue)
            for size in config.ranking_users:
                yield self._time("ranking", size, size * self._items, rank, clock)

    def _time(
        self, work: str, size: int, scores: int, call: Callable[[Any], Any], clock: Any
    ) -> Latencies:
        config, begun = self._config, clock()
        seconds = timed_calls(
            call,
            self._inputs(work, size),
            clock,
            warmup=config.warmup_batches,
            most=config.num_batches,
            seconds=config.seconds,
        )
        self.warmup_seconds += clock() - begun - math.fsum(seconds)
        return Latencies(work, size, scores, config.warmup_batches, seconds)

    def _inputs(self, work: str, size: int) -> list[Any]:
        """Batches that are taken in turn, so that a small one does not find its rows in cache."""
        import tensorflow as tf

        count = max(1, min(_POOL_BATCHES, self._config.num_batches, _POOL_PAIRS // size))

        def draw(most: int) -> Any:
            return self._rng.integers(0, most, size).astype(np.int32)

        if work == "ranking":
            return [draw(self._users) for _ in range(count)]
        return [
            (tf.constant(draw(self._users)), tf.constant(draw(self._items))) for _ in range(count)
        ]

    def _ranking_call(self, catalogue: Catalogue) -> Callable[[Any], Any]:
        from ncf.evaluation.catalogue import best_of

        offsets, items = np.zeros(self._users + 1, np.int64), np.zeros(0, np.int32)
        if self._data is not None:
            offsets = np.asarray(self._data.train_offsets)
            items = np.asarray(self._data.train_items)

        def call(users: Any) -> None:
            try:
                for _ in best_of(catalogue, users, offsets, items, self._config.topk):
                    pass
            except NonFiniteScores as error:
                raise FloatingPointError(str(error)) from None

        return call


def scorer_call(scorer: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A call that returns when the scores are here, and raises if one is not finite.

    The check is on the sum, which one pass over the scores gives: it is part of a call's time.
    """

    def call(pair: Any) -> None:
        total = float(scorer(*pair).numpy().sum(dtype=np.float64))
        if not math.isfinite(total):
            raise FloatingPointError("scores are not finite")

    return call
