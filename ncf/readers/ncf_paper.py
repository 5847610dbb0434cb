"""Reading the NCF paper's three files: NAME.train.rating, NAME.test.rating, NAME.test.negative.

The first two are ratings files without a header. A line of the third is `(user,item)` and that test
row's sampled negatives, separated by tabs; they are kept as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ncf.errors import UserError
from ncf.readers.rows import join_split, numbered
from ncf.readers.sniff import SniffError
from ncf.readers.sources import Source, find_sources
from ncf.readers.table import TextTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ncf.readers.ids import Ids
    from ncf.readers.rows import Codes, Parts, Ratings

TRAIN: Final = ".train.rating"
TEST: Final = ".test.rating"
NEGATIVE: Final = ".test.negative"
_ENDINGS: Final = (TRAIN, TEST, NEGATIVE)
_PAIR: Final = re.compile(rb"\(\s*([^,()\s]+)\s*,\s*([^,()\s]+)\s*\)\Z")


@dataclass(frozen=True)
class Triple:
    """The files of one split; `negative` may be absent."""

    train: Source
    test: Source
    negative: Source | None

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths that are read: three, two, or the one of the zip."""
        parts = (self.train, self.test, self.negative)
        return tuple(dict.fromkeys(part.path for part in parts if part is not None))

    def place_of_test_row(self, row: int) -> str:
        """File and line of a test row, counted from 0."""
        return _table(self.test).place_of(row)


def find_triple(path: Path, members: Sequence[Source]) -> Triple | None:
    """The triple in a folder, among a zip's members, or that a file belongs to; or None.

    Raises:
        UserError: there are several, or one is not complete.
    """
    if path.is_dir():
        sources = _files_in(path)
    elif path.name.endswith(_ENDINGS):
        stem = path.name
        for ending in _ENDINGS:
            stem = stem.removesuffix(ending)
        return _triple(str(path), stem, _files_in(path.parent))
    else:
        sources = {PurePath(source.member or "").name: source for source in members}
    stems = sorted({name.removesuffix(TRAIN) for name in sources if name.endswith(TRAIN)})
    if len(stems) > 1:
        listed = ", ".join(stems[:5])
        raise UserError(f"{path}: holds several splits ({listed}); give one {TRAIN} file")
    return _triple(str(path), stems[0], sources) if stems else None


def _files_in(folder: Path) -> dict[str, Source]:
    return {
        path.name: find_sources(path)[0]
        for path in folder.iterdir()
        if path.is_file() and path.name.endswith(_ENDINGS)
    }


def _triple(label: str, stem: str, sources: dict[str, Source]) -> Triple:
    for ending in (TRAIN, TEST):
        if stem + ending not in sources:
            raise UserError(f"{label}: {stem}{ending} is missing, so the split is incomplete")
    return Triple(sources[stem + TRAIN], sources[stem + TEST], sources.get(stem + NEGATIVE))


def read(triple: Triple, threads: int) -> Parts:
    """Read the files; their ids share one numbering.

    Raises:
        UserError: one line with file, line and what is wrong.
    """
    train, test = (_table(source).read(threads) for source in (triple.train, triple.test))
    negatives = None if triple.negative is None else _negatives(triple.negative, test)
    return join_split(train, test, negatives)


def _table(source: Source) -> TextTable:
    try:
        return TextTable.sniffed(source)
    except SniffError as error:
        raise UserError(f"{source.label}: {error}") from None


def _negatives(source: Source, test: Ratings) -> tuple[Codes, Ids]:
    """Item numbers [n_test, n], in the order of the test rows, and the ids they number."""
    row_of = {
        (test.user_ids.bytes_of(user), test.item_ids.bytes_of(item)): row
        for row, (user, item) in enumerate(zip(test.users, test.items, strict=True))
    }
    rows: list[int] = []
    words: list[bytes] = []
    width = None
    with source.open() as stream:
        for number, line in enumerate(stream, 1):
            head, *items = line.split()
            place = f"{source.label} line {number}"
            shown = head.decode("utf-8", "backslashreplace")
            pair = _PAIR.match(head)
            if not pair:
                raise UserError(f"{place}: begins with {shown!r:.40}, not with (user,item)")
            row = row_of.pop((pair[1], pair[2]), None)
            if row is None:
                raise UserError(f"{place}: {shown} is not a test row, or is there twice")
            width = len(items) if width is None else width
            if len(items) != width or not items:
                raise UserError(f"{place}: {len(items)} negatives, but line 1 has {width}")
            rows.append(row)
            words += items
    if row_of:
        (user, item), row = next(iter(row_of.items()))
        shown = f"({user.decode(errors='replace')},{item.decode(errors='replace')})"
        raise UserError(f"{source.label}: no negatives for test row {row + 1}, {shown}")
    encoded = pa.array(words, pa.binary()).dictionary_encode()
    number_of, ids = numbered(encoded.dictionary)
    table = np.empty((len(rows), width or 0), np.int32)
    table[rows] = number_of[encoded.indices.to_numpy()].reshape(len(rows), -1)
    return table, ids
