"""Made-up blocks of runs for the pictures' tests: whole, with holes, stopped early, and more."""

from __future__ import annotations

from dataclasses import replace

from sample_records import ML_20M, grid, make_attempt, make_run, make_suite

from bench.analysis.group import group
from bench.suite.model import cells


def block_of(suite, attempts):
    return group(cells(suite), suite.seeds, attempts).blocks[0]


def smoke():
    suite = make_suite()
    return block_of(suite, grid(suite))


def single_run():
    suite = make_suite(seeds=(1,), axes={"ranks": (1,), "precision": ("fp32",)})
    return block_of(suite, grid(suite))


def dgx():
    suite = make_suite(
        train={"epochs": 30}, axes={"ranks": (1, 4, 8, 16), "precision": ("fp32", "tf32", "amp")}
    )
    return block_of(
        suite,
        grid(suite, spread=4e-4, best=0.959, rate=2e7, data=ML_20M, target=0.9562, dtype="float16"),
    )


def with_holes():
    suite = make_suite(axes={"ranks": (1, 2, 4), "precision": ("fp32", "tf32", "amp")})
    kept = [
        a for a in grid(suite) if a.cell.precision != "tf32" and (a.cell.ranks, a.seed) != (2, 1)
    ]
    kept = [a for a in kept if (a.cell.ranks, a.cell.precision) != (4, "amp")]
    return block_of(suite, [*kept, make_attempt(cells(suite)[-1], 1, status="oom")])


def stopped_early():
    suite = make_suite(train={"epochs": 20}, seeds=(1, 2, 3, 4, 5))
    return block_of(
        suite,
        [
            replace(a, run=replace(a.run, target_hr=0.65, epochs=a.run.epochs[: 4 + a.seed]))
            for a in grid(suite)
        ],
    )


def out_of_reach():
    suite = make_suite()
    return block_of(suite, grid(suite, target=0.9562))


def never_evaluated():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32", "amp")})
    return block_of(
        suite,
        [
            replace(
                a,
                run=replace(
                    a.run,
                    epochs=tuple(replace(e, hr_at_k=None, timed_seconds=0.0) for e in a.run.epochs),
                ),
            )
            for a in grid(suite)
        ],
    )


def one_rank_block(arms, *, epochs=None, data=ML_20M, target=1.0):
    """One rank; a list of best hit rates per precision."""
    n = max(len(values) for values in arms.values())
    suite = make_suite(axes={"ranks": (1,), "precision": tuple(arms)}, seeds=tuple(range(1, n + 1)))
    attempts = []
    for cell in cells(suite):
        for seed, value in enumerate(arms[cell.precision], start=1):
            run = make_run(
                seed=seed,
                precision=cell.precision,
                hit_rates=(0.3, value),
                data=data,
                target=target,
            )
            attempts.append(make_attempt(cell, seed, run))
    return group(cells(suite), suite.seeds, attempts).blocks[0]
