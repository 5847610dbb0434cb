"""Quantities derived from one run. Records store facts; every number made of them is made here.

Pure. A quantity that a run cannot give is Missing with the reason, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bench.stats.summary import Missing, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.records.attempt import Attempt
    from ncf.record import Epoch, RunRecord


@dataclass(frozen=True)
class Measure:
    """A quantity with its unit and the direction in which it is better."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    of: Callable[[Attempt], Value]


def of_run(
    name: str,
    unit: str,
    better: Literal["higher", "lower"],
    compute: Callable[[RunRecord], Value],
) -> Measure:
    """A quantity that the trainer's record alone gives; Missing where an attempt has none."""

    def of(attempt: Attempt) -> Value:
        return Missing("no record") if attempt.run is None else compute(attempt.run)

    return Measure(name, unit, better, of)


def throughput(run: RunRecord) -> Value:
    """Training samples/s: samples and seconds of the same steps, summed over epochs.

    Warm-up steps (tracing, compilation) and evaluation are in neither; samples are those of all
    ranks without padding, seconds those of the slowest rank.
    """
    samples = sum(epoch.timed_samples for epoch in run.epochs)
    seconds = math.fsum(epoch.timed_seconds for epoch in run.epochs)
    if samples > 0 and 0 < seconds < math.inf:
        return samples / seconds
    return Missing("no timed steps")


def evaluated(run: RunRecord) -> list[tuple[Epoch, float]]:
    """The epochs that have a hit rate, with it."""
    found = ((epoch, epoch.hr_at_k) for epoch in run.epochs)
    return [(epoch, hr) for epoch, hr in found if hr is not None and math.isfinite(hr)]


def best_epoch(run: RunRecord) -> Epoch | None:
    """The first epoch that reached the highest hit rate; None if nothing was evaluated."""
    found = evaluated(run)
    return max(found, key=lambda item: item[1])[0] if found else None


def best_hr(run: RunRecord) -> Value:
    """Highest hit rate over the evaluated epochs."""
    return max((hr for _, hr in evaluated(run)), default=Missing("never evaluated"))


def epochs_to_best(run: RunRecord) -> Value:
    """Number of the epoch with the best hit rate, counted from 1."""
    best = best_epoch(run)
    return Missing("never evaluated") if best is None else float(best.epoch)


def time_to_best(run: RunRecord) -> Value:
    """Seconds of training and evaluation up to the end of the best epoch.

    This is what the published tables call time to train. Set-up (data, library
    start-up) is outside; compilation during the first epoch is inside. A run that stops at its
    target ends with its best epoch, so this is its time to target too.
    """
    best = best_epoch(run)
    if best is None:
        return Missing("never evaluated")
    until = run.epochs[: run.epochs.index(best) + 1]
    seconds = math.fsum(epoch.train_seconds + (epoch.eval_seconds or 0.0) for epoch in until)
    return seconds if 0 < seconds < math.inf else Missing("no time measured")


def final_loss(run: RunRecord) -> Value:
    """Mean training loss of the last epoch."""
    if not run.epochs:
        return Missing("no epochs")
    loss = run.epochs[-1].loss
    return loss if math.isfinite(loss) else Missing("not finite")


def target(run: RunRecord) -> float | None:
    """The hit rate at which the run was to stop; None where it had none (1.0 trains all epochs)."""
    return None if run.target_hr is None or run.target_hr >= 1 else run.target_hr


def reached_target(run: RunRecord) -> bool | None:
    """Whether the best hit rate reached the target; None without a target."""
    goal, best = target(run), best_hr(run)
    return None if goal is None else not isinstance(best, Missing) and best >= goal


def best_epoch_throughput(run: RunRecord) -> Value:
    """Samples/s of the fastest epoch: the convention of NVIDIA's PyTorch README."""
    rates = [
        epoch.timed_samples / epoch.timed_seconds
        for epoch in run.epochs
        if epoch.timed_samples > 0 and 0 < epoch.timed_seconds < math.inf
    ]
    return max(rates, default=Missing("no timed steps"))


def peak_memory(run: RunRecord) -> Value:
    """Peak bytes of the rank that needed most: of the device on a GPU, resident on a CPU."""
    known = [size for size in run.peak_memory_bytes_per_rank if size > 0]
    return float(max(known)) if known else Missing("not recorded")


def flops_per_sample(run: RunRecord) -> Value:
    """Floating point operations of a training sample, counted from the formulation's shapes."""
    return Missing("not recorded") if run.roofline is None else run.roofline.flops_per_sample


def bytes_per_sample(run: RunRecord) -> Value:
    """Bytes that a training sample moves, counted likewise."""
    return Missing("not recorded") if run.roofline is None else run.roofline.bytes_per_sample


def matmul_peak(run: RunRecord) -> Value:
    """FLOP/s of a large matmul in the run's compute type, measured in one rank's process."""
    return _peak(run, "matmul_flops_per_second")


def copy_peak(run: RunRecord) -> Value:
    """Bytes/s, read plus written, of a large copy in one rank's process."""
    return _peak(run, "copy_bytes_per_second")


def _peak(run: RunRecord, name: str) -> Value:
    value = None if run.roofline is None else getattr(run.roofline, name)
    return value if value is not None and 0 < value < math.inf else Missing("not recorded")


def intensity(run: RunRecord) -> Value:
    """Arithmetic intensity: FLOP per byte moved."""
    flops, moved = flops_per_sample(run), bytes_per_sample(run)
    if isinstance(flops, Missing) or isinstance(moved, Missing):
        return Missing("not recorded")
    return flops / moved if moved > 0 and flops > 0 else Missing("no bytes counted")


def achieved_flops(run: RunRecord) -> Value:
    """FLOP/s of training in one rank: its samples/s times the counted FLOP of a sample.

    The peaks are those of one rank's process, so the rate that is set against them is too.
    """
    rate, flops = throughput(run), flops_per_sample(run)
    if isinstance(rate, Missing) or isinstance(flops, Missing):
        return rate if isinstance(rate, Missing) else flops
    return rate / run.world_size * flops


def flops_limit(run: RunRecord) -> Value:
    """FLOP/s that the roofline allows: min(matmul peak, intensity x copy peak).

    Williams, Waterman and Patterson, "Roofline", Communications of the ACM 52 (2009).
    """
    matmul, copy, per_byte = matmul_peak(run), copy_peak(run), intensity(run)
    if isinstance(per_byte, Missing):
        return per_byte
    if isinstance(matmul, Missing) or isinstance(copy, Missing):
        return matmul if isinstance(matmul, Missing) else copy
    return min(matmul, per_byte * copy)


def share_of_limit(run: RunRecord) -> Value:
    """Achieved FLOP/s over what the roofline allows."""
    return _quotient(achieved_flops(run), flops_limit(run))


def share_of_matmul(run: RunRecord) -> Value:
    """Achieved FLOP/s over the measured matmul peak."""
    return _quotient(achieved_flops(run), matmul_peak(run))


def reduced_bytes(run: RunRecord) -> Value:
    """Bytes of gradients that one rank hands to the all-reduce in a step."""
    found = run.communication
    return Missing("not recorded") if found is None else float(found.reduced_bytes_per_step)


def waiting_shares(run: RunRecord) -> list[float]:
    """Per rank, the share of its step that it spends in the all-reduce; empty if unknown."""
    found = run.communication
    if found is None:
        return []
    waiting, steps = found.waiting_seconds_per_rank, found.step_seconds_per_rank
    if not steps or len(waiting) != len(steps) or not all(0 < s < math.inf for s in steps):
        return []
    return [w / s for w, s in zip(waiting, steps, strict=True)]


def waiting_share(run: RunRecord) -> Value:
    """The same over all ranks: their seconds in the all-reduce over those of their steps."""
    found = run.communication
    if found is None or not waiting_shares(run):
        return Missing("not recorded" if found is None else "no time measured")
    return math.fsum(found.waiting_seconds_per_rank) / math.fsum(found.step_seconds_per_rank)


def step_seconds(run: RunRecord) -> Value:
    """Seconds of a step of the slowest rank, of the steps whose communication was timed."""
    found = run.communication
    if found is None or found.measured_steps < 1 or not found.step_seconds_per_rank:
        return Missing("not recorded" if found is None else "no time measured")
    return max(found.step_seconds_per_rank) / found.measured_steps


def _quotient(above: Value, below: Value) -> Value:
    if isinstance(above, Missing) or isinstance(below, Missing):
        return above if isinstance(above, Missing) else below
    return above / below


def joules(attempt: Attempt) -> Value:
    """Energy of all GPUs of a run over the whole process, set-up and evaluation included.

    The rest of the machine is not counted. Missing unless the driver's counters gave a figure for
    every GPU.
    """
    gpus = (attempt.telemetry or {}).get("gpus") or []
    found = [gpu.get("energy_joules") for gpu in gpus]
    if not found or any(not _positive(value) for value in found):
        return Missing("not recorded")
    return math.fsum(found)


def samples_per_joule(attempt: Attempt) -> Value:
    """Training samples per joule."""
    energy = joules(attempt)
    if isinstance(energy, Missing) or attempt.run is None:
        return energy
    samples = sum(epoch.samples for epoch in attempt.run.epochs)
    return samples / energy if samples else Missing("no samples")


def joules_to_best(attempt: Attempt) -> Value:
    """Energy until the end of the epoch with the best hit rate, from the start of the process."""
    used = (attempt.telemetry or {}).get("epoch_energy_joules") or {}
    best = best_epoch(attempt.run) if attempt.run else None
    value: Any = used.get(str(best.epoch)) if best else None
    return float(value) if _positive(value) else Missing("not recorded")


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


THROUGHPUT = of_run("throughput", "samples/s", "higher", throughput)
BEST_HR = of_run("best_hr", "fraction", "higher", best_hr)
TIME_TO_BEST = of_run("time_to_best", "s", "lower", time_to_best)
EPOCHS_TO_BEST = of_run("epochs_to_best", "epochs", "lower", epochs_to_best)
FINAL_LOSS = of_run("final_loss", "nats", "lower", final_loss)
BEST_EPOCH_THROUGHPUT = of_run(
    "best_epoch_throughput", "samples/s", "higher", best_epoch_throughput
)
PEAK_MEMORY = of_run("peak_memory", "bytes", "lower", peak_memory)
REDUCED_BYTES = of_run("reduced_bytes", "bytes", "lower", reduced_bytes)
WAITING_SHARE = of_run("waiting_share", "fraction", "lower", waiting_share)
STEP_SECONDS = of_run("step_seconds", "s", "lower", step_seconds)
FLOPS_PER_SAMPLE = of_run("flops_per_sample", "FLOP", "lower", flops_per_sample)
BYTES_PER_SAMPLE = of_run("bytes_per_sample", "bytes", "lower", bytes_per_sample)
INTENSITY = of_run("intensity", "FLOP/byte", "higher", intensity)
MATMUL_PEAK = of_run("matmul_peak", "FLOP/s", "higher", matmul_peak)
COPY_PEAK = of_run("copy_peak", "bytes/s", "higher", copy_peak)
ACHIEVED_FLOPS = of_run("achieved_flops", "FLOP/s", "higher", achieved_flops)
FLOPS_LIMIT = of_run("flops_limit", "FLOP/s", "higher", flops_limit)
SHARE_OF_LIMIT = of_run("share_of_limit", "fraction", "higher", share_of_limit)
SHARE_OF_MATMUL = of_run("share_of_matmul", "fraction", "higher", share_of_matmul)
ENERGY = Measure("energy", "J", "lower", joules)
SAMPLES_PER_JOULE = Measure("samples_per_joule", "samples/J", "higher", samples_per_joule)
JOULES_TO_BEST = Measure("joules_to_best", "J", "lower", joules_to_best)
