"""One attempt: started, watched, judged and stored, whatever became of it."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.files import utc_now
from bench.host import samples as flags
from bench.process.supervise import Ended, Stop, new_token
from bench.records.attempt import Attempt, Failure
from bench.suite.trainer_options import arguments
from bench.sweep import recovery as running
from bench.sweep.classify_failure import judge, rank_lines
from bench.sweep.launchers import Job, Launcher
from ncf.record import RecordError, RunRecord, read_run

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
class Lane:
    """A place for one run at a time. `gpu` is its own; None is the whole machine."""

    slot: int = 0
    gpu: Gpu | None = None
    of: int = 1

    def cores(self, all_cores: int) -> int:
        """Cores that a run in this lane may use."""
        return max(1, all_cores // self.of)


WHOLE = Lane()


@dataclass(frozen=True)
class Sweep:
    """All that a sweep needs beside its plan. `timeout_s` is for all cells; None: the suite's."""

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
    sweep: Sweep, cell: Cell, seed: int, on_line: Callable[[str], None], lane: Lane = WHOLE
) -> Attempt:
    """Run one repetition once, judge it and store it, whatever became of it."""
    store, number = sweep.store, sweep.store.next_attempt(cell.key, seed)
    record = running.record(store, lane.slot)
    log = store.log(cell.key, seed, number)
    options = {"data": str(sweep.data.folder), **cell.trainer_options, "seed": seed}
    job = Job(
        arguments=tuple(arguments({**options, "precision": cell.precision, "record": str(record)})),
        ranks=cell.ranks,
        precision=cell.precision,
        log=log,
        timeout_s=sweep.timeout_s or sweep.suite.timeout_of(cell),
        token=new_token(),
        visible=(lane.gpu.uuid,) if lane.gpu and lane.gpu.uuid else (),
        cores=lane.cores(sweep.host.cores),
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
    running.begin(store, started, job.token, lane.slot, sweep.data.identity)
    ended, telemetry = _launch(sweep, job, on_line, lane)
    attempt = _finished(sweep, started, ended, record, tail(log), telemetry)
    if not attempt.ok:  # should it not be stored now, the next sweep must not find it good
        record.unlink(missing_ok=True)
    store.write(attempt)
    running.end(store, lane.slot)
    return attempt


def _launch(
    sweep: Sweep, job: Job, on_line: Callable[[str], None], lane: Lane
) -> tuple[Ended, dict[str, Any] | None]:
    """Run the job, watched."""
    monitor = sweep.monitor
    if monitor is None:
        return sweep.launcher.launch(job, sweep.stop, on_line), None
    gpus = (lane.gpu,) if lane.gpu else sweep.host.gpus
    before = monitor.snapshot(gpus, job.ranks)
    watch = monitor.watch(gpus, job.ranks, job.token, alone=lane.of == 1)

    def heard(line: str) -> None:
        watch.on_line(line)
        on_line(line)

    with watch:
        ended = sweep.launcher.launch(job, sweep.stop, heard)
    after = monitor.snapshot(gpus, job.ranks)
    return ended, {**watch.facts(), "before": before, "after": after}


def _finished(
    sweep: Sweep,
    started: Attempt,
    ended: Ended,
    record: Path,
    output: str,
    telemetry: dict[str, Any] | None,
) -> Attempt:
    run, no_run = read_record(record)
    status, failure = judge(
        started.cell, started.seed, sweep.data.identity, ended, run, no_run, output
    )
    found: tuple[str, ...] = ()
    if telemetry is not None:
        found = flags.flags(telemetry["before"], telemetry, telemetry["after"])
        slow = flags.slowdowns(telemetry)
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
        flags=found,
    )


def read_record(path: Path) -> tuple[RunRecord | None, str]:
    """The trainer's record, or why there is none."""
    try:
        return read_run(path), ""
    except RecordError as error:
        return None, str(error)


def tail(log: Path) -> str:
    """The end of a log, from a whole line on."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def failure_details(store: Store, attempt: Attempt) -> str:
    """The last lines of the rank that failed first, and where the rest is."""
    failure = attempt.failure
    lines = rank_lines(tail(store.folder / attempt.log), failure.rank if failure else None)
    shown_lines = [line.rstrip() for line in lines if line.strip() and not line.startswith("$ ")]
    last = [f"    | {line}" for line in shown_lines[-TAIL_LINES:]]
    return "\n".join([*last, f"    log: {store.folder / attempt.log}"])


def shown(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command for the record: paths from here, others by name, so that none names a machine."""
    here = f"{Path.cwd()}/"
    words = (word.removeprefix(here) for word in command)
    return tuple(Path(word).name if word.startswith("/") else word for word in words)
