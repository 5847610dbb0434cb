"""Made-up attempts for the report's tests: plausible curves, exact numbers where one is needed."""

from __future__ import annotations

import dataclasses
import math
import random

from bench.records.attempt import Attempt, Failure
from bench.suite.model import Cell, DataSpec, Suite, cells
from ncf.record import Dataset, Epoch, Precision, RunRecord

CPU_HOST = {
    "cpu_model": "Example CPU 9000",
    "cores": 2,
    "memory_bytes": 8 * 2**30,
    "gpus": [],
    "no_gpus": "no NVIDIA driver answers",
    "driver": None,
}
A100 = {"name": "NVIDIA A100-SXM4-40GB", "uuid": "GPU-1", "memory_bytes": 40 * 2**30}
A100_HOST = {
    **CPU_HOST,
    "cpu_model": "AMD EPYC 7742",
    "cores": 128,
    "memory_bytes": 1024 * 2**30,
    "gpus": [A100] * 8,
    "driver": "535.1",
}
ML_100K = Dataset(
    name="ml-100k",
    hash="0123456789abcdef",
    users=943,
    items=1682,
    train_interactions=99057,
    test_users=943,
    protocol="nvidia",
    candidates_per_user=100,
    candidates_hash="fedcba9876543210",
    effective_candidates_mean=97.2,
    chance_hr_at_k=0.1018,
    popularity_hr_at_k=0.4104,
)
ML_20M = dataclasses.replace(
    ML_100K,
    name="ml-20m",
    users=138493,
    items=26744,
    train_interactions=19861770,
    test_users=138493,
    chance_hr_at_k=0.0992,
    popularity_hr_at_k=0.7012,
)


def make_suite(**changes) -> Suite:
    """A suite like `smoke`."""
    suite = Suite(
        name="sample",
        title="Sample",
        description="Made-up runs.",
        data=DataSpec(source="ml-100k"),
        train={"epochs": 8, "batch_size": 16384, "learning_rate": 0.0045},
        axes={"ranks": (1, 2), "precision": ("fp32", "amp")},
        seeds=(1, 2, 3),
        timeout_s=300,
        order_seed=1,
        published_systems=(),
        margin_hr=None,
    )
    return dataclasses.replace(suite, **changes)


def make_run(
    *,
    seed=1,
    ranks=1,
    precision="fp32",
    rate=150_000.0,
    hit_rates=(0.5, 0.6, 0.65),
    samples=495_285,
    data=ML_100K,
    batch=16384,
    target=1.0,
    dtype="bfloat16",
) -> RunRecord:
    """A run whose throughput is exactly `rate` samples/s and whose epochs reach `hit_rates`."""
    epochs = tuple(
        Epoch(
            epoch=number,
            steps=31,
            samples=samples,
            train_seconds=samples / rate + (1.0 if number == 1 else 0.0),
            timed_samples=samples,
            timed_seconds=samples / rate,
            loss=0.4 / math.sqrt(number),
            eval_seconds=0.5,
            hr_at_k=hr,
            ndcg_at_k=None if hr is None else hr * 0.6,
        )
        for number, hr in enumerate(hit_rates, start=1)
    )
    return RunRecord(
        status="ok",
        started_at="2026-11-30T08:00:00Z",
        finished_at="2026-11-30T08:01:00Z",
        seed=seed,
        world_size=ranks,
        topk=10,
        target_hr=target,
        global_batch=batch,
        config={"factors": 64, "layers": [256, 256, 128, 64], "negative_samples": 4},
        precision=Precision(precision, precision, dtype if precision == "amp" else "float32"),
        dataset=data,
        epochs=epochs,
        setup_seconds=3.0,
        warmup_seconds=1.0,
        peak_memory_bytes_per_rank=(2**30,) * ranks,
        versions={
            "ncf": "0.1.0",
            "python": "3.12.3",
            "tensorflow": "2.21.0",
            "horovod": "not used" if ranks == 1 else "0.28.1",
        },
        hardware={"device": "cpu"},
    )


def make_attempt(cell, seed, run=None, *, status=None, number=1, host=None, minute=0) -> Attempt:
    """An attempt; without a run it is a failure of the given status."""
    status = status or ("ok" if run is not None else "crash")
    failure = None if status == "ok" else Failure(f"rank 1 ended with {status}", rank=1)
    return Attempt(
        suite="sample",
        cell=cell,
        seed=seed,
        attempt=number,
        status=status,
        failure=failure,
        started_at=f"2026-11-30T08:{minute:02d}:00Z",
        finished_at=f"2026-11-30T08:{minute:02d}:50Z",
        wall_seconds=50.0,
        host=CPU_HOST if host is None else host,
        run=run,
    )


def as_attempt(run) -> Attempt:
    """A good attempt with this record."""
    return make_attempt(Cell({}, {}, "cell"), run.seed, run)


def grid(
    suite, *, spread=0.008, best=0.66, rate=150_000.0, epochs=None, noise=0.03, **run
) -> list[Attempt]:
    """A good attempt for every cell and seed: AMP 1.25 times as fast, 1.6 times per doubling."""
    rng = random.Random(7)
    attempts = []
    epochs = epochs or int(suite.train["epochs"])
    users = run.get("data", ML_100K).test_users

    def hit_rate(top, epoch):
        start = 0.68 * top
        value = top - (top - start) * math.exp(-0.5 * epoch) + rng.gauss(0, spread / 4)
        return round(value * users) / users

    for index, cell in enumerate(cells(suite)):
        speed = rate * (1.25 if cell.precision == "amp" else 1.0) * 1.6 ** math.log2(cell.ranks)
        for seed in suite.seeds:
            top = best + rng.gauss(0, spread)
            rates = [hit_rate(top, epoch) for epoch in range(1, epochs + 1)]
            made = make_run(
                seed=seed,
                ranks=cell.ranks,
                precision=cell.precision,
                rate=speed * (1 + rng.gauss(0, noise)),
                hit_rates=rates,
                **run,
            )
            attempts.append(make_attempt(cell, seed, made, minute=min(59, index * 3 + seed % 3)))
    return attempts
