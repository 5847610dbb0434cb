"""The training run, top to bottom: set up, epochs, evaluation, record.

The clock is monotonic and read only after waiting for the device. Training time excludes tracing,
compilation, the first `warmup_steps` steps and evaluation.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import metrics, record
from ncf.data.progress import say
from ncf.errors import UserError
from ncf.model import precision
from ncf.ranks import job
from ncf.runtime import environment
from ncf.training import epoch_log, setup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncf.config.train import TrainConfig
    from ncf.sampling.batching import Share
    from ncf.training.setup import Setup

REPORT_SECONDS = 2.0
"""Steps of about this time run in one call before the clock is read and signals are heard."""

EXIT_CODES = {"ok": 0, "nan": 3, "invalid": 4, "interrupted": 130, "error": 1}


def run(config: TrainConfig) -> int:
    """Train or test as configured; write log and record; return the exit code."""
    stop = job.Stop()
    started, begun = record.utc_now(), time.perf_counter()
    _check_outputs(config)
    prepared = setup.set_up(config)
    ranks = prepared.ranks
    logger = epoch_log.Logger(config.log_path if ranks.is_first else "", time.time)
    options = {**prepared.config_echo(), "world_size": ranks.size}
    logger.log("LOG", "PARAMETER", options)  # the place where NVIDIA's parsers look
    scalars = epoch_log.Scalars(config.tensorboard if ranks.is_first else "")
    run_ = Run(prepared, logger, time.perf_counter, time.perf_counter() - begun, scalars)
    try:
        status, reason = run_.test() if config.mode == "test" else run_.train()
    except KeyboardInterrupt:
        status, reason = job.STOPPED
    except Exception as error:
        # A signal that arrives inside a library's own error comes out as that library's.
        status, reason = job.STOPPED if stop.requested else job.after(error)
    if status == "ok" and (difference := prepared.state.differ()):
        status, reason = "invalid", difference
    if ranks.is_first:
        run_.finish(status, reason, started)
    else:
        _peak_memory(prepared, status)
    if status not in job.ALONE:
        ranks.sum([0.0])  # an exit code must not end the first rank before it has written
    logger.close()
    scalars.close()
    return EXIT_CODES[status]


class Run:
    """The measurements of a run so far."""

    def __init__(
        self,
        prepared: Setup,
        logger: epoch_log.Logger,
        clock: Callable[[], float],
        setup_seconds: float,
        scalars: epoch_log.Scalars | None = None,
    ) -> None:
        self.setup, self.logger, self._clock = prepared, logger, clock
        self.scalars = scalars or epoch_log.Scalars("")
        self.setup_seconds, self.warmup_seconds = setup_seconds, 0.0
        self.epochs: list[record.Epoch] = []
        self.false_negatives: int | None = None
        self.negatives_checked: int | None = None
        self.roofline: record.Roofline | None = None
        self.communication: record.Communication | None = None
        self._steps, self._seconds = 0, 0.0
        self._warmup_left = prepared.config.warmup_steps

    def train(self) -> tuple[str, str | None]:
        """All epochs, until the target is reached; status and reason."""
        prepared, config = self.setup, self.setup.config
        if reason := precision.mismatch(prepared.precision):
            return "invalid", reason
        self._compile()
        self.roofline = _roofline(prepared)
        self.false_negatives, self.negatives_checked = _false_negatives(prepared)
        for epoch in range(prepared.first_epoch, config.epochs + 1):
            evaluated = epoch >= config.eval_after
            entry = self._train_epoch(epoch)
            if math.isfinite(entry.loss) and evaluated:
                entry = self._evaluate(entry)
            if not _usable(entry, evaluated=evaluated):
                return "nan", f"epoch {epoch}: loss or scores are not finite"
            self.epochs.append(entry)
            self._report(entry)
            self.communication = _communication(prepared, self._steps, self._seconds)
            if config.checkpoint_dir:
                folder, meta = Path(config.checkpoint_dir), prepared.checkpoint_meta()
                prepared.state.save(folder, entry, meta)
            if prepared.ranks.broadcast_object((entry.hr_at_k or 0.0) >= config.target):
                break
        return "ok", None

    def test(self) -> tuple[str, str | None]:
        """Evaluate the loaded checkpoint only."""
        entry = self._evaluate(record.Epoch(self.setup.first_epoch - 1, 0, 0, 0.0, 0, 0.0, 0.0))
        if not _usable(entry, evaluated=True):
            return "nan", "scores are not finite"
        self.epochs.append(entry)
        self._report(entry)
        return "ok", None

    def _compile(self) -> None:
        start = self._clock()
        for padded in dict.fromkeys(part.padded for part in self.setup.shares):
            self.setup.step.compile(padded)
        self.warmup_seconds = self._clock() - start

    def _train_epoch(self, epoch: int) -> record.Epoch:
        step, ranks, shares = self.setup.step, self.setup.ranks, self.setup.shares
        keys = self.setup.epoch_keys(epoch)
        size, samples = self.setup.sampler.group_size, self.setup.samples
        step.loss_sum.assign(0.0)
        loss_sum = 0.0
        start = timed_from = shown = self._clock()
        timed, done, count = 0, 0, 1
        while done < len(shares):
            part = _same_shape(shares[done : done + (self._warmup_left or count)])
            before = self._clock()
            step(*keys, done, part)
            done += len(part)
            loss_sum = float(step.loss_sum.numpy())  # waits for the device
            now = self._clock()
            if self._warmup_left:
                self._warmup_left -= len(part)
                self.warmup_seconds += now - before
                timed_from = now
                step.waited.assign(0.0)  # that wait belongs to the warm-up
            else:
                self._steps, self._seconds = self._steps + len(part), self._seconds + now - before
                timed += sum(share.total for share in part)
                count = _steps_in(REPORT_SECONDS, len(part), now - before)
            if now - shown > (REPORT_SECONDS if self.setup.config.verbose else 15):
                shown = now
                rate = size * sum(share.total for share in shares[:done]) / (now - start)
                if ranks.is_first:
                    say(f"epoch {epoch} step {done}/{len(shares)}  {rate:,.0f} samples/s")
        end = self._clock()
        (loss_sum,) = ranks.sum([loss_sum])
        seconds, timed_seconds = ranks.max([end - start, end - timed_from if timed else 0.0])
        return record.Epoch(
            epoch=epoch,
            steps=len(shares),
            samples=samples,
            train_seconds=float(seconds),
            timed_samples=timed * size,
            timed_seconds=float(timed_seconds),
            loss=float(loss_sum) / samples,
        )

    def _evaluate(self, entry: record.Epoch) -> record.Epoch:
        start = self._clock()
        try:
            totals = self.setup.evaluation.evaluator.run(self.setup.config.topk)
        except metrics.NonFiniteScores:
            return entry
        (seconds,) = self.setup.ranks.max([self._clock() - start])
        return replace(entry, eval_seconds=float(seconds), hr_at_k=totals.hr, ndcg_at_k=totals.ndcg)

    def _report(self, entry: record.Epoch) -> None:
        if not self.setup.ranks.is_first:
            return
        k, line = self.setup.config.topk, f"epoch {entry.epoch}/{self.setup.config.epochs}"
        data: dict[str, Any] = {"epoch": entry.epoch}
        scalars: dict[str, float | None] = {}
        rate = entry.samples / entry.train_seconds if entry.samples else 0.0
        if entry.samples:
            line += f"  loss {entry.loss:.4f}"
            data |= {"train_epoch_time": entry.train_seconds, "train_throughput": rate}
            data["loss"] = entry.loss
            scalars = {"loss": entry.loss, "samples_per_second": rate}
        if entry.hr_at_k is not None and entry.eval_seconds is not None:
            line += f"  HR@{k} {entry.hr_at_k:.4f}  NDCG@{k} {entry.ndcg_at_k:.4f}"
            scored = self.setup.evaluation.scores / max(entry.eval_seconds, 1e-9)
            data |= {"validation_epoch_time": entry.eval_seconds, "eval_throughput": scored}
            data |= {f"hr@{k}": entry.hr_at_k, f"ndcg@{k}": entry.ndcg_at_k}
        if entry.samples:
            line += f"  {rate:,.0f} samples/s"
        if entry.eval_seconds is not None:
            line += f"  eval {entry.eval_seconds:.2f} s"
        if self.negatives_checked and self.false_negatives is not None and len(self.epochs) == 1:
            share = self.false_negatives / self.negatives_checked
            line += f"  false negatives {share:.2%}"
            data["false_negative_share"] = share
        say(line)
        self.logger.log("LOG", [entry.epoch], data)
        rates = {f"hr@{k}": entry.hr_at_k, f"ndcg@{k}": entry.ndcg_at_k}
        self.scalars.write(entry.epoch, {**scalars, **rates})

    def finish(self, status: str, reason: str | None, started: str) -> None:
        """Summary line, DLLogger summary and record; the first rank only."""
        prepared, config = self.setup, self.setup.config
        result = record.RunRecord(
            status=status,
            reason=reason,
            started_at=started,
            finished_at=record.utc_now(),
            seed=prepared.seed,
            world_size=prepared.ranks.size,
            topk=config.topk,
            target_hr=config.target,
            global_batch=config.batch_size,
            config=prepared.config_echo(),
            precision=prepared.precision,
            dataset=prepared.evaluation.dataset,
            epochs=tuple(self.epochs),
            setup_seconds=self.setup_seconds,
            warmup_seconds=self.warmup_seconds,
            peak_memory_bytes_per_rank=_peak_memory(prepared, status),
            versions=environment.versions(prepared.ranks.version()),
            hardware=prepared.hardware,
            false_negatives=self.false_negatives,
            negatives_checked=self.negatives_checked,
            roofline=self.roofline,
            communication=self.communication,
        )
        self.logger.log("LOG", [], summary(result))
        epoch_log.write_record(config.record, result)
        if reason:
            say(f"{status}: {reason}")


def _roofline(prepared: Setup) -> record.Roofline:
    """What a sample of the first step costs, and this rank's peaks."""
    first, sampler = prepared.shares[0], prepared.sampler
    keys = prepared.epoch_keys(prepared.first_epoch)[0]
    begin, valid = np.int64(first.first), np.int64(first.valid)
    users = sampler.batch(keys, begin, valid, first.padded).users.numpy()
    costs = prepared.formulation.cost(users, sampler.group_size)
    dtype = prepared.precision.compute_dtype
    return record.Roofline(prepared.config.formulation, dtype, *costs, *prepared.peaks)


def _false_negatives(prepared: Setup) -> tuple[int, int]:
    """False negatives among the first negatives of the first epoch, and how many were checked."""
    counts = prepared.sampler.false_negatives(prepared.epoch_keys(prepared.first_epoch)[0])
    if prepared.shard:
        false, checked = prepared.ranks.sum(counts)
        counts = int(false), int(checked)
    return counts


def _communication(prepared: Setup, steps: int, seconds: float) -> record.Communication | None:
    """What ranks sent each other in `steps` steps that took this rank `seconds`."""
    if prepared.ranks.size == 1 or not steps:
        return None
    step = prepared.step
    times = prepared.ranks.gather_objects((float(step.waited.numpy()), seconds))
    waiting, stepping = zip(*times, strict=True)
    parallel = prepared.config.parallel
    return record.Communication(parallel, step.reduced_bytes, steps, waiting, stepping)


def _peak_memory(prepared: Setup, status: str) -> tuple[int, ...]:
    """Peak bytes of every rank; only this rank's when the others may be gone."""
    peak = environment.peak_memory_bytes(on_gpu=prepared.devices.on_gpu)
    return (peak,) if status in job.ALONE else tuple(prepared.ranks.gather_objects(peak))


def summary(result: record.RunRecord) -> dict[str, Any]:
    """The closing figures under the names of NVIDIA's NCF scripts; absent where unmeasured."""
    evaluated = [e for e in result.epochs if e.hr_at_k is not None and e.eval_seconds is not None]
    rates = [e.timed_samples / e.timed_seconds for e in result.epochs if e.timed_seconds > 0]
    data: dict[str, Any] = {}
    if rates:
        data |= {"best_train_throughput": max(rates)}
        samples = sum(e.timed_samples for e in result.epochs)
        data["mean_train_throughput"] = samples / sum(e.timed_seconds for e in result.epochs)
    if evaluated:
        best = max(evaluated, key=lambda e: e.hr_at_k or 0.0)
        data |= {"best_accuracy": best.hr_at_k, "best_epoch": best.epoch}
        data["time_to_best_model"] = _seconds_until(result, best.epoch)
        reached = [e for e in evaluated if (e.hr_at_k or 0.0) >= (result.target_hr or math.inf)]
        if reached:
            data["time_to_target"] = _seconds_until(result, reached[0].epoch)
    return data


def _seconds_until(result: record.RunRecord, epoch: int) -> float:
    passed = [e for e in result.epochs if e.epoch <= epoch]
    return sum(e.train_seconds + (e.eval_seconds or 0.0) for e in passed)


def _check_outputs(config: TrainConfig) -> None:
    """Hours of training must not end in a folder that cannot be written."""
    folders = {
        "record": Path(config.record).parent,
        "checkpoint_dir": Path(config.checkpoint_dir),
        "tensorboard": Path(config.tensorboard),
    }
    for option, folder in folders.items():
        if not getattr(config, option):
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--{option} {folder}: {error.strerror}; choose another") from None
        if not os.access(folder, os.W_OK):
            raise UserError(f"--{option} {folder}: not writable; choose another")


def _same_shape(shares: Sequence[Share]) -> Sequence[Share]:
    """The leading shares of one shape: these can run in one call."""
    other = (i for i, part in enumerate(shares) if part.padded != shares[0].padded)
    return shares[: next(other, len(shares))]


def _steps_in(seconds: float, steps: int, took: float) -> int:
    """How many steps last about `seconds`, if `steps` took `took`; at most four times as many."""
    return max(1, min(4 * steps, int(seconds * steps / max(took, 1e-9))))


def _usable(entry: record.Epoch, *, evaluated: bool) -> bool:
    return math.isfinite(entry.loss) and (entry.hr_at_k is not None or not evaluated)
