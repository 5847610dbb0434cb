"""Which reader an input path needs, and what it reads: a table of ratings or a given split.

`READERS` lists the readers in the order in which they are tried; an input that none of them
recognises is read as a text table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ncf.errors import UserError
from ncf.readers import ncf_paper, npz, parquet, table
from ncf.readers.sources import find_sources, reading_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ncf.readers.rows import Parts, Ratings
    from ncf.readers.sources import Source


@dataclass(frozen=True)
class Loaded:
    """Rows and how reports and messages call them.

    `rows` are `Parts` where the data came with a split. `label` names the input in messages;
    `columns` are the names of the columns that were read, where columns have names.
    `test_row_place` gives file and line of a test row, counted from 0, where it is known.
    """

    rows: Ratings | Parts
    name: str
    label: str
    format: str
    columns: Mapping[str, str | None] | None = None
    member: str | None = None
    test_row_place: Callable[[int], str] | None = None

    def place_of_test_row(self, row: int) -> str:
        """The place of a row of a given test half, as messages name it; `row` counts from 0."""
        if self.test_row_place is not None:
            return self.test_row_place(row)
        return f"{self.label} test row {row + 1}"


@dataclass(frozen=True)
class Input:
    """A recognised input: its files, and a function that reads them with a number of threads."""

    files: tuple[Path, ...]
    read: Callable[[int], Loaded]


def detect(path: Path, separator: str = "auto") -> Input:
    """Choose the reader of an input; only the beginnings of its files are read.

    Args:
        path: a file, or a folder with a split in several files.
        separator: "auto", or the key of `sniff.SEPARATORS` of a text table.

    Raises:
        UserError: nothing is there, parts of a split are missing, or no reader recognises it.
    """
    with reading_errors(str(path)):
        sources = [] if path.is_dir() else find_sources(path)
        for kind, recognise in READERS:
            recognised = recognise(path, sources)
            if recognised and separator != "auto":
                raise UserError(f"--format {separator}: {path} is {kind}; leave --format out")
            if recognised:
                return recognised
    if path.is_dir():
        raise UserError(
            f"{path}: is a folder without a split (train*.npz and test*.npz, or "
            f"*{ncf_paper.TRAIN} and *{ncf_paper.TEST}); give the ratings file or the zip"
        )
    return _text_table(path, sources, separator)


def _npz_folder(path: Path, _sources: Sequence[Source]) -> Input | None:
    train, test = npz.split_files(path) if path.is_dir() else ([], [])
    if not train or not test:
        return None

    def read(_threads: int) -> Loaded:
        return Loaded(npz.read_split(train, test), path.name, str(path), "NumPy pairs")

    return Input((*train, *test), read)


def _npz_archive(path: Path, sources: Sequence[Source]) -> Input | None:
    if not sources or not all((source.member or "").endswith(".npy") for source in sources):
        return None
    return Input(
        (path,), lambda _threads: Loaded(npz.read(path), _stem(path), str(path), "NumPy pairs")
    )


def _paper_split(path: Path, sources: Sequence[Source]) -> Input | None:
    triple = ncf_paper.find_triple(path, sources)
    if triple is None:
        return None
    train = triple.train
    name = _stem(path) if train.member else train.path.name.removesuffix(ncf_paper.TRAIN)

    def read(threads: int) -> Loaded:
        rows = ncf_paper.read(triple, threads)
        return Loaded(rows, name, str(path), "NCF paper", test_row_place=triple.place_of_test_row)

    return Input(triple.files, read)


def _parquet_file(path: Path, sources: Sequence[Source]) -> Input | None:
    if not sources or sources[0].packing != "parquet":
        return None

    def read(threads: int) -> Loaded:
        rows, columns = parquet.read(path, threads)
        return Loaded(rows, _stem(path), str(path), "Parquet", columns)

    return Input((path,), read)


def _text_table(path: Path, sources: Sequence[Source], separator: str) -> Input:
    chosen = table.choose(path, sources, separator)
    source, layout = chosen.source, chosen.layout

    def read(threads: int) -> Loaded:
        rows = chosen.read(threads)
        described = layout.describe()
        return Loaded(rows, _stem(path), source.label, described, layout.used(), source.member)

    return Input((path,), read)


READERS: Final = (
    ("a split in several files", _npz_folder),
    ("a NumPy archive", _npz_archive),
    ("a split in several files", _paper_split),
    ("a Parquet file", _parquet_file),
)
"""What messages call each kind of input, and the function that returns its `Input`, or None."""


def _stem(path: Path) -> str:
    """The file's name without its last endings: `my.ratings.csv.gz` is `my.ratings`."""
    name = path.name
    for packed in (".gz", ".bz2", ".xz", ".zst"):
        name = name.removesuffix(packed)
    return name.rpartition(".")[0] or path.name


@dataclass(frozen=True)
class Archive:
    """Facts of a GroupLens archive: sizes before any filter, last timestamp, MD5 of the zip."""

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
"""The last timestamps distinguish generated files with the same counts from the real ones."""


def recognise_archive(
    md5: str | None, users: int, items: int, interactions: int, last_time: float | None
) -> tuple[str, str] | None:
    """Name of the archive and how it was recognised ("md5" or "counts"); None for other data.

    The MD5 alone is not enough: the rows that were read must have the archive's sizes too.
    """
    for name, archive in ARCHIVES.items():
        if (archive.users, archive.items, archive.interactions) == (users, items, interactions):
            if archive.md5 == md5:
                return name, "md5"
            if archive.last_time == last_time:
                return name, "counts"
    return None
