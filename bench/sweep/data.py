"""From what the user or the suite names to a prepared folder, made by `ncf prepare|synthesize`."""

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
    """A prepared folder whose arrays are all there."""

    folder: Path
    name: str
    known_as: str | None
    identity: DataIdentity


class Interrupted(Exception):  # noqa: N818 - the user's wish, no error
    """The user stopped the preparation."""


@dataclass(frozen=True)
class Resolver:
    """Finds or makes the data of a suite.

    Attributes:
        root: where prepared folders are kept.
        stop: ends a preparation.
        say: told what is being done.
        trainer: the command that prepares.
    """

    root: Path
    stop: Stop
    say: Callable[[str], None]
    trainer: tuple[str, ...] = TRAINER

    def find(self, suite: Suite, given: str | None) -> PreparedData | None:
        """The data if they are there already; makes nothing."""
        folder = self._folder(suite, given)
        return read_prepared(folder) if folder is not None and folder.exists() else None

    def resolve(self, suite: Suite, given: str | None) -> PreparedData:
        """The data, prepared if need be.

        Args:
            suite: says what to train on unless `given` does.
            given: --data, a prepared folder or anything that `ncf prepare` reads.

        Raises:
            UserError: the data are missing, cannot be prepared, or are incomplete.
            Interrupted: the user stopped it.
        """
        folder = self._folder(suite, given)
        if folder is None:
            folder = self._fetch(suite)
        elif not folder.exists():
            self._make(suite, given, folder)
        found = read_prepared(folder)
        wanted = suite.data.source
        if wanted and found.known_as != wanted:
            kind = f"known as {found.known_as}" if found.known_as else "not recognised"
            self.say(f"note: {suite.name} is made for {wanted}; these data are {kind}")
        elif not wanted and given:
            self.say(f"note: {suite.name} is made for {suite.data.name}; this run is on {given}")
        return found

    def _folder(self, suite: Suite, given: str | None) -> Path | None:
        """Where the prepared data are or will be; None if they must be fetched first."""
        source = given or self._raw(suite)
        if source is not None:
            path = Path(source)
            if not path.exists():
                raise UserError(f"--data {source}: no such file or folder")
            if (path / "manifest.json").exists():
                return path
            return self.root / f"{_stem(path)}-{content_hash(path)}{_suffix(suite)}"
        if suite.data.synthetic:
            return self.root / f"synthetic-{suite.data.synthetic}{_suffix(suite)}"
        return None

    def _raw(self, suite: Suite) -> str | None:
        """A file of the suite's source that lies in the data folder already."""
        for name in (f"{suite.data.source}.zip", f"{suite.data.source}.inter"):
            if suite.data.source and (self.root / name).is_file():
                return str(self.root / name)
        return None

    def _fetch(self, suite: Suite) -> Path:
        """Get a public set that may be fetched by a program, and prepare it."""
        source = suite.data.source
        script = SCRIPTS / "fetch_ml100k.py"
        if source != "ml-100k" or not script.exists():
            url = f"https://files.grouplens.org/datasets/movielens/{source}.zip"
            raise UserError(
                f"{suite.name} needs {source}: download {url} and pass --data {source}.zip"
            )
        target = self.root / f"{source}.inter"
        self._run((self.trainer[0], str(script), "--output", str(target)), target)
        folder = self._folder(suite, str(target))
        assert folder is not None, "a named file has a folder"
        if not folder.exists():
            self._make(suite, str(target), folder)
        return folder

    def _make(self, suite: Suite, given: str | None, folder: Path) -> None:
        source = given or self._raw(suite)
        if source is not None:
            work: tuple[str, ...] = ("prepare", source)
        else:
            work = ("synthesize", "--preset", str(suite.data.synthetic))
        options: list[str] = ["--output", str(folder), "--seed", str(suite.data.seed)]
        for name, value in _candidates(suite).items():
            options += [f"--{name}", str(value)]
        try:
            self._run((*self.trainer, *work, *options), folder)
        except UserError:
            if not (folder / "manifest.json").exists():  # else another sweep was quicker
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
    """A prepared folder's facts, once all of its arrays are seen to be there.

    Raises:
        UserError: what is missing or cut short, and the way out.
    """
    again = "run `ncf prepare` again, or delete the folder and let the sweep make it"
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
        raise UserError(f"{error}: {again}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / 'manifest.json'} lacks {error}: {again}") from None


def _check_array(path: Path, entry: dict[str, Any]) -> None:
    needed = math.prod(entry["shape"]) * _ITEM_BYTES.get(entry["dtype"], 1)
    try:
        size = path.stat().st_size
    except OSError:
        raise RecordError(f"{path} is missing") from None
    if size < needed:
        raise RecordError(f"{path} is cut short ({size} of at least {needed} bytes)")


def content_hash(path: Path) -> str:
    """8 hex digits that name a raw file by its content, a folder by the files in it."""
    digest = hashlib.sha256()
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                stat = file.stat()
                digest.update(
                    f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}".encode()
                )
        else:
            with path.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise UserError(f"--data {path}: {error.strerror or error}") from None
    return digest.hexdigest()[:8]


def _stem(path: Path) -> str:
    """`ml-20m` of ml-20m.zip, `u` of u.data: a readable beginning for the folder's name."""
    name = path.resolve().name
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name.split(".")[0]) or "data"


def _candidates(suite: Suite) -> dict[str, Any]:
    """Options of the candidates that are drawn when data are prepared; `full` draws none."""
    asked = {n: suite.train[n] for n in ("protocol", "valid_negative") if n in suite.train}
    return {} if asked.get("protocol") == "full" else asked


def _suffix(suite: Suite) -> str:
    """What else makes a prepared folder: the candidates' protocol, number and seed."""
    words = [str(value) for value in _candidates(suite).values()]
    return "".join(f"-{word}" for word in (*words, f"seed{suite.data.seed}"))
