"""The store: one JSON file per attempt, written once and whole, never overwritten."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from bench.files import write_new
from bench.records.attempt import read_attempt, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.records.attempt import Attempt

T = TypeVar("T")
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
        return _read(self.path(cell_key, seed, number), cell_key, seed, number, {})

    def load(self) -> Loaded:
        """Read every attempt. A file that cannot be read is listed, never an error."""
        loaded = Loaded([], [])
        seen: dict[str, list[Any]] = {}
        for key, seed, number, path in self.names():
            attempt = _read(path, key, seed, number, seen)
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


def _read(
    path: Path, key: str, seed: int, number: int, seen: dict[str, list[Any]]
) -> Attempt | str:
    """The attempt in a file, or why it cannot be used."""
    attempt = read_file(path, read_attempt)
    if isinstance(attempt, str):
        return attempt
    return misplaced(attempt, key, seed, number) or _shared(attempt, seen)


def _shared(attempt: Attempt, seen: dict[str, list[Any]]) -> Attempt:
    """The same attempt; what many records have in common is kept in memory once."""

    def same(kind: str, value: T) -> T:
        values = seen.setdefault(kind, [])
        for other in values:
            if other == value:
                return cast("T", other)
        values.append(value)
        return value

    cell, run = attempt.cell, attempt.run
    cell = same(cell.key, (cell, cell.axes, cell.options))[0]
    if run is not None:
        versions, config = same("versions", run.versions), same(f"config {cell.key}", run.config)
        dataset, hardware = same("dataset", run.dataset), same("hardware", run.hardware)
        run = replace(run, versions=versions, config=config, dataset=dataset, hardware=hardware)
    return replace(attempt, cell=cell, host=same("host", attempt.host), run=run)


def misplaced(attempt: Attempt, key: str, seed: int, number: int) -> str:
    """How an attempt differs from the place of its file; empty if it does not."""
    inside = (attempt.cell.key, attempt.seed, attempt.attempt)
    if inside == (key, seed, number):
        return ""
    return (
        f"stored under cell {key}, seed {seed}, attempt {number} but contains "
        f"cell {inside[0]}, seed {inside[1]}, attempt {inside[2]}"
    )


def load(suite_dir: Path) -> Loaded:
    """All attempts stored under results/<suite>; see Store.load."""
    return Store(suite_dir).load()


_SEAL = b',\n "sha256": "'


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
