"""What timed inference calls say: throughput, mean, percentiles, as a table or plain data. Pure.

A percentile is only told where there are enough calls for it (`record.FEWEST`), and n stands
beside every row. Throughput is scores over seconds of the same calls, the warm-up left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ncf.record import FEWEST, quantile, tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncf.record import Latencies

_TAILS = {f"p{q * 100:.0f}": q for q in FEWEST}


def summary(found: Latencies) -> dict[str, Any]:
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


def table(measured: Sequence[Latencies]) -> str:
    """A Markdown table, a row per work and batch size; milliseconds of a call."""
    names = ("mean", "p50", *_TAILS, "max")
    headers = ["Work", "Batch", "Scores/s", "Users/s", "n", *(f"{name} (ms)" for name in names)]
    rows = [headers, ["---", *["---:"] * (len(headers) - 1)]]
    for found in measured:
        figures = summary(found)
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
    figures = summary(found)
    begin = f"batch_{found.batch_size}" if found.work == "pairs" else f"users_{found.batch_size}"
    named = {f"{begin}_mean_throughput": figures["scores_per_second"]}
    for name in ("mean", *_TAILS):
        if figures[f"{name}_seconds"] is not None:
            named[f"{begin}_{name}_latency"] = figures[f"{name}_seconds"]
    return named


def _milliseconds(seconds: float | None) -> str:
    return "n/a" if seconds is None else f"{seconds * 1000:,.3f}"
