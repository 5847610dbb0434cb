"""Reading the NCF paper's three files: NAME.train.rating, NAME.test.rating, NAME.test.negative.

The first two are ratings files without header. A line of the third is `(user,item)` and that test
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
from ncf.readers import rows
from ncf.readers import table as ratings
from ncf.readers.numbering import merged, numbered
from ncf.readers.rows import Codes, Parts
from ncf.readers.sniff import Layout, SniffError, sniff
from ncf.readers.sources import Source, sources

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ncf.readers.ids import Ids

TRAIN: Final = ".train.rating"
TEST: Final = ".test.rating"
NEGATIVE: Final = ".test.negative"
_PAIR: Final = re.compile(rb"\(\s*([^,()\s]+)\s*,\s*([^,()\s]+)\s*\)\Z")


@dataclass(frozen=True)
class Triple:
    """The files of one split; `negative` may be absent."""

    train: Source
    test: Source
    negative: Source | None


def is_part(name: str) -> bool:
    """Whether a file's name is that of one of the three."""
    return name.endswith((TRAIN, TEST, NEGATIVE))


def beside(path: Path) -> Triple:
    """The triple that a file belongs to.

    Raises:
        UserError: the training or the test file is not there.
    """
    stem = path.name
    for ending in (TRAIN, TEST, NEGATIVE):
        stem = stem.removesuffix(ending)
    return _triple(str(path), stem, _files(path.parent.iterdir()))


def within(offered: Iterable[Source], label: str) -> Triple | None:
    """The triple among a zip's members, or None.

    Raises:
        UserError: there are several, or one is not complete.
    """
    by_name = {PurePath(source.member or "").name: source for source in offered}
    return _only(label, by_name)


def inside(folder: Path) -> Triple | None:
    """The triple in a folder, or None; raises as `within`."""
    return _only(str(folder), _files(folder.iterdir()))


def read(triple: Triple, threads: int) -> Parts:
    """Read the files; their ids share one numbering.

    Raises:
        UserError: one line with file, line and what is wrong.
    """
    tables = [
        ratings.read(source, _layout(source), threads) for source in (triple.train, triple.test)
    ]
    train, test = tables
    user_maps, user_ids = merged([train.user_ids, test.user_ids])
    item_lists = [train.item_ids, test.item_ids]
    codes = None
    if triple.negative is not None:
        codes, negative_ids = _negatives(triple.negative, test)
        item_lists.append(negative_ids)
    item_maps, item_ids = merged(item_lists)
    return Parts(
        user_maps[0][train.users],
        item_maps[0][train.items],
        user_maps[1][test.users],
        item_maps[1][test.items],
        None if codes is None else item_maps[2][codes],
        user_ids,
        item_ids,
    )


def place_of(triple: Triple, row: int) -> str:
    """File and line of a test row, counted from 0."""
    return ratings.place_of(triple.test, _layout(triple.test), row)


def _layout(source: Source) -> Layout:
    sample, complete = source.sample()
    try:
        return sniff(sample, complete=complete)
    except SniffError as error:
        raise UserError(f"{source.label}: {error}") from None


def _negatives(source: Source, test: rows.Ratings) -> tuple[Codes, Ids]:
    """Item numbers [n_test, n], in the order of the test rows, and the ids they number."""
    row_of = {
        (_plain(test.user_ids, user), _plain(test.item_ids, item)): row
        for row, (user, item) in enumerate(zip(test.users, test.items, strict=True))
    }
    rows: list[int] = []
    words: list[bytes] = []
    width = None
    with source.open() as stream:
        for number, line in enumerate(stream, 1):
            head, *items = line.split()
            place = f"{source.label} line {number}"
            pair = _PAIR.match(head)
            if not pair:
                shown = head.decode("utf-8", "backslashreplace")
                raise UserError(f"{place}: begins with {shown!r:.40}, not with (user,item)")
            row = row_of.pop((pair[1], pair[2]), None)
            if row is None:
                shown = head.decode("utf-8", "backslashreplace")
                raise UserError(f"{place}: {shown} is no test row, or is there twice")
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


def _plain(ids: Ids, index: int) -> bytes:
    return ids.text[ids.offsets[index] : ids.offsets[index + 1]].tobytes()


def _files(paths: Iterable[Path]) -> dict[str, Source]:
    return {path.name: sources(path)[0] for path in paths if path.is_file() and is_part(path.name)}


def _only(label: str, by_name: dict[str, Source]) -> Triple | None:
    stems = sorted({name.removesuffix(TRAIN) for name in by_name if name.endswith(TRAIN)})
    if len(stems) > 1:
        found = ", ".join(stems[:5])
        raise UserError(f"{label}: holds several splits ({found}); give one {TRAIN} file")
    return _triple(label, stems[0], by_name) if stems else None


def _triple(label: str, stem: str, by_name: dict[str, Source]) -> Triple:
    for ending in (TRAIN, TEST):
        if stem + ending not in by_name:
            raise UserError(f"{label}: {stem}{ending} is not beside it, so there is no split")
    return Triple(by_name[stem + TRAIN], by_name[stem + TEST], by_name.get(stem + NEGATIVE))
