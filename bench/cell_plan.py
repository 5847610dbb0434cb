"""One cell of a plan: what is good, what is to be made, and why it cannot be made here. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.fingerprint import is_stale
from bench.group import Machine
from bench.host import Host, why_not

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.store import Attempt
    from bench.suite import Cell, DataIdentity, Suite

RERUN = {
    "failed": "repetitions without a good run whose last attempt failed",
    "invalid": "those whose last attempt was invalid",
    "stale": "good ones that other software or code than now installed has made",
    "all": "every one, good ones too",
}


@dataclass(frozen=True)
class CellPlan:
    """One cell.

    Attributes:
        seeds: those that are wanted.
        good: those with a good run that stands for one made here and now.
        attempts: the number of the attempt that is good, by seed.
        to_run: those that `run` would make.
        failed: attempts of these seeds by status.
        to_retry: seeds without a good run whose attempts here failed.
        elsewhere: seeds with a good run from another machine or data set only.
        stale: good seeds whose run was made by other software or code than is installed now.
        unavailable: why this machine cannot run the cell.
        seconds: mean wall time of a good run.
    """

    cell: Cell
    seeds: tuple[int, ...]
    good: tuple[int, ...]
    to_run: tuple[int, ...]
    failed: Mapping[str, int]
    to_retry: int
    elsewhere: int
    unavailable: str | None
    seconds: float | None
    stale: tuple[int, ...] = ()
    attempts: Mapping[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {
            "cell": self.cell.key,
            "axes": dict(self.cell.axes),
            "stored": len(self.good),
            "to_run": list(self.to_run),
            "failed_attempts": dict(self.failed),
            "from_elsewhere": self.elsewhere,
            "stale": list(self.stale),
            "not_available": self.unavailable,
            "mean_wall_seconds": self.seconds,
        }


@dataclass(frozen=True)
class Here:
    """What a run made now would be made with."""

    suite: Suite
    host: Host
    data: DataIdentity | None
    installed: Mapping[str, str]


def plan_cell(
    cell: Cell, seeds: tuple[int, ...], attempts: Sequence[Attempt], here: Here, rerun: str | None
) -> CellPlan:
    """Compare one cell with what is stored of it.

    Args:
        cell: what is planned.
        seeds: those that are wanted.
        attempts: everything stored for the cell.
        here: this machine and what is installed.
        rerun: None for what is missing, else a word of RERUN.
    """
    wanted = set(seeds)
    known = sorted((a for a in attempts if a.seed in wanted), key=lambda a: a.attempt)
    done = {a.seed: a for a in known if a.ok and counts(a, here.host, here.data)}
    elsewhere = {a.seed for a in known if a.ok} - set(done)
    last = {a.seed: a.status for a in known if a.seed not in done and made_here(a, here.host)}
    stale = tuple(
        seed for seed, a in done.items() if a.run and is_stale(a.run.versions, here.installed)
    )
    missing = tuple(seed for seed in seeds if seed not in done)
    again = {
        None: missing,
        "failed": [seed for seed in missing if last.get(seed, "interrupted") not in _NO_FAILURE],
        "invalid": [seed for seed in missing if last.get(seed) == "invalid"],
        "stale": stale,
        "all": seeds,
    }[rerun]
    reason = unavailable(here.suite, here.host, cell)
    failed = Counter(attempt.status for attempt in known if not attempt.ok)
    return CellPlan(
        cell=cell,
        seeds=seeds,
        good=tuple(seed for seed in seeds if seed in done),
        to_run=() if reason else tuple(again),
        failed=dict(sorted(failed.items())),
        to_retry=len([seed for seed in missing if last.get(seed, "ok") != "ok"]),
        elsewhere=len(elsewhere),
        unavailable=reason,
        seconds=sum(a.wall_seconds for a in done.values()) / len(done) if done else None,
        stale=stale,
        attempts={seed: a.attempt for seed, a in done.items()},
    )


_NO_FAILURE = ("ok", "interrupted")


def unavailable(suite: Suite, host: Host, cell: Cell) -> str | None:
    """Why this machine cannot run a cell of this suite, or None if it can."""
    if suite.device == "gpu" and not host.gpus:
        return f"the suite needs a GPU: {host.no_gpus}"
    if suite.device == "cpu" and host.gpus:
        return "the suite is for the processor; hide the GPUs (CUDA_VISIBLE_DEVICES=) to run it"
    if suite.launcher == "horovodrun" and host.horovodrun is None:
        return f"the suite starts every run with horovodrun: {host.no_horovod}"
    if suite.launcher == "mpirun" and host.mpirun is None:
        return "the suite starts every run with mpirun, which is not on the PATH"
    return why_not(host, cell.ranks, cell.precision, suite.hosts)


def counts(attempt: Attempt, host: Host, data: DataIdentity | None) -> bool:
    """Whether a good attempt stands for a run that would be made here and now."""
    assert attempt.run is not None
    same_data = data is None or data.differs(attempt.run.dataset, attempt.cell) is None
    return same_data and made_here(attempt, host)


def made_here(attempt: Attempt, host: Host) -> bool:
    """Whether an attempt was made by this installation, and on its hardware as it is today."""
    return Machine.of(attempt.host) == Machine.of(host.to_dict())
