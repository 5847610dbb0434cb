"""Numbering ids: distinct texts ascending by (length, bytes), so 2 comes before 10.

The numbers depend on the set of ids alone, not on the order of rows, chunks or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ncf.readers.ids import Ids

if TYPE_CHECKING:
    from collections.abc import Sequence

Codes = npt.NDArray[np.int32]


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
    """Number a dictionary-encoded column without nulls; whole numbers count as their digits."""
    texts = column.dictionary
    if pa.types.is_integer(texts.type):
        texts = texts.cast(pa.string())
    number, ids = numbered(texts)
    return number[column.indices.to_numpy()], ids


def whole_numbers(values: npt.NDArray[np.integer[Any]]) -> tuple[Codes, Ids]:
    """Number integer ids of any size and sign."""
    return encoded(pa.array(values).dictionary_encode())


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
    own = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    content = np.frombuffer(text, np.uint8) if text else np.zeros(0, np.uint8)
    return Ids(content[own[0] : own[-1]].copy(), own.astype(np.int64) - int(own[0]))
