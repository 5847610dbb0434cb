"""The store: one JSON file per attempt, written once and whole, never overwritten."""

from __future__ import annotations

import contextlib
import gc
import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.files import write_new
from bench.sealing import is_sealed, sealed, without_bulk
from bench.suite import Cell
from ncf.record import RecordError, RunRecord, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

SCHEMA_VERSION = 1
"""History: 1 (2026-11) first form."""

STATUSES = ("ok", "oom", "nan", "timeout", "crash", "invalid", "interrupted")

_FILE_NAME = re.compile(r"seed(\d+)-a(\d+)\.json")


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

    `log` is relative to the suite's folder. `flags` name what disturbed the run (see bench.flags);
    they do not make it bad.
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


@dataclass(frozen=True)
class Loaded:
    """All attempts that can be read, and the files that cannot, with the reason."""

    attempts: list[Attempt]
    unreadable: list[tuple[Path, str]]


@dataclass(frozen=True)
class Store:
    """The folder of one suite: results/<suite>."""

    folder: Path

    @property
    def records(self) -> Path:
        """Where the attempts are, one folder per cell."""
        return self.folder / "records"

    @property
    def temporary(self) -> Path:
        """What only a sweep in progress needs: its marker, and the record being written."""
        return self.folder / "tmp"

    def log(self, cell_key: str, seed: int, attempt: int) -> Path:
        """The log of one attempt."""
        return self.folder / "logs" / cell_key / f"seed{seed}-a{attempt}.log"

    def path(self, cell_key: str, seed: int, attempt: int) -> Path:
        """The file of one attempt."""
        return self.records / cell_key / f"seed{seed}-a{attempt}.json"

    def next_attempt(self, cell_key: str, seed: int) -> int:
        """One more than the highest number in use, unreadable files included."""
        return 1 + max((a for s, a, _ in self._files(cell_key) if s == seed), default=0)

    def write(self, attempt: Attempt) -> Path:
        """Store an attempt under its own name.

        Raises:
            FileExistsError: that attempt number is taken; nothing was changed.
            OSError: the disk is full or the folder is read-only; nothing was changed.
        """
        path = self.path(attempt.cell.key, attempt.seed, attempt.attempt)
        text = json.dumps(attempt.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        write_new(path, sealed(text))
        return path

    def read(self, cell_key: str, seed: int, number: int) -> Attempt | str:
        """One attempt with everything in it, or why it cannot be used."""
        return _read(self.path(cell_key, seed, number), cell_key, seed, number, Shared())

    def load(self, *, brief: bool = False) -> Loaded:
        """Read every attempt. A file that cannot be read is listed, never an error.

        Args:
            brief: without epochs, configuration and telemetry, which planning does not need: ten
                thousand runs take seconds and hundreds of megabytes less then.
        """
        loaded, shared = Loaded([], []), Shared()
        with _no_collection():
            for key, seed, number, path in self.names():
                attempt = _read(path, key, seed, number, shared, brief=brief)
                if isinstance(attempt, str):
                    loaded.unreadable.append((path, attempt))
                else:
                    loaded.attempts.append(attempt)
        return loaded

    def remove_leftovers(self) -> None:
        """Delete temporary files of a killed sweep. Only the holder of the lock may call this."""
        for path in self.records.glob("*/.*.tmp"):
            path.unlink(missing_ok=True)

    def names(self) -> Iterable[tuple[str, int, int, Path]]:
        """Cell, seed, attempt and path of every record, in order; none is opened."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for folder in sorted(self.records.iterdir()):
                if folder.is_dir():
                    for seed, number, path in self._files(folder.name):
                        yield folder.name, seed, number, path

    def _files(self, cell_key: str) -> Iterable[tuple[int, int, Path]]:
        """Seed, attempt and path of each file of a cell, in order."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in (self.records / cell_key).iterdir():
                match = _FILE_NAME.fullmatch(path.name)
                if match:
                    found.append((int(match[1]), int(match[2]), path))
        return sorted(found)


class Shared:
    """Values that many records have in common are kept once."""

    def __init__(self) -> None:
        self.cells: dict[str, Cell] = {}
        self._seen: dict[str, list[Any]] = {}

    def put_into(self, data: dict[str, Any]) -> None:
        """Replace a record's host and versions by equal ones seen before."""
        data["host"] = self._same("host", data.get("host"))
        if isinstance(data.get("run"), dict):
            data["run"]["versions"] = self._same("versions", data["run"].get("versions"))

    def _same(self, kind: str, value: Any) -> Any:
        seen = self._seen.setdefault(kind, [])
        for known in seen:
            if known == value:
                return known
        seen.append(value)
        return value


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Many small objects that all stay: looking for garbage among them again and again is waste."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(
    path: Path, key: str, seed: int, number: int, shared: Shared, *, brief: bool = False
) -> Attempt | str:
    """The attempt in a file, or why it cannot be used."""
    try:
        data = _brief(path) if brief else read_json(path)
        shared.put_into(data)
        attempt = Attempt.from_dict(data, shared.cells)
    except RecordError as error:
        return str(error).removeprefix(f"{path}: ")
    inside = (attempt.cell.key, attempt.seed, attempt.attempt)
    if inside == (key, seed, number):
        return attempt
    return (
        f"its place says cell {key}, seed {seed}, attempt {number}; "
        f"it holds cell {inside[0]}, seed {inside[1]}, attempt {inside[2]}"
    )


def _brief(path: Path) -> dict[str, Any]:
    """A record without its long parts; a file that is not as it was written is read whole."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None
    data = json.loads(without_bulk(content)) if is_sealed(content) else read_json(path)
    if isinstance(data.get("run"), dict):
        data["run"] |= {"epochs": (), "config": {}}
    return {**data, "telemetry": None, "command": ()}


def load(suite_dir: Path, *, brief: bool = False) -> Loaded:
    """All attempts stored under results/<suite>; see Store.load."""
    return Store(suite_dir).load(brief=brief)
