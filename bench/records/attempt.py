"""One attempt as it is stored: its fields and its JSON form. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.suite.model import Cell
from ncf.record import RecordError, RunRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = 1
"""History: 1 (2026-11) first form."""


STATUSES = ("ok", "oom", "nan", "timeout", "crash", "invalid", "interrupted")


@dataclass(frozen=True)
class Failure:
    """Why an attempt is not ok: the rank that failed first (if known), how it ended, one line."""

    message: str
    rank: int | None = None
    signal: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True)
class Attempt:
    """One try to run one repetition of one cell.

    `log` is relative to the suite's folder. `flags` name what disturbed the run (see
    bench.host.samples); they do not make it bad.
    """

    suite: str
    cell: Cell
    seed: int
    attempt: int
    status: str
    started_at: str
    finished_at: str
    wall_seconds: float
    failure: Failure | None = None
    command: tuple[str, ...] = ()
    log: str = ""
    host: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Mapping[str, Any] | None = None
    run: RunRecord | None = None
    flags: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether this is a good repetition; nothing else may enter a table."""
        return self.status == "ok" and self.run is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the order of the file."""
        cell = {"key": self.cell.key, "axes": self.cell.axes, "options": self.cell.options}
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "attempt",
            "suite": self.suite,
            "cell": cell,
            "seed": self.seed,
            "attempt": self.attempt,
            "status": self.status,
            "failure": asdict(self.failure) if self.failure else None,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "wall_seconds": self.wall_seconds,
            "command": list(self.command),
            "log": self.log,
            "host": self.host,
            "flags": list(self.flags),
            "telemetry": self.telemetry,
            "run": self.run.to_dict() if self.run else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], cells: dict[str, Cell] | None = None) -> Attempt:
        """Rebuild an attempt; RecordError says what is missing, unknown or of a later schema.

        Args:
            data: of the file.
            cells: cells seen before, by key; an equal one is used again instead of a new one.
        """
        version = data.get("schema_version")
        if data.get("kind") != "attempt":
            raise RecordError(f"kind {data.get('kind')!r} is not an attempt")
        if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
            raise RecordError(f"schema_version {version!r} is not between 1 and {SCHEMA_VERSION}")
        try:
            attempt = cls(
                suite=str(data["suite"]),
                cell=_cell(data["cell"], {} if cells is None else cells),
                seed=int(data["seed"]),
                attempt=int(data["attempt"]),
                status=str(data["status"]),
                failure=Failure(**data["failure"]) if data["failure"] else None,
                started_at=str(data["started_at"]),
                finished_at=str(data["finished_at"]),
                wall_seconds=float(data["wall_seconds"]),
                command=tuple(data["command"]),
                log=str(data["log"]),
                host=data["host"],
                telemetry=data["telemetry"],
                run=RunRecord.from_dict(data["run"]) if data["run"] is not None else None,
                flags=tuple(data.get("flags", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"broken attempt: {type(error).__name__} {error}") from None
        if attempt.status not in STATUSES:
            raise RecordError(f"status {attempt.status!r} is none of {', '.join(STATUSES)}")
        if attempt.status == "ok" and attempt.run is None:
            raise RecordError("status ok without the run's record")
        return attempt


def _cell(data: Mapping[str, Any], seen: dict[str, Cell]) -> Cell:
    def values(items: Mapping[str, Any]) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in items.items()}

    axes, options = values(data["axes"]), values(data["options"])
    key = str(data["key"])
    known = seen.setdefault(key, Cell(axes, options, key))
    return known if (known.axes, known.options) == (axes, options) else Cell(axes, options, key)
