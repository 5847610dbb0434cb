"""Every quantity of a run: how it is computed, its unit, its direction, and how a gate treats it.

Pure. Records store facts; every number made of them is made here. A quantity that a run cannot
give is Missing with the reason, never 0. A latency percentile is one of timed calls; an interval
is one of runs.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from bench.errors import UserError, did_you_mean
from bench.render import units
from bench.stats.summary import FEWEST, Missing, Value, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.records.attempt import Attempt
    from ncf.record import Epoch, Latencies, RunRecord

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A quantity of an attempt.

    Attributes:
        title: for headers of tables.
        of: the value, or why there is none.
        form: writes a value, without its unit.
        margin: the difference that matters to a gate; 0: a gate cannot compare this.
        scale: "ratio" compares logarithms, and margins are relative; "difference" compares values.
        one_sided: a gate accepts what is not worse.
        robust: a gate may set disturbed runs aside; never for accuracy.
    """

    name: str
    title: str
    unit: str
    better: Direction
    of: Callable[[Attempt], Value]
    form: units.Formatter
    margin: float = 0.0
    scale: Literal["ratio", "difference"] = "ratio"
    one_sided: bool = False
    robust: bool = True

    def scaled(self, value: float) -> float:
        """A value as a gate compares it."""
        return math.log(value) if self.scale == "ratio" else value

    def scaled_margin(self, margin: float) -> float:
        """A margin of 3 % is a ratio of 1.03, or of 1 / 1.03."""
        return math.log1p(margin) if self.scale == "ratio" else margin


def _run_metric(
    name: str,
    title: str,
    unit: str,
    better: Direction,
    compute: Callable[[RunRecord], Value],
    form: units.Formatter,
    **gate: Any,
) -> Metric:
    """A metric that the trainer's record alone gives; Missing where an attempt has none."""

    def of(attempt: Attempt) -> Value:
        return Missing("no record") if attempt.run is None else compute(attempt.run)

    return Metric(name, title, unit, better, of, form, **gate)


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
    rates = ((epoch, epoch.hr_at_k) for epoch in run.epochs)
    return [(epoch, hr) for epoch, hr in rates if hr is not None and math.isfinite(hr)]


def best_epoch(run: RunRecord) -> Epoch | None:
    """The first epoch that reached the highest hit rate; None if nothing was evaluated."""
    return max(evaluated(run), key=lambda item: item[1], default=(None, 0.0))[0]


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


def _roofline(field: str) -> Callable[[RunRecord], Value]:
    """A number of the record's roofline; peaks that are not positive were not measured."""

    def compute(run: RunRecord) -> Value:
        value = None if run.roofline is None else getattr(run.roofline, field)
        counted = field.endswith("_per_sample")
        if value is None or not (counted or 0 < value < math.inf):
            return Missing("not recorded")
        return float(value)

    return compute


flops_per_sample = _roofline("flops_per_sample")
"""Floating point operations of a training sample, counted from the formulation's shapes."""
bytes_per_sample = _roofline("bytes_per_sample")
"""Bytes that a training sample moves, counted likewise."""
matmul_peak = _roofline("matmul_flops_per_second")
"""FLOP/s of a large matmul in the run's compute type, measured in one rank's process."""
copy_peak = _roofline("copy_bytes_per_second")
"""Bytes/s, read plus written, of a large copy in one rank's process."""


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
    sent = run.communication
    return Missing("not recorded") if sent is None else float(sent.reduced_bytes_per_step)


def waiting_shares(run: RunRecord) -> list[float]:
    """Per rank, the share of its step that it spends in the all-reduce; empty if unknown."""
    sent = run.communication
    if sent is None:
        return []
    waiting, steps = sent.waiting_seconds_per_rank, sent.step_seconds_per_rank
    if not steps or len(waiting) != len(steps) or not all(0 < s < math.inf for s in steps):
        return []
    return [w / s for w, s in zip(waiting, steps, strict=True)]


def waiting_share(run: RunRecord) -> Value:
    """The same over all ranks: their seconds in the all-reduce over those of their steps."""
    sent = run.communication
    if sent is None or not waiting_shares(run):
        return Missing("not recorded" if sent is None else "no time measured")
    return math.fsum(sent.waiting_seconds_per_rank) / math.fsum(sent.step_seconds_per_rank)


def step_seconds(run: RunRecord) -> Value:
    """Seconds of a step of the slowest rank, of the steps whose communication was timed."""
    sent = run.communication
    if sent is None or sent.measured_steps < 1 or not sent.step_seconds_per_rank:
        return Missing("not recorded" if sent is None else "no time measured")
    return max(sent.step_seconds_per_rank) / sent.measured_steps


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
    energies = [gpu.get("energy_joules") for gpu in gpus]
    if not energies or not all(map(_positive, energies)):
        return Missing("not recorded")
    return math.fsum(energies)


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


def time_to_target(attempt: Attempt) -> Value:
    """Seconds to the target, or to the best epoch where a run has no target."""
    if attempt.run is None:
        return Missing("no record")
    missed = reached_target(attempt.run) is False
    return Missing("target not reached") if missed else time_to_best(attempt.run)


def inference_latency(run: RunRecord) -> Value:
    """Median seconds of an inference call; over several batch sizes, their geometric mean."""
    medians = [statistics.median(calls.seconds) for calls in run.inference or () if calls.seconds]
    if not medians or min(medians) <= 0:
        return Missing("not measured")
    return math.exp(math.fsum(map(math.log, medians)) / len(medians))


PAIRS, RANKING = "pairs", "ranking"
LATENCIES = ("mean", "p50", "p90", "p95", "p99", "max")


def timed(run: RunRecord, work: str, batch: int) -> Latencies | None:
    """The calls of one batch size, or None where the run has none."""
    calls = (c for c in run.inference or () if (c.work, c.batch_size) == (work, batch))
    return next(calls, None)


def batches(runs: Iterable[RunRecord], work: str) -> tuple[int, ...]:
    """Every batch size that one of the runs was timed at, ascending."""
    sizes = {one.batch_size for run in runs for one in run.inference or () if one.work == work}
    return tuple(sorted(sizes))


@lru_cache
def scores_rate(work: str, batch: int) -> Metric:
    """Scored (user, item) pairs per second: those of all timed calls over their seconds."""

    def of(run: RunRecord) -> Value:
        return _per_second(timed(run, work, batch), lambda calls: calls.scores_per_batch)

    title = f"Samples/s at batch {batch}"
    return _run_metric(f"{work}_scores_{batch}", title, "samples/s", "higher", of, units.count)


@lru_cache
def users_rate(batch: int) -> Metric:
    """Users per second whose top k of the whole catalogue was found."""

    def of(run: RunRecord) -> Value:
        return _per_second(timed(run, RANKING, batch), lambda calls: calls.batch_size)

    title = f"Users/s at batch {batch}"
    return _run_metric(f"ranking_users_{batch}", title, "users/s", "higher", of, units.compact)


@lru_cache
def latency(work: str, batch: int, what: str) -> Metric:
    """Seconds of a call: one of LATENCIES over the timed calls of a run.

    p90, p95 and p99 are Missing below the number of calls that stats.FEWEST asks for.
    """

    def of(run: RunRecord) -> Value:
        calls = timed(run, work, batch)
        if calls is None or not calls.seconds:
            return Missing("not measured")
        seconds = calls.seconds
        if not all(math.isfinite(value) and value >= 0 for value in seconds):
            return Missing("not finite")
        if what == "mean":
            mean = math.fsum(seconds) / len(seconds)
            return min(max(mean, min(seconds)), max(seconds))
        if what in ("p50", "max"):
            return statistics.median(seconds) if what == "p50" else max(seconds)
        return tail(seconds, _QUANTILES[what])

    name, title = f"{work}_latency_{what}_{batch}", f"{what} at batch {batch}"
    return _run_metric(name, title, "s", "lower", of, units.milliseconds)


_QUANTILES = {f"p{q * 100:.0f}": q for q in FEWEST}


def _per_second(found: Latencies | None, amount: Callable[[Latencies], int]) -> Value:
    if found is None or not found.seconds:
        return Missing("not measured")
    seconds = math.fsum(found.seconds)
    if not (0 < seconds < math.inf):
        return Missing("no time measured")
    return amount(found) * len(found.seconds) / seconds


THROUGHPUT = _run_metric(
    "throughput", "Samples/s", "samples/s", "higher", throughput, units.count, margin=0.03
)
BEST_HR = _run_metric(
    "best_hr",
    "Best HR",
    "fraction",
    "higher",
    best_hr,
    lambda value: units.hit_rate(value, 5),
    margin=0.005,
    scale="difference",
    one_sided=True,
    robust=False,
)
TIME_TO_BEST = _run_metric(
    "time_to_best", "Time to best (s)", "s", "lower", time_to_best, units.seconds
)
TIME_TO_TARGET = Metric(
    "time_to_target", "Time to target (s)", "s", "lower", time_to_target, units.seconds, margin=0.1
)
FINAL_LOSS = _run_metric(
    "final_loss", "Final loss", "nats", "lower", final_loss, lambda v: units.significant(v, 4)
)
BEST_EPOCH_THROUGHPUT = _run_metric(
    "best_epoch_throughput",
    "Samples/s of the best epoch",
    "samples/s",
    "higher",
    best_epoch_throughput,
    units.count,
)
PEAK_MEMORY = _run_metric(
    "peak_memory", "Peak memory", "bytes", "lower", peak_memory, units.size, margin=0.05
)
ENERGY = Metric("energy", "Energy (J)", "J", "lower", joules, units.count, margin=0.05)
SAMPLES_PER_JOULE = Metric(
    "samples_per_joule", "Samples/J", "samples/J", "higher", samples_per_joule, units.count
)
JOULES_TO_BEST = Metric(
    "joules_to_best", "Energy to best (J)", "J", "lower", joules_to_best, units.count
)
INFERENCE_LATENCY = _run_metric(
    "inference_latency",
    "Inference latency (s)",
    "s",
    "lower",
    inference_latency,
    units.seconds,
    margin=0.05,
)
EPOCHS_TO_BEST = _run_metric(
    "epochs_to_best",
    "Epochs to best",
    "epochs",
    "lower",
    epochs_to_best,
    units.exact,
    margin=0.1,
)
REDUCED_BYTES = _run_metric(
    "reduced_bytes", "All-reduce bytes/step", "bytes", "lower", reduced_bytes, units.size
)
WAITING_SHARE = _run_metric(
    "waiting_share", "Waiting", "fraction", "lower", waiting_share, units.percent
)
STEP_SECONDS = _run_metric(
    "step_seconds", "Step (ms)", "s", "lower", step_seconds, units.milliseconds
)
FLOPS_PER_SAMPLE = _run_metric(
    "flops_per_sample", "FLOP/sample", "FLOP", "lower", flops_per_sample, units.compact
)
BYTES_PER_SAMPLE = _run_metric(
    "bytes_per_sample", "Bytes/sample", "bytes", "lower", bytes_per_sample, units.compact
)
INTENSITY = _run_metric(
    "intensity",
    "FLOP/byte",
    "FLOP/byte",
    "higher",
    intensity,
    lambda value: units.significant(value, 3),
)
MATMUL_PEAK = _run_metric(
    "matmul_peak", "Matmul peak (FLOP/s)", "FLOP/s", "higher", matmul_peak, units.compact
)
COPY_PEAK = _run_metric(
    "copy_peak", "Copy peak (bytes/s)", "bytes/s", "higher", copy_peak, units.compact
)
ACHIEVED_FLOPS = _run_metric(
    "achieved_flops", "Achieved (FLOP/s)", "FLOP/s", "higher", achieved_flops, units.compact
)
FLOPS_LIMIT = _run_metric(
    "flops_limit", "Limit (FLOP/s)", "FLOP/s", "higher", flops_limit, units.compact
)
SHARE_OF_LIMIT = _run_metric(
    "share_of_limit", "Of the limit", "fraction", "higher", share_of_limit, units.percent
)
SHARE_OF_MATMUL = _run_metric(
    "share_of_matmul", "Of the matmul peak", "fraction", "higher", share_of_matmul, units.percent
)

ALL = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""Every metric that does not depend on a batch size, in the order above."""
GATED = tuple(metric for metric in ALL if metric.margin)
NAMES = tuple(metric.name for metric in GATED)
"""What a gate can compare."""
DEFAULT = ("throughput", "best_hr")
"""What a gate decides on where a suite names nothing: the two quantities the product is about."""
HR_MARGINS = {"ml-20m": 5e-4, "ml-100k": 6e-3}
"""Margins of best HR where a suite names none; they belong to the data, see docs/reports.md."""


def gated(name: str, where: str = "") -> Metric:
    """The metric of this name, which a gate can compare.

    Raises:
        UserError: there is none; its direction would be a guess.
    """
    for metric in GATED:
        if metric.name == name:
            return metric
    raise UserError(
        f"{where}unknown metric {name!r}{did_you_mean(name, list(NAMES))} "
        f"(known: {', '.join(NAMES)})"
    )
