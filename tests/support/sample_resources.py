"""Runs with communication or a roofline."""

from __future__ import annotations

from dataclasses import replace

from ncf.record import Communication, Roofline


def talking(run, waiting=(0.2, 0.5), steps=(2.0, 2.0)):
    found = Communication(
        parallel="user-sharded",
        reduced_bytes_per_step=7_340_032,
        measured_steps=20,
        waiting_seconds_per_rank=waiting,
        step_seconds_per_rank=steps,
    )
    return replace(run, communication=found)


PEAKS = {"fp32": 150e9, "amp": 600e9}


COST = {"reference": (700_000.0, 9_000.0), "fast": (450_000.0, 3_000.0)}


def probed(run, formulation="fast", copy=20e9):
    flops, moved = COST[formulation]
    return replace(
        run,
        roofline=Roofline(
            formulation=formulation,
            compute_dtype=run.precision.compute_dtype,
            flops_per_sample=flops,
            bytes_per_sample=moved,
            matmul_flops_per_second=PEAKS[run.precision.requested],
            copy_bytes_per_second=copy,
        ),
    )
