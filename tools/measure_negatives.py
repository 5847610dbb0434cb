"""Measure what exact negatives cost against the short cut, in time and memory.

    ncf synthesize --preset 20m --output data/synthetic-20m
    python tools/measure_negatives.py --data data/synthetic-20m

Each way is timed in processes of its own, in turn, so that neither has the warmer machine. A step
is a whole update (sampling, gradients, Adam) of --batch_size samples; an epoch is such steps only,
so the ratio of step times is the ratio of epoch times.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Sequence

WAYS = {"short cut": [], "exact": ["--no_neg_trick"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both ways in turn and print times, memory and their relation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="data folder")
    parser.add_argument("--batch_size", type=int, default=262_140)
    parser.add_argument("--steps", type=int, default=4, help="timed steps in each process [4]")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each way [3]")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.way:
        print(json.dumps(measure(args)))
        return 0
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way in WAYS:
            found[way].append(in_process(args, way))
    for way, results in found.items():
        steps = [seconds for result in results for seconds in result["step_seconds"]]
        draws = [seconds for result in results for seconds in result["sampling_seconds"]]
        memory = [result["peak_memory_bytes"] / 1e6 for result in results]
        print(
            f"{way:<10} step {spread(steps)} s, of which sampling {spread(draws)} s; "
            f"peak memory {min(memory):,.0f} to {max(memory):,.0f} MB (n = {len(results)}); "
            f"false negatives {results[0]['false_negatives']:.3%}"
        )

    def median(way: str, name: str) -> float:
        return statistics.median(value for result in found[way] for value in as_list(result[name]))

    cheap, exact = (median(way, "step_seconds") for way in WAYS)
    more = median("exact", "peak_memory_bytes") - median("short cut", "peak_memory_bytes")
    print(f"exact / short cut: time {exact / cheap:.3f}, memory {more / 1e6:+,.0f} MB")
    # On a busy machine steps vary by more than sampling costs; the difference of sampling varies
    # less, so it is told as a share of the step too.
    added = median("exact", "sampling_seconds") - median("short cut", "sampling_seconds")
    print(f"sampling adds {added:.3f} s to a step of {cheap:.3f} s: {added / cheap:+.1%}")
    return 0


def in_process(args: argparse.Namespace, way: str) -> dict[str, Any]:
    """Measure one way in a process of its own."""
    words = ["--data", args.data, "--batch_size", args.batch_size, "--steps", args.steps]
    command = [sys.executable, __file__, *map(str, words), "--way", way]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Time steps, and sampling alone, after one of each to warm up."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    from ncf.config.train import config_from_arguments
    from ncf.training.setup import set_up

    words = ["--data", args.data, "--batch_size", str(args.batch_size), "--seed", "1"]
    setup = set_up(config_from_arguments([*words, *WAYS[args.way]]))
    sampler, train_step, shares = setup.sampler, setup.step, setup.shares
    part = shares[0]
    train_step.compile(part.padded)
    keys, dropout_key = setup.epoch_keys(1)
    signature = [tf.TensorSpec([], tf.int64)]
    draw = tf.function(
        lambda first: sampler.batch(keys, first, tf.constant(part.valid, tf.int64), part.padded),
        input_signature=signature,
    )

    def step(number: int) -> None:
        train_step(keys, dropout_key, number, [shares[number]])
        train_step.loss_sum.numpy()  # waits for the device

    def sample(number: int) -> None:
        draw(tf.constant(shares[number].first, tf.int64)).items.numpy()

    result: dict[str, Any] = {
        name: [timed(work, number) for number in range(args.steps + 1)][1:]
        for name, work in (("step_seconds", step), ("sampling_seconds", sample))
    }
    false, negatives = sampler.false_negatives(keys)
    result["false_negatives"] = false / negatives
    result["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result


def timed(work: Any, number: int) -> float:
    """Seconds that `work(number)` takes."""
    start = time.perf_counter()
    work(number)
    return time.perf_counter() - start


def as_list(value: Any) -> list[float]:
    """One number or several, as several."""
    return value if isinstance(value, list) else [value]


def spread(seconds: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f})"


if __name__ == "__main__":
    sys.exit(main())
