"""Ids as the source writes them: bytes, concatenated in one array with offsets.

Ids are text, so `01` and `1` differ and 4000000000 costs no more than its ten digits.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_EXAMPLES = 5
_NEAR_LENGTH = 2  # bytes by which a similar id may be longer or shorter
_NEAR_MOST = 20_000  # ids compared: a message must not wait for millions


@dataclass(frozen=True)
class Ids:
    """Id number i is `text[offsets[i]:offsets[i + 1]]`; text is uint8, offsets int64 [n + 1]."""

    text: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def text_of(self, index: int) -> str:
        """One id as text; bytes that are not UTF-8 show as backslash escapes."""
        if not 0 <= index < len(self):
            raise IndexError(f"{index} is not between 0 and {len(self) - 1}")
        return self.bytes_of(index).decode("utf-8", "backslashreplace")

    def bytes_of(self, index: int) -> bytes:
        """One id as the source writes it."""
        return self.text[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def examples(self, indices: npt.NDArray[np.integer[Any]]) -> list[str]:
        """The first 5 of these ids as text, to be named in a message about many."""
        return [self.text_of(int(index)) for index in indices[:_EXAMPLES]]

    def find(self, text: str) -> int | None:
        """The number of an id, compared byte by byte; None if there is no such id."""
        encoded = text.encode("utf-8", "surrogateescape")
        rows = np.flatnonzero(np.diff(self.offsets) == len(encoded))
        for place, byte in enumerate(encoded):
            rows = rows[self.text[self.offsets[rows] + place] == byte]
        return int(rows[0]) if len(rows) else None

    def near(self, text: str, n: int = 3) -> list[str]:
        """Ids for a did-you-mean: equal but for case, blanks and leading zeros, else similar."""
        plain = _plain(text)
        close = np.flatnonzero(np.abs(np.diff(self.offsets) - len(text.encode())) <= _NEAR_LENGTH)
        names = [self.text_of(int(row)) for row in close[:_NEAR_MOST]]
        alike = [name for name in names if _plain(name) == plain]
        return alike[:n] or difflib.get_close_matches(text, names, n=n, cutoff=0.6)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Ids:
        """The ids with these numbers, in this order."""
        starts = self.offsets[rows]
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        source = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ids(self.text[source], offsets)

    @classmethod
    def numbered(cls, n: int) -> Ids:
        """The ids 1, 2, ... n, in that order, for generated data."""
        width = len(str(n))
        digits = np.arange(1, n + 1).astype(f"S{width}").view(np.uint8).reshape(n, width)
        used = digits != 0  # shorter numbers are padded with zero bytes at the end
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(used.sum(axis=1), out=offsets[1:])
        return cls(digits[used], offsets)


def _plain(text: str) -> str:
    return text.strip().casefold().lstrip("0")
