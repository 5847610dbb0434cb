"""One attempt: started, monitored, classified and stored."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.files import utc_now
from bench.host import samples
from bench.process.supervise import Ended, Stop, new_token
from bench.records.attempt import Attempt, Failure
from bench.suite.trainer_options import arguments
from bench.sweep import recovery
from bench.sweep.classify_failure import classify, rank_lines
from bench.sweep.launchers import Job, Launcher
from ncf.record import RecordError, read_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.host.gpus import Gpu
    from bench.host.machine import Host
    from bench.host.telemetry import Monitor
    from bench.records.store import Store
    from bench.suite.model import Cell, Suite
    from bench.sweep.data import PreparedData
    from bench.sweep.progress import View

TAIL_BYTES = 64 * 1024
TAIL_LINES = 12


@dataclass(frozen=True)
class GpuSlot:
    """A place for one run at a time: one GPU, or the whole machine if `gpu` is None."""

    number: int = 0
    gpu: Gpu | None = None
    count: int = 1
    """Number of slots that share the machine."""

    def cores(self, all_cores: int) -> int:
        """Number of cores that a run in this slot may use."""
        return max(1, all_cores // self.count)


WHOLE_MACHINE = GpuSlot()


@dataclass(frozen=True)
class Sweep:
    """Everything that a sweep needs besides its plan. `timeout_s` None: the suite's time-out."""

    suite: Suite
    store: Store
    data: PreparedData
    host: Host
    launcher: Launcher
    view: View
    stop: Stop
    timeout_s: float | None
    max_failures: int | None = None
    retry_failed: bool = False
    monitor: Monitor | None = None
    sleep: Callable[[float], None] = time.sleep


def make_attempt(
    sweep: Sweep,
    cell: Cell,
    seed: int,
    on_line: Callable[[str], None],
    slot: GpuSlot = WHOLE_MACHINE,
) -> Attempt:
    """Run one repetition once, classify its end and store it, successful or not."""
    store, number = sweep.store, sweep.store.next_attempt(cell.key, seed)
    record = recovery.record(store, slot.number)
    log = store.log(cell.key, seed, number)
    options = {"data": str(sweep.data.folder), **cell.trainer_options, "seed": seed}
    job = Job(
        arguments=tuple(arguments({**options, "precision": cell.precision, "record": str(record)})),
        ranks=cell.ranks,
        precision=cell.precision,
        log=log,
        timeout_s=sweep.timeout_s or sweep.suite.timeout_of(cell),
        token=new_token(),
        visible=(slot.gpu.uuid,) if slot.gpu and slot.gpu.uuid else (),
        cores=slot.cores(sweep.host.cores),
        command=sweep.suite.command,
    )
    started = Attempt(
        suite=sweep.suite.name,
        cell=cell,
        seed=seed,
        attempt=number,
        status="interrupted",
        failure=Failure("in progress"),
        started_at=utc_now(),
        finished_at=utc_now(),
        wall_seconds=0.0,
        command=shown(sweep.launcher.command(job)),
        log=str(log.relative_to(store.folder)),
        host=sweep.host.to_dict(),
    )
    recovery.begin(store, started, job.token, slot.number, sweep.data.identity)
    ended, telemetry = _launch(sweep, job, on_line, slot)
    attempt = _finished(sweep, started, ended, record, telemetry)
    if not attempt.ok:  # if it cannot be stored, the next sweep must not take it for a good run
        record.unlink(missing_ok=True)
    store.write(attempt)
    recovery.end(store, slot.number)
    return attempt


def _launch(
    sweep: Sweep, job: Job, on_line: Callable[[str], None], slot: GpuSlot
) -> tuple[Ended, dict[str, Any] | None]:
    """Run the job under telemetry."""
    monitor = sweep.monitor
    if monitor is None:
        return sweep.launcher.launch(job, sweep.stop, on_line), None
    gpus = (slot.gpu,) if slot.gpu else sweep.host.gpus
    before = monitor.snapshot(gpus, job.ranks)
    watch = monitor.watch(gpus, job.ranks, job.token, alone=slot.count == 1)

    def on_line_watched(line: str) -> None:
        watch.on_line(line)
        on_line(line)

    with watch:
        ended = sweep.launcher.launch(job, sweep.stop, on_line_watched)
    return ended, {**watch.facts(), "before": before, "after": monitor.snapshot(gpus, job.ranks)}


def _finished(
    sweep: Sweep, started: Attempt, ended: Ended, record: Path, telemetry: dict[str, Any] | None
) -> Attempt:
    run, no_run = None, ""
    flags: tuple[str, ...] = ()
    try:
        run = read_run(record)
    except RecordError as error:
        no_run = str(error)
    output = tail(sweep.store.folder / started.log)
    data = sweep.data.identity
    status, failure = classify(started.cell, started.seed, data, ended, run, no_run, output)
    if telemetry is not None:
        flags = samples.flags(telemetry["before"], telemetry, telemetry["after"])
        slow = samples.slowdowns(telemetry)
        if status == "ok" and slow:
            status, failure = "invalid", Failure("; ".join(slow))
    return replace(
        started,
        status=status,
        failure=failure,
        finished_at=utc_now(),
        wall_seconds=ended.wall_seconds,
        run=run,
        telemetry=telemetry,
        flags=flags,
    )


def tail(log: Path) -> str:
    """The last TAIL_BYTES of a log; nothing if it cannot be read."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def failure_details(store: Store, attempt: Attempt) -> str:
    """The last lines of the rank that failed first, and the path of the log."""
    failure = attempt.failure
    lines = rank_lines(tail(store.folder / attempt.log), failure.rank if failure else None)
    output = [line.rstrip() for line in lines if line.strip() and not line.startswith("$ ")]
    last = [f"    | {line}" for line in output[-TAIL_LINES:]]
    return "\n".join([*last, f"    log: {store.folder / attempt.log}"])


def shown(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command for the record, without paths of this machine: relative, or the name only."""
    here = f"{Path.cwd()}/"
    words = (word.removeprefix(here) for word in command)
    return tuple(Path(word).name if word.startswith("/") else word for word in words)
