"""The training run, top to bottom: set up, epochs, evaluation, record.

The clock is monotonic and read only where the device has been waited for. Tracing, compilation
and the first `warmup_steps` steps stand apart; evaluation is never part of training time.
"""

from __future__ import annotations

import math
import os
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf import metrics, record
from ncf.errors import UserError
from ncf.ranks import job
from ncf.runtime import environment
from ncf.training import epoch_log as tensorboard
from ncf.training.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncf.config.train import TrainConfig
    from ncf.sampling.batching import Share

REPORT_SECONDS = 2.0
"""Steps of about this time run in one call before the clock is read and signals are heard."""

EXIT_CODES = {"ok": 0, "nan": 3, "invalid": 4, "interrupted": 130, "error": 1}


def run(config: TrainConfig) -> int:
    """Train or test as configured; write log and record; return the exit code."""
    stop = job.Stop()
    started, begun = _now(), time.perf_counter()
    _check_outputs(config)
    session = Session(config)
    logger = tensorboard.Logger(config.log_path if session.ranks.is_first else "", time.time)
    options = {**session.config_echo(), "world_size": session.ranks.size}
    logger.log("LOG", "PARAMETER", options)  # the place where NVIDIA's parsers look
    scalars = tensorboard.Scalars(config.tensorboard if session.ranks.is_first else "")
    setup_seconds = time.perf_counter() - begun
    run_ = Run(session, logger, time.perf_counter, setup_seconds, scalars)
    try:
        status, reason = run_.test() if config.mode == "test" else run_.train()
    except KeyboardInterrupt:
        status, reason = "interrupted", "stopped by a signal"
    except Exception as error:
        # A signal that arrives inside a library's own error comes out as that library's.
        stopped = ("interrupted", "stopped by a signal")
        status, reason = stopped if stop.asked else job.after(error)
    if status == "ok" and (differs := session.weights_differ()):
        status, reason = "invalid", differs
    if session.ranks.is_first:
        run_.finish(status, reason, started)
    else:
        session.gather_memory(status)
    if status not in job.ALONE:
        session.ranks.sum([0.0])  # an exit code must not end the first rank before it has written
    logger.close()
    scalars.close()
    return EXIT_CODES[status]


class Run:
    """What a run has measured so far."""

    def __init__(
        self,
        session: Session,
        logger: tensorboard.Logger,
        clock: Callable[[], float],
        setup_seconds: float,
        scalars: tensorboard.Scalars | None = None,
    ) -> None:
        self.session, self.logger, self._clock = session, logger, clock
        self.scalars = scalars or tensorboard.Scalars("")
        self.setup_seconds, self.warmup_seconds = setup_seconds, 0.0
        self.epochs: list[record.Epoch] = []
        self.false_negatives: int | None = None
        self.negatives_checked: int | None = None
        self.roofline: record.Roofline | None = None
        self.communication: record.Communication | None = None
        self._steps, self._seconds = 0, 0.0
        self._warmup_left = session.config.warmup_steps

    def train(self) -> tuple[str, str | None]:
        """All epochs, until the target is reached; status and reason."""
        session, config = self.session, self.session.config
        if session.precision.requested != session.precision.effective:
            asked, found = session.precision.requested, session.precision.effective
            return "invalid", f"{asked} was requested and the device computes in {found}"
        self._compile()
        self.roofline = session.roofline()
        self.false_negatives, self.negatives_checked = session.false_negatives()
        for epoch in range(session.first_epoch, config.epochs + 1):
            entry = self._train_epoch(epoch)
            if math.isfinite(entry.loss) and epoch >= config.eval_after:
                entry = self._evaluate(entry)
            if not _usable(entry, evaluated=epoch >= config.eval_after):
                return "nan", f"epoch {epoch}: loss or scores are not finite"
            self.epochs.append(entry)
            self._report(entry)
            self.communication = session.communication(self._steps, self._seconds)
            session.save_checkpoints(self.epochs)
            if session.ranks.broadcast_object((entry.hr_at_k or 0.0) >= config.target):
                break
        return "ok", None

    def test(self) -> tuple[str, str | None]:
        """Evaluate the loaded checkpoint only."""
        entry = self._evaluate(record.Epoch(self.session.first_epoch - 1, 0, 0, 0.0, 0, 0.0, 0.0))
        if not _usable(entry, evaluated=True):
            return "nan", "scores are not finite"
        self.epochs.append(entry)
        self._report(entry)
        return "ok", None

    def _compile(self) -> None:
        start = self._clock()
        for padded in dict.fromkeys(part.padded for part in self.session.shares()):
            self.session.update.compile(padded)
        self.warmup_seconds = self._clock() - start

    def _train_epoch(self, epoch: int) -> record.Epoch:
        session, ranks = self.session, self.session.ranks
        keys = session.epoch_keys(epoch)
        shares, size = session.shares(), session.sampler.group_size
        session.start_epoch()
        start = timed_from = shown = self._clock()
        timed, done, count = 0, 0, 1
        while done < len(shares):
            part = _same_shape(shares[done : done + (self._warmup_left or count)])
            before = self._clock()
            session.update(*keys, done, part)
            done += len(part)
            loss_sum = session.wait()
            now = self._clock()
            if self._warmup_left:
                self._warmup_left -= len(part)
                self.warmup_seconds += now - before
                timed_from = now
                session.start_timing()
            else:
                self._steps, self._seconds = self._steps + len(part), self._seconds + now - before
                timed += sum(share.total for share in part)
                count = _steps_in(REPORT_SECONDS, len(part), now - before)
            if now - shown > (REPORT_SECONDS if session.config.verbose else 15):
                shown = now
                passed = size * sum(share.total for share in shares[:done])
                self._progress(epoch, done, len(shares), passed / (now - start))
        end = self._clock()
        (loss_sum,) = ranks.sum([loss_sum])
        seconds, timed_seconds = ranks.max([end - start, end - timed_from if timed else 0.0])
        samples = session.samples
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
            totals = self.session.evaluator.run(self.session.config.topk)
        except metrics.NonFiniteScores:
            return entry
        (seconds,) = self.session.ranks.max([self._clock() - start])
        values = {**entry.__dict__, "eval_seconds": float(seconds)}
        return record.Epoch(**{**values, "hr_at_k": totals.hr, "ndcg_at_k": totals.ndcg})

    def _progress(self, epoch: int, step: int, steps: int, rate: float) -> None:
        if self.session.ranks.is_first:
            _say(f"epoch {epoch} step {step}/{steps}  {rate:,.0f} samples/s")

    def _report(self, entry: record.Epoch) -> None:
        if not self.session.ranks.is_first:
            return
        k, line = self.session.config.topk, f"epoch {entry.epoch}/{self.session.config.epochs}"
        data: dict[str, Any] = {"epoch": entry.epoch}
        if entry.samples:
            rate = entry.samples / entry.train_seconds
            line += f"  loss {entry.loss:.4f}"
            data |= {"train_epoch_time": entry.train_seconds, "train_throughput": rate}
            data["loss"] = entry.loss
        if entry.hr_at_k is not None and entry.eval_seconds is not None:
            line += f"  HR@{k} {entry.hr_at_k:.4f}  NDCG@{k} {entry.ndcg_at_k:.4f}"
            scored = self.session.scored_per_evaluation / max(entry.eval_seconds, 1e-9)
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
        _say(line)
        self.logger.log("LOG", [entry.epoch], data)
        shown = {"loss": entry.loss, "samples_per_second": rate} if entry.samples else {}
        rates = {f"hr@{k}": entry.hr_at_k, f"ndcg@{k}": entry.ndcg_at_k}
        self.scalars.write(entry.epoch, {**shown, **rates})

    def finish(self, status: str, reason: str | None, started: str) -> None:
        """Summary line, DLLogger summary and record; the first rank only."""
        session = self.session
        result = record.RunRecord(
            status=status,
            reason=reason,
            started_at=started,
            finished_at=_now(),
            seed=session.seed,
            world_size=session.ranks.size,
            topk=session.config.topk,
            target_hr=session.config.target,
            global_batch=session.config.batch_size,
            config=session.config_echo(),
            precision=session.precision,
            dataset=session.dataset,
            epochs=tuple(self.epochs),
            setup_seconds=self.setup_seconds,
            warmup_seconds=self.warmup_seconds,
            peak_memory_bytes_per_rank=session.gather_memory(status),
            versions=environment.versions(session.ranks.version()),
            hardware=session.hardware,
            false_negatives=self.false_negatives,
            negatives_checked=self.negatives_checked,
            roofline=self.roofline,
            communication=self.communication,
        )
        self.logger.log("LOG", [], summary(result))
        if session.config.record:
            try:
                record.write_json(Path(session.config.record), result.to_dict())
            except OSError as error:
                raise UserError(f"--record {session.config.record}: {error.strerror}") from None
        if reason:
            _say(f"{status}: {reason}")


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
    """The first ones that have one shape: these can run in one call."""
    other = (i for i, part in enumerate(shares) if part.padded != shares[0].padded)
    return shares[: next(other, len(shares))]


def _steps_in(seconds: float, steps: int, took: float) -> int:
    """How many steps last about `seconds`, if `steps` took `took`; at most four times as many."""
    return max(1, min(4 * steps, int(seconds * steps / max(took, 1e-9))))


def _usable(entry: record.Epoch, *, evaluated: bool) -> bool:
    return math.isfinite(entry.loss) and (entry.hr_at_k is not None or not evaluated)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
