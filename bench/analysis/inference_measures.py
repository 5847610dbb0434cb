"""Rates and latencies derived from the inference part of a record. Pure.

A percentile is one of timed calls; an interval is one of runs, as elsewhere.
"""

from __future__ import annotations

import math
import statistics
from functools import lru_cache
from typing import TYPE_CHECKING

from bench.analysis.grid import Block
from bench.analysis.measures import Measure, of_run
from bench.stats.summary import FEWEST, Missing, Value, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.analysis.grid import Block
    from ncf.record import Latencies, RunRecord

PAIRS, RANKING = "pairs", "ranking"
LATENCIES = ("mean", "p50", "p90", "p95", "p99", "max")


def timed(run: RunRecord, work: str, batch: int) -> Latencies | None:
    """The calls of one batch size, or None where the run has none."""
    found = (one for one in run.inference or () if (one.work, one.batch_size) == (work, batch))
    return next(found, None)


def batches(runs: Iterable[RunRecord], work: str) -> tuple[int, ...]:
    """Every batch size that one of the runs was timed at, ascending."""
    sizes = {one.batch_size for run in runs for one in run.inference or () if one.work == work}
    return tuple(sorted(sizes))


@lru_cache
def scores_rate(work: str, batch: int) -> Measure:
    """Scored (user, item) pairs per second: those of all timed calls over their seconds."""

    def of(run: RunRecord) -> Value:
        return _per_second(timed(run, work, batch), lambda one: one.scores_per_batch)

    return of_run(f"{work}_scores_{batch}", "samples/s", "higher", of)


@lru_cache
def users_rate(batch: int) -> Measure:
    """Users per second whose top k of the whole catalogue was found."""

    def of(run: RunRecord) -> Value:
        return _per_second(timed(run, RANKING, batch), lambda one: one.batch_size)

    return of_run(f"ranking_users_{batch}", "users/s", "higher", of)


@lru_cache
def latency(work: str, batch: int, what: str) -> Measure:
    """Seconds of a call: one of LATENCIES over the timed calls of a run.

    p90, p95 and p99 are Missing below the number of calls that stats.FEWEST asks for.
    """

    def of(run: RunRecord) -> Value:
        found = timed(run, work, batch)
        if found is None or not found.seconds:
            return Missing("not measured")
        seconds = found.seconds
        if not all(math.isfinite(value) and value >= 0 for value in seconds):
            return Missing("not finite")
        if what == "mean":
            mean = math.fsum(seconds) / len(seconds)
            return min(max(mean, min(seconds)), max(seconds))
        if what in ("p50", "max"):
            return statistics.median(seconds) if what == "p50" else max(seconds)
        return tail(seconds, _QUANTILES[what])

    return of_run(f"{work}_latency_{what}_{batch}", "s", "lower", of)


_QUANTILES = {f"p{q * 100:.0f}": q for q in FEWEST}


def _per_second(found: Latencies | None, amount: Callable[[Latencies], int]) -> Value:
    if found is None or not found.seconds:
        return Missing("not measured")
    seconds = math.fsum(found.seconds)
    if not (0 < seconds < math.inf):
        return Missing("no time measured")
    return amount(found) * len(found.seconds) / seconds


def has_work(block: Block, work: str) -> bool:
    """Whether any run was timed at this work."""
    return bool(batches(block.runs, work))


def has_inference(blocks: Sequence[Block]) -> bool:
    """Whether any run of any block was timed at inference."""
    return any(has_work(block, work) for block in blocks for work in (PAIRS, RANKING))
