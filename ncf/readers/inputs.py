"""What an input path holds: a table of ratings, or a split that comes in several files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ncf.errors import UserError
from ncf.readers import ncf_paper as paper
from ncf.readers import npz, parquet
from ncf.readers import table as ratings
from ncf.readers.sources import failures, sources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncf.readers.rows import Parts, Ratings


@dataclass(frozen=True)
class Loaded:
    """Rows, and what to call them.

    `rows` are `Parts` where the split was given. `label` names the input in messages, `files` are
    those that were read, `columns` the names of the used ones, where columns have names.
    `triple` are the NCF paper's files, if it was those.
    """

    rows: Ratings | Parts
    name: str
    label: str
    format: str
    files: tuple[Path, ...]
    columns: Mapping[str, str | None] | None = None
    member: str | None = None
    triple: paper.Triple | None = None

    def place_of_test_row(self, row: int) -> str:
        """Where a row of a given test half stands, as messages name it; `row` counts from 0."""
        if self.triple is not None:
            return paper.place_of(self.triple, row)
        return f"{self.label} test row {row + 1}"


def find(path: Path) -> tuple[Path, ...]:
    """The files that `load` will read, without reading them.

    Raises:
        UserError: nothing there, or parts of a split are missing.
    """
    with failures(str(path)):
        if not path.is_dir():
            if paper.is_part(path.name) and path.exists():
                return _files_of(paper.beside(path))
            sources(path)
            return (path,)
        train, test = npz.split_files(path)
        if train and test:
            return (*train, *test)
        triple = paper.inside(path)
    if triple is None:
        raise UserError(
            f"{path}: is a folder without a split (train*.npz and test*.npz, or *{paper.TRAIN} "
            f"and *{paper.TEST}); give the ratings file or the zip"
        )
    return _files_of(triple)


def load(path: Path, tried: str = "auto", threads: int = 1) -> Loaded:
    """Read an input.

    Args:
        path: a file, or a folder with a split in several files.
        tried: "auto", or the only separator to try (see `ratings.choose`).
        threads: threads to read with; changes the time, never the result.

    Raises:
        UserError: one line with file, place and what is wrong.
    """
    files = find(path)
    if path.is_dir() or paper.is_part(path.name):
        _refuse_separator(path, tried, "a split in several files")
        return _several(path, files, threads)
    offered = sources(path)
    first = offered[0] if offered else None
    if first is not None and first.packing == "parquet":
        _refuse_separator(path, tried, "a Parquet file")
        rows, columns = parquet.read(path, threads)
        return Loaded(rows, _stem(path), str(path), "Parquet", files, columns)
    if first is not None and first.member is not None:
        if npz.is_npz(path):
            _refuse_separator(path, tried, "a NumPy archive")
            return Loaded(npz.read(path), _stem(path), str(path), "NumPy pairs", files)
        triple = paper.within(offered, str(path))
        if triple is not None:
            _refuse_separator(path, tried, "a split in several files")
            return _from_triple(triple, _stem(path), str(path), files, threads)
    source, layout = ratings.choose(path, tried)
    rows = ratings.read(source, layout, threads)
    described, used = layout.describe(), layout.used()
    return Loaded(rows, _stem(path), source.label, described, files, used, source.member)


def _several(path: Path, files: tuple[Path, ...], threads: int) -> Loaded:
    if files[0].suffix == ".npz":
        train, test = npz.split_files(path)
        return Loaded(npz.read_split(train, test), path.name, str(path), "NumPy pairs", files)
    stem = files[0].name.removesuffix(paper.TRAIN)
    return _from_triple(paper.beside(files[0]), stem, str(path), files, threads)


def _from_triple(
    triple: paper.Triple, name: str, label: str, files: tuple[Path, ...], threads: int
) -> Loaded:
    rows = paper.read(triple, threads)
    return Loaded(rows, name, label, "NCF paper", files, triple=triple)


def _files_of(triple: paper.Triple) -> tuple[Path, ...]:
    parts = (triple.train, triple.test, triple.negative)
    return tuple(part.path for part in parts if part is not None)


def _refuse_separator(path: Path, tried: str, what: str) -> None:
    if tried != "auto":
        raise UserError(f"--format {tried}: {path} is {what}; leave --format out")


def _stem(path: Path) -> str:
    """The file's name without its last endings: `my.ratings.csv.gz` is `my.ratings`."""
    name = path.name
    for packed in (".gz", ".bz2", ".xz", ".zst"):
        name = name.removesuffix(packed)
    return name.rpartition(".")[0] or path.name


@dataclass(frozen=True)
class Archive:
    """What GroupLens publishes: sizes before any filter, last timestamp, MD5 of the zip."""

    users: int
    items: int
    interactions: int
    last_time: int
    md5: str


ARCHIVES: Final = {
    "ml-100k": Archive(943, 1682, 100_000, 893286638, "0e33842e24a9c977be4e0107933c0723"),
    "ml-1m": Archive(6040, 3706, 1_000_209, 1046454590, "c4d9eecfca2ab87c1945afe126590906"),
    "ml-10m": Archive(69878, 10677, 10_000_054, 1231131736, "ce571fd55effeba0271552578f2648bd"),
    "ml-20m": Archive(138493, 26744, 20_000_263, 1427784002, "cd245b17a1ae2cc31bb14903e1204af3"),
    "ml-25m": Archive(162541, 59047, 25_000_095, 1574327703, "6b51fb2759a8657d3bfcbfc42b592ada"),
    "ml-32m": Archive(200948, 84432, 32_000_204, 1697164147, "d472be332d4daa821edc399621853b57"),
}
"""The last timestamps keep generated files with the same counts from passing as the real ones."""


def recognise(
    md5: str | None, users: int, items: int, interactions: int, last_time: float | None
) -> tuple[str, str] | None:
    """Name of the archive and what gave it away ("md5" or "counts"); None for other data.

    A known zip counts as known only if what was read from it has the known sizes too.
    """
    for name, known in ARCHIVES.items():
        if (known.users, known.items, known.interactions) == (users, items, interactions):
            if known.md5 == md5:
                return name, "md5"
            if known.last_time == last_time:
                return name, "counts"
    return None
