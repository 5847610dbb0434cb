"""The loop: one attempt after the other, each stored before the next begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from bench import running
from bench.judge import judge, rank_lines
from bench.launch import Ended, Job, Launcher, Stop, new_token
from bench.options import arguments
from bench.store import Attempt, Failure, Store
from bench.view import View, run_label, run_result
from ncf.record import RecordError, RunRecord, read_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.data import PreparedData
    from bench.host import Host
    from bench.plan import Durations, Plan
    from bench.suite import Cell, Suite

TAIL_BYTES = 64 * 1024
TAIL_LINES = 12


@dataclass(frozen=True)
class Sweep:
    """All that a sweep needs beside its plan."""

    suite: Suite
    store: Store
    data: PreparedData
    host: Host
    launcher: Launcher
    view: View
    stop: Stop
    timeout_s: float
    max_failures: int | None = None
    retry_failed: bool = False


@dataclass
class Result:
    """What a sweep did."""

    attempts: list[Attempt] = field(default_factory=list)
    interrupted: bool = False
    gave_up: bool = False

    @property
    def failures(self) -> int:
        """Attempts that are not ok."""
        return sum(not attempt.ok for attempt in self.attempts)


def run_sweep(sweep: Sweep, plan: Plan) -> Result:
    """Make the plan's runs; a failure is stored like a success, and the sweep goes on.

    Raises:
        OSError: an attempt cannot be stored. Everything before it is.
    """
    result, durations = Result(), plan.durations
    _run_all(sweep, list(plan.runs), result, durations)
    if sweep.retry_failed and not (result.interrupted or result.gave_up):
        failed = [(a.cell, a.seed) for a in result.attempts if not a.ok]
        if failed:
            sweep.view.say(f"once more: the {len(failed)} runs that failed")
            _run_all(sweep, failed, result, durations)
    return result


def _run_all(
    sweep: Sweep, runs: list[tuple[Cell, int]], result: Result, durations: Durations
) -> None:
    for index, (cell, seed) in enumerate(runs):
        if sweep.stop:
            result.interrupted = True
            return
        if sweep.max_failures is not None and result.failures >= sweep.max_failures:
            result.gave_up = True
            sweep.view.say(f"stopped after {result.failures} failures (--max_failures)")
            return
        label = run_label(index + 1, len(runs), cell, seed)
        sweep.view.say(label)
        with sweep.view.running() as on_line:
            attempt = make_attempt(sweep, cell, seed, on_line)
        result.attempts.append(attempt)
        if attempt.ok:
            durations.add(cell, attempt.wall_seconds)
        to_come = [later for later, _ in runs[index + 1 :]]
        left = durations.expect(to_come) if to_come else None
        sweep.view.say(f"{label}: {run_result(attempt, left)}")
        if not attempt.ok and not sweep.stop:
            sweep.view.say(failure_details(sweep.store, attempt))
        result.interrupted = attempt.status == "interrupted" and bool(sweep.stop)


def make_attempt(sweep: Sweep, cell: Cell, seed: int, on_line: Callable[[str], None]) -> Attempt:
    """Run one repetition once, judge it and store it, whatever became of it."""
    store, number = sweep.store, sweep.store.next_attempt(cell.key, seed)
    record = store.temporary / "run.json"
    log = store.log(cell.key, seed, number)
    options = {"data": str(sweep.data.folder), **cell.trainer_options, "seed": seed}
    job = Job(
        arguments=tuple(arguments({**options, "precision": cell.precision, "record": str(record)})),
        ranks=cell.ranks,
        precision=cell.precision,
        log=log,
        timeout_s=sweep.timeout_s,
        token=new_token(),
    )
    started = Attempt(
        suite=sweep.suite.name,
        cell=cell,
        seed=seed,
        attempt=number,
        status="interrupted",
        failure=Failure("in progress"),
        started_at=now(),
        finished_at=now(),
        wall_seconds=0.0,
        command=shown(sweep.launcher.command(job)),
        log=str(log.relative_to(store.folder)),
        host=sweep.host.to_dict(),
    )
    running.begin(store, started, job.token)
    ended = sweep.launcher.launch(job, sweep.stop, on_line)
    attempt = _finished(sweep, started, ended, record, tail(log))
    store.write(attempt)
    running.end(store)
    return attempt


def _finished(sweep: Sweep, started: Attempt, ended: Ended, record: Path, output: str) -> Attempt:
    run, no_run = read_record(record)
    status, failure = judge(
        started.cell, started.seed, sweep.data.identity, ended, run, no_run, output
    )
    return replace(
        started,
        status=status,
        failure=failure,
        finished_at=now(),
        wall_seconds=ended.wall_seconds,
        run=run,
    )


def read_record(path: Path) -> tuple[RunRecord | None, str]:
    """The trainer's record, or why there is none."""
    try:
        return read_run(path), ""
    except RecordError as error:
        return None, str(error)


def tail(log: Path) -> str:
    """The end of a log, from a whole line on."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
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


def now() -> str:
    """UTC to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
