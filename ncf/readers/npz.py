"""Reading interactions from NumPy archives of integer pairs, as MLPerf's expanded ml-20m has them.

An archive is either one table [n, 2 to 4] (user, item, rating, timestamp), or a given split:
arrays named train... and test..., and perhaps negatives. A folder of train*.npz and test*.npz is
one split whose parts are read one after another. Nothing is ever unpickled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ncf.errors import UserError
from ncf.readers.rows import Parts, Ratings, join_split, whole_numbers
from ncf.readers.sniff import FIRST_SECONDS
from ncf.readers.sources import reading_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Table = npt.NDArray[np.integer[Any]]


def read(path: Path) -> Ratings | Parts:
    """Read one archive: a table, or a split if its arrays are named train and test.

    Raises:
        UserError: one line with the file, the array and what is wrong.
    """
    arrays = _arrays(path)
    negatives = [array for name, array in arrays.items() if "neg" in name.lower()]
    train = [name for name in arrays if name.lower().startswith("train")]
    test = [
        name for name in arrays if name.lower().startswith("test") and "neg" not in name.lower()
    ]
    if train and test:
        tables, held_out = ([_pairs(path, n, arrays[n]) for n in names] for names in (train, test))
        return _parts(path, tables, held_out, negatives[0] if negatives else None)
    if len(arrays) != 1:
        raise UserError(
            f"{path}: holds {', '.join(arrays) or 'no arrays'}; expected one table, or train and "
            "test"
        )
    ((name, array),) = arrays.items()
    table = _pairs(path, name, array)
    if not len(table):
        raise UserError(f"{path}: array {name} has no rows")
    # Times are the fourth column, or a third that holds seconds rather than ratings.
    times = None
    if table.shape[1] == 4 or (table.shape[1] == 3 and table[:, 2].min() >= FIRST_SECONDS):
        times = table[:, -1].astype(np.int64)
    return _ratings(table, times)


def _ratings(table: Table, times: npt.NDArray[np.int64] | None = None) -> Ratings:
    users, user_ids = whole_numbers(table[:, 0])
    items, item_ids = whole_numbers(table[:, 1])
    return Ratings(users, items, times, user_ids, item_ids)


def split_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The train*.npz and test*.npz of a folder, in natural order."""
    names = sorted((path for path in folder.iterdir() if path.suffix == ".npz"), key=_natural)
    train = [path for path in names if path.name.lower().startswith("train")]
    return train, [path for path in names if path.name.lower().startswith("test")]


def read_split(train: Sequence[Path], test: Sequence[Path]) -> Parts:
    """Read a split that is spread over archives with one table each.

    Raises:
        UserError: as `read`.
    """

    def tables(paths: Sequence[Path]) -> list[Table]:
        return [
            _pairs(path, name, array) for path in paths for name, array in _arrays(path).items()
        ]

    return _parts(test[0], tables(train), tables(test), None)


def _parts(path: Path, train: list[Table], test: list[Table], negatives: Any) -> Parts:
    pairs = np.concatenate([table[:, :2] for table in train])
    held_out = np.concatenate([table[:, :2] for table in test])
    if negatives is not None:
        shape = negatives.shape
        if negatives.ndim != 2 or shape[0] != len(held_out) or negatives.dtype.kind not in "iu":
            raise UserError(
                f"{path}: negatives are {negatives.dtype} {list(shape)}, not whole numbers "
                f"[{len(held_out)}, n]"
            )
        codes, ids = whole_numbers(negatives.ravel())
        negatives = codes.reshape(shape), ids
    return join_split(_ratings(pairs), _ratings(held_out), negatives)


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    with reading_errors(str(path)):
        try:
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{path}: cannot be read as arrays of numbers ({reason})") from None


def _pairs(path: Path, name: str, array: npt.NDArray[Any]) -> Table:
    if array.ndim != 2 or not 2 <= array.shape[1] <= 4:
        raise UserError(f"{path}: array {name} is {list(array.shape)}, not [rows, 2 to 4]")
    if array.dtype.kind not in "iu":
        raise UserError(f"{path}: array {name} is {array.dtype}; ids must be whole numbers")
    return array


def _natural(path: Path) -> list[tuple[int, str]]:
    """Key that puts part_2 before part_10."""
    return [(int(digits or -1), text) for digits, text in re.findall(r"(\d+)|(\D+)", path.name)]
