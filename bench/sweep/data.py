"""The data of a sweep: a prepared folder, made by `ncf prepare` or `ncf synthesize` if needed."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import UserError
from bench.process.supervise import Stop, new_token, supervise
from bench.records.identity import DataIdentity
from bench.suite.trainer_options import TRAINER
from ncf.record import RecordError, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.suite.model import Suite

TIMEOUT_S = 4 * 3600.0
SCRIPTS = Path(__file__).parents[2] / "scripts"

_ITEM_BYTES = {"uint8": 1, "int32": 4, "int64": 8}


@dataclass(frozen=True)
class PreparedData:
    """A prepared folder with all of its arrays."""

    folder: Path
    name: str
    known_as: str | None
    identity: DataIdentity


class Interrupted(Exception):  # noqa: N818 - the user's request, not an error
    """The user stopped the preparation."""


@dataclass(frozen=True)
class Resolver:
    """Finds or makes the data of a suite.

    Attributes:
        root: folder of the prepared folders.
        stop: ends a preparation.
        say: called with lines about a preparation.
        trainer: the command that prepares.
    """

    root: Path
    stop: Stop
    say: Callable[[str], None]
    trainer: tuple[str, ...] = TRAINER

    def find(self, suite: Suite, path: str | None) -> PreparedData | None:
        """The data if they exist; prepares nothing."""
        folder = self._folder(suite, path or self._downloaded(suite))
        return read_prepared(folder) if folder is not None and folder.exists() else None

    def resolve(self, suite: Suite, path: str | None) -> PreparedData:
        """The data, prepared if needed.

        Args:
            suite: names the data unless `path` does.
            path: --data, a prepared folder or any input of `ncf prepare`.

        Raises:
            UserError: the data are missing, cannot be prepared, or are incomplete.
            Interrupted: the user stopped it.
        """
        source = path or self._downloaded(suite)
        folder = self._folder(suite, source)
        if folder is None:
            source = self._fetch(suite)
            folder = self._folder(suite, source)
        assert folder is not None, "a file has a folder"
        if not folder.exists():
            self._make(suite, source, folder)
        data = read_prepared(folder)
        expected = suite.data.source
        if expected and data.known_as != expected:
            kind = f"known as {data.known_as}" if data.known_as else "not recognised"
            self.say(f"note: {suite.name} is made for {expected}; these data are {kind}")
        elif not expected and path:
            self.say(f"note: {suite.name} is made for {suite.data.name}; this run is on {path}")
        return data

    def _folder(self, suite: Suite, source: str | None) -> Path | None:
        """The folder of the prepared data, which may not exist yet; None if there is no source."""
        if source is None:
            synthetic = suite.data.synthetic
            return self.root / f"synthetic-{synthetic}{_suffix(suite)}" if synthetic else None
        path = Path(source)
        if not path.exists():
            raise UserError(f"--data {source}: no such file or folder")
        if (path / "manifest.json").exists():
            return path
        return self.root / f"{_stem(path)}-{content_hash(path)}{_suffix(suite)}"

    def _downloaded(self, suite: Suite) -> str | None:
        """A file of the suite's source in the data folder."""
        for name in (f"{suite.data.source}.zip", f"{suite.data.source}.inter"):
            if suite.data.source and (self.root / name).is_file():
                return str(self.root / name)
        return None

    def _fetch(self, suite: Suite) -> str:
        """Download a public data set that allows it."""
        source, script = suite.data.source, SCRIPTS / "fetch_ml100k.py"
        if source != "ml-100k" or not script.exists():
            url = f"https://files.grouplens.org/datasets/movielens/{source}.zip"
            raise UserError(
                f"{suite.name} needs {source}: download {url} and pass --data {source}.zip"
            )
        target = self.root / f"{source}.inter"
        self._run((self.trainer[0], str(script), "--output", str(target)), target)
        return str(target)

    def _make(self, suite: Suite, source: str | None, folder: Path) -> None:
        work = ("prepare", source) if source else ("synthesize", "--preset", suite.data.synthetic)
        options = {"output": folder, "seed": suite.data.seed, **_candidates(suite)}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        try:
            self._run((*self.trainer, *map(str, work), *words), folder)
        except UserError:
            if not (folder / "manifest.json").exists():  # else another sweep was faster
                raise

    def _run(self, command: tuple[str, ...], target: Path) -> None:
        """Run one preparing process; its last line is the error if it fails."""
        self.say(f"making {target}: {shlex.join(('python', *command[1:]))}")
        log = self.root / f".{target.name}.log"
        lines: list[str] = []

        def on_line(line: str) -> None:
            lines.append(line)
            self.say(f"    {line}")

        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        ended = supervise(command, env, log, TIMEOUT_S, self.stop, on_line, new_token())
        log.unlink(missing_ok=True)
        if ended.cause == "interrupted":
            raise Interrupted
        if ended.exit_code != 0:
            last = lines[-1] if lines else f"ended by {ended.signal or ended.exit_code}"
            raise UserError(f"{target} could not be made: {last.partition('error: ')[2] or last}")


def read_prepared(folder: Path) -> PreparedData:
    """Read the manifest of a prepared folder and check that all of its arrays exist.

    Raises:
        UserError: an array is missing or truncated.
    """
    advice = "run `ncf prepare` again, or delete the folder and let the sweep make it"
    try:
        manifest = read_json(folder / "manifest.json")
        for name, entry in manifest["arrays"].items():
            _check_array(folder / f"{name}.npy", entry)
        return PreparedData(
            folder=folder,
            name=str(manifest["name"]),
            known_as=(manifest.get("source") or {}).get("known_as"),
            identity=DataIdentity(str(manifest["hash"]), str(manifest["candidates"]["hash"])),
        )
    except RecordError as error:
        raise UserError(f"{error}: {advice}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / 'manifest.json'} lacks {error}: {advice}") from None


def _check_array(path: Path, entry: dict[str, Any]) -> None:
    needed = math.prod(entry["shape"]) * _ITEM_BYTES.get(entry["dtype"], 1)
    try:
        size = path.stat().st_size
    except OSError:
        raise RecordError(f"{path} is missing") from None
    if size < needed:
        raise RecordError(f"{path} is cut short ({size} of at least {needed} bytes)")


def content_hash(path: Path) -> str:
    """8 hex digits: hash of a file's content, or of the names, sizes and times in a folder."""
    digest = hashlib.sha256()
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                stat, name = file.stat(), file.relative_to(path)
                digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}".encode())
        else:
            with path.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise UserError(f"--data {path}: {error.strerror or error}") from None
    return digest.hexdigest()[:8]


def _stem(path: Path) -> str:
    """`ml-20m` of ml-20m.zip, `u` of u.data: a readable beginning of the folder's name."""
    name = path.resolve().name
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name.split(".")[0]) or "data"


def _candidates(suite: Suite) -> dict[str, Any]:
    """Options of the candidates that are drawn at preparation; `full` draws none."""
    options = {n: suite.train[n] for n in ("protocol", "valid_negative") if n in suite.train}
    return {} if options.get("protocol") == "full" else options


def _suffix(suite: Suite) -> str:
    """The part of a folder's name for the candidates' protocol, number and seed."""
    words = [str(value) for value in _candidates(suite).values()]
    return "".join(f"-{word}" for word in (*words, f"seed{suite.data.seed}"))
