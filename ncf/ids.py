"""Ids as they stood in the source: bytes, kept end to end in one array with offsets.

Ids are text, so `01` and `1` differ and 4000000000 costs no more than its ten digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


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
        own = self.text[self.offsets[index] : self.offsets[index + 1]]
        return own.tobytes().decode("utf-8", "backslashreplace")

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Ids:
        """The ids at these places, in this order."""
        starts = self.offsets[rows]
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        source = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ids(self.text[source], offsets)

    @classmethod
    def numbered(cls, n: int) -> Ids:
        """The ids 1, 2, ... n, in that order, as generated data have them."""
        width = len(str(n))
        digits = np.arange(1, n + 1).astype(f"S{width}").view(np.uint8).reshape(n, width)
        used = digits != 0  # shorter numbers are padded with zero bytes at the end
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(used.sum(axis=1), out=offsets[1:])
        return cls(digits[used], offsets)
