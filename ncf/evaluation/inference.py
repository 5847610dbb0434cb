"""Timed inference calls, and throughput and latencies of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ncf.record import FEWEST, Latencies, quantile, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    found: list[float] = []
    begun = clock()
    for number in range(warmup, most):
        start = clock()
        if len(found) >= LEAST_TIMED and start - begun >= seconds:
            break
        call(inputs[number % len(inputs)])
        found.append(clock() - start)
    return tuple(found)


_TAILS = {f"p{q * 100:.0f}": q for q in FEWEST}


def latency_summary(found: Latencies) -> dict[str, Any]:
    """Figures of one batch size: scores and users (or pairs) per second, seconds per call.

    Percentiles without enough calls are None.
    """
    seconds = found.seconds
    total = math.fsum(seconds)
    return {
        "work": found.work,
        "batch_size": found.batch_size,
        "n": len(seconds),
        "scores_per_second": len(seconds) * found.scores_per_batch / total,
        "batches_per_second": len(seconds) / total,
        # fsum / n may land an ulp outside the data; a mean lies within them
        "mean_seconds": min(max(total / len(seconds), min(seconds)), max(seconds)),
        "p50_seconds": quantile(sorted(seconds), 0.5),
        **{f"{name}_seconds": tail(seconds, q) for name, q in _TAILS.items()},
        "max_seconds": max(seconds),
    }


def latency_table(measured: Sequence[Latencies]) -> str:
    """A Markdown table, a row per work and batch size; milliseconds of a call."""
    names = ("mean", "p50", *_TAILS, "max")
    headers = ["Work", "Batch", "Scores/s", "Users/s", "n", *(f"{name} (ms)" for name in names)]
    rows = [headers, ["---", *["---:"] * (len(headers) - 1)]]
    for found in measured:
        figures = latency_summary(found)
        users = figures["batches_per_second"] * found.batch_size
        rows.append(
            [
                found.work,
                f"{found.batch_size:,}",
                f"{figures['scores_per_second']:,.0f}",
                f"{users:,.1f}" if found.work == "ranking" else "",
                str(figures["n"]),
                *(_milliseconds(figures[f"{name}_seconds"]) for name in names),
            ]
        )
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    short = [
        name for name, q in _TAILS.items() if any(len(x.seconds) < FEWEST[q] for x in measured)
    ]
    if short:
        needs = ", ".join(f"{name} {FEWEST[_TAILS[name]]}" for name in short)
        text += f"\n\nn/a: too few calls for that percentile (needed: {needs})."
    return text


def dllogger_names(found: Latencies) -> dict[str, float]:
    """The figures under the names of NVIDIA's inference scripts, without those that are missing."""
    figures = latency_summary(found)
    begin = f"batch_{found.batch_size}" if found.work == "pairs" else f"users_{found.batch_size}"
    named = {f"{begin}_mean_throughput": figures["scores_per_second"]}
    for name in ("mean", *_TAILS):
        if figures[f"{name}_seconds"] is not None:
            named[f"{begin}_{name}_latency"] = figures[f"{name}_seconds"]
    return named


def _milliseconds(seconds: float | None) -> str:
    return "n/a" if seconds is None else f"{seconds * 1000:,.3f}"
