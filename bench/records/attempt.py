"""One attempt as it is stored: its fields and its JSON form, decoded with checked types."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bench.suite.model import Cell  # noqa: TC001 - msgspec reads the annotations
from ncf.record import RecordError, RunRecord, check_header

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

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
        data = msgspec.to_builtins(self)
        data["cell"] = {name: data["cell"][name] for name in ("key", "axes", "options")}
        ordered = {name: data[name] for name in _ORDER}
        return {"schema_version": SCHEMA_VERSION, "kind": "attempt", **ordered}


_ORDER = (
    *("suite", "cell", "seed", "attempt", "status", "failure", "started_at", "finished_at"),
    *("wall_seconds", "command", "log", "host", "flags", "telemetry", "run"),
)


def read_attempt(content: bytes) -> Attempt:
    """An attempt from its file; unknown keys of later versions are ignored.

    Raises:
        RecordError: another kind of file, a later schema, or a field of a wrong type.
    """
    return _checked(decode(content, Attempt, "attempt", SCHEMA_VERSION))


def attempt_of(data: Mapping[str, Any]) -> Attempt:
    """The same from JSON that was parsed already."""
    return read_attempt(msgspec.json.encode(data))


def _checked(attempt: Attempt) -> Attempt:
    if attempt.status not in STATUSES:
        raise RecordError(f"status {attempt.status!r} is none of {', '.join(STATUSES)}")
    if attempt.status == "ok" and attempt.run is None:
        raise RecordError("status ok without the run's record")
    if attempt.run is not None:
        check_header(attempt.run.schema_version, attempt.run.status)
    return attempt


def read_file(path: Path, read: Callable[[bytes], T]) -> T | str:
    """What `read` makes of a file's content, or why the file cannot be used."""
    try:
        return read(path.read_bytes())
    except OSError as error:
        return error.strerror or str(error)
    except RecordError as error:
        return str(error)


@dataclass(frozen=True)
class _Header:
    schema_version: Any = None
    kind: Any = None


def decode(content: bytes | str, cls: type[T], kind: str, newest: int) -> T:
    """A JSON object with `kind` and `schema_version` as an instance of a dataclass.

    Raises:
        RecordError: not JSON, another kind, a schema later than `newest`, or a field of a wrong
            type ("Expected `int`, got `str` - at `$.seed`").
    """
    try:
        header = msgspec.json.decode(content, type=_Header)
        if header.kind != kind:
            raise RecordError(f"kind {header.kind!r} is not {kind!r}")
        version = header.schema_version
        if not isinstance(version, int) or not 1 <= version <= newest:
            raise RecordError(f"schema_version {version!r} is not between 1 and {newest}")
        return msgspec.json.decode(content, type=cls)
    except msgspec.ValidationError as error:
        raise RecordError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"not JSON ({error})") from None
