"""Numbered rows, as every reader returns them, and how ids get their numbers.

Distinct ids are numbered ascending by (length, bytes), so 2 comes before 10. The numbers depend on
the set of ids alone, not on the order of rows, chunks or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ncf.errors import UserError
from ncf.readers.ids import Ids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ratings:
    """Interactions in file order.

    `users` and `items` [n] number `user_ids` and `item_ids`; `times` [n] is int64 or float64, or
    None where the table has no such column.
    """

    users: Codes
    items: Codes
    times: npt.NDArray[Any] | None
    user_ids: Ids
    item_ids: Ids


@dataclass(frozen=True)
class Parts:
    """The rows of a split that came with the data.

    `train_users`, `train_items` [n_train]; `test_users`, `test_items` [n_test]; `negatives`
    [n_test, n] items, or None. All are numbers of `user_ids` and `item_ids`.
    """

    train_users: Codes
    train_items: Codes
    test_users: Codes
    test_items: Codes
    negatives: Codes | None
    user_ids: Ids
    item_ids: Ids


def numbered(texts: pa.Array) -> tuple[Codes, Ids]:
    """Number texts (binary or string [n]) that may repeat; surrounding blanks do not count.

    Returns:
        The number of each text [n], and the distinct ids.
    """
    plain = texts.cast(pa.binary()).view(pa.string())  # a view: bytes need not be UTF-8
    trimmed = pc.ascii_trim_whitespace(plain).dictionary_encode()
    unique = trimmed.dictionary
    keys = pa.table({"length": pc.binary_length(unique), "id": unique.view(pa.binary())})
    order = pc.sort_indices(keys, sort_keys=[("length", "ascending"), ("id", "ascending")])
    number = np.empty(len(unique), np.int32)
    number[order.to_numpy()] = np.arange(len(unique), dtype=np.int32)
    return number[trimmed.indices.to_numpy()], _ids(unique.take(order))


def encoded(column: pa.DictionaryArray) -> tuple[Codes, Ids]:
    """Number a dictionary-encoded column without nulls; integers count as their digits."""
    texts = column.dictionary
    if pa.types.is_integer(texts.type):
        texts = texts.cast(pa.string())
    number, ids = numbered(texts)
    return number[column.indices.to_numpy()], ids


def number_column(
    column: pa.DictionaryArray, name: str, place_of: Callable[[int], str]
) -> tuple[Codes, Ids]:
    """Number the ids of a table's column as `encoded` does.

    Args:
        column: dictionary-encoded ids [n] without nulls.
        name: the column's name, for messages.
        place_of: file and line of a row, for messages.

    Raises:
        UserError: an id is empty.
    """
    codes, ids = encoded(column)
    if ids.offsets[1] == 0:
        raise UserError(f"{place_of(int(np.argmax(codes == 0)))}: empty id in {name}")
    return codes, ids


def check_finite(times: npt.NDArray[Any], place_of: Callable[[int], str]) -> None:
    """Raise a UserError that names the first infinite or undefined timestamp."""
    if times.dtype.kind == "f" and not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise UserError(f"{place_of(row)}: timestamp {times[row]} is not finite")


def whole_numbers(values: npt.NDArray[np.integer[Any]]) -> tuple[Codes, Ids]:
    """Number integer ids of any size and sign."""
    return encoded(pa.array(values).dictionary_encode())


def join_split(train: Ratings, test: Ratings, negatives: tuple[Codes, Ids] | None) -> Parts:
    """One split from two halves and its negatives ([n_test, n] and their ids), each numbered."""
    user_maps, user_ids = merged([train.user_ids, test.user_ids])
    negative_ids = [] if negatives is None else [negatives[1]]
    item_maps, item_ids = merged([train.item_ids, test.item_ids, *negative_ids])
    return Parts(
        user_maps[0][train.users],
        item_maps[0][train.items],
        user_maps[1][test.users],
        item_maps[1][test.items],
        None if negatives is None else item_maps[2][negatives[0]],
        user_ids,
        item_ids,
    )


def merged(parts: Sequence[Ids]) -> tuple[list[Codes], Ids]:
    """One numbering for several: the new number of each old one, part by part, and all ids."""
    texts = [
        pa.Array.from_buffers(
            pa.large_binary(),
            len(part),
            [None, pa.py_buffer(part.offsets), pa.py_buffer(part.text)],
        )
        for part in parts
    ]
    number, ids = numbered(pa.concat_arrays(texts))
    return np.split(number, np.cumsum([len(part) for part in parts])[:-1]), ids


def _ids(strings: pa.StringArray) -> Ids:
    _, offsets, text = strings.buffers()
    bounds = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    content = np.frombuffer(text, np.uint8) if text else np.zeros(0, np.uint8)
    return Ids(content[bounds[0] : bounds[-1]].copy(), bounds.astype(np.int64) - int(bounds[0]))
