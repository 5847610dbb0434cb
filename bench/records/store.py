"""The store: one JSON file per attempt, written once and whole, never overwritten."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.files import write_new
from bench.records.attempt import Attempt
from ncf.record import RecordError, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bench.suite.model import Cell


_FILE_NAME = re.compile(r"seed(\d+)-a(\d+)\.json")


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


_SEAL = b',\n "sha256": "'


_BULK = (
    (b'\n "telemetry": {\n', b"\n },", b'\n "telemetry": null,'),
    (b'\n  "config": {\n', b"\n  },", b'\n  "config": {},'),
    (b'\n  "epochs": [\n', b"\n  ],", b'\n  "epochs": [],'),
)
"""Begin and end of what planning does not need, and what stands for it; see `without_bulk`."""


def sealed(text: str) -> str:
    """A JSON object, as `write` lays it out, with the hash of its text as the last entry."""
    body = text.rstrip().removesuffix("}").rstrip()
    digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
    return f'{body}{_SEAL.decode()}{digest}"\n}}\n'


def is_sealed(content: bytes) -> bool | None:
    """Whether a file is as it was written, to the byte; None if it carries no hash."""
    body, found, rest = content.rpartition(_SEAL)
    if not found:
        return None
    return rest == hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


def without_bulk(content: bytes) -> bytes:
    """The content of a sealed file without its long parts, cut out before they are parsed.

    A line feed cannot stand inside a JSON text, and the indentation tells the depth: in a file
    that is as `write` laid it out, these places cannot be mistaken for others.
    """
    for begin, end, instead in _BULK:
        first = content.find(begin)
        last = content.find(end, first)
        if 0 <= first < last:
            content = content[:first] + instead + content[last + len(end) :]
    return content
