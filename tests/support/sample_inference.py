"""Made-up inference runs for the report's tests: exact rates, latencies with a long tail."""

from __future__ import annotations

import dataclasses
import random

from sample_records import A100_HOST, ML_20M, make_attempt, make_run, make_suite

from bench.analysis.group import group
from bench.suite.model import Contrast, cells
from ncf.record import Latencies

ITEMS = 26744
SIZES = {1: 400, 1024: 200, 262144: 30, 1048576: 12}
"""Timed calls by batch size."""
SUITE = make_suite(
    title="Inference",
    train={},
    axes={"formulation": ("reference", "fast"), "precision": ("fp32", "amp")},
    seeds=(1, 2, 3, 4, 5, 6),
    compare=(Contrast({"formulation": "reference"}),),
)
A100 = "DGX A100 1x A100 40GB"
ONE_A100 = {**A100_HOST, "gpus": A100_HOST["gpus"][:1]}


def calls(rng, seconds, n):
    """Seconds of n calls: nearly alike, every twentieth a half longer."""
    return tuple(
        seconds * (1.5 if i % 20 == 19 else 1.0) * (1 + 0.02 * rng.random()) for i in range(n)
    )


def infer_run(seed=1, precision="fp32", formulation="fast", *, sizes=None, ranking=True, **run):
    """A run that took 0.2 ms a call and 1 us a pair; fast is twice, amp 1.5 times as fast."""
    rng = random.Random(f"{seed}/{precision}/{formulation}")
    times = (2.0 if formulation == "fast" else 1.0) * (1.5 if precision == "amp" else 1.0)
    times *= 1 + 0.02 * rng.random()
    timed = [
        Latencies("pairs", size, size, 5, calls(rng, (2e-4 + 1e-6 * size) / times, n))
        for size, n in (SIZES if sizes is None else sizes).items()
    ]
    if ranking:
        timed += [
            Latencies("ranking", size, size * ITEMS, 2, calls(rng, size * ITEMS / 2e6 / times, 25))
            for size in (64, 512)
        ]
    made = make_run(seed=seed, precision=precision, data=ML_20M, hit_rates=(), batch=1, **run)
    return dataclasses.replace(made, inference=tuple(timed))


def inference_grid(suite=SUITE, host=None, **options):
    """A good attempt for every cell and seed."""
    return [
        make_attempt(
            cell,
            seed,
            infer_run(seed, cell.precision, str(cell.axes.get("formulation", "fast")), **options),
            host=host,
            minute=index,
        )
        for index, cell in enumerate(cells(suite))
        for seed in suite.seeds
    ]


def inference_blocks(suite=SUITE, attempts=None):
    """The runs in order."""
    found = inference_grid(suite) if attempts is None else attempts
    return group(cells(suite), suite.seeds, found)


def on_a100(precisions=("tf32", "amp")):
    """A suite beside the published figures of one A100, and its runs on one."""
    suite = dataclasses.replace(
        SUITE,
        axes={"formulation": ("reference", "fast"), "precision": precisions},
        published_systems=(A100,),
    )
    return suite, inference_grid(suite, host=ONE_A100, dtype="float16")
