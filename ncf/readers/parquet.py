"""Reading interactions from Parquet: the used columns only, found by name like those of a CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ncf.errors import UserError
from ncf.readers.rows import Ratings, check_finite, number_column
from ncf.readers.sniff import (
    ITEM_NAMES,
    TIME_NAMES,
    USER_NAMES,
    SniffError,
    find_column,
    missing_column,
)
from ncf.readers.sources import reading_errors

if TYPE_CHECKING:
    from pathlib import Path

    from ncf.readers.ids import Ids
    from ncf.readers.rows import Codes


def read(path: Path, threads: int) -> tuple[Ratings, dict[str, str | None]]:
    """Read a file; also the names of the columns that were used.

    Raises:
        UserError: one line with the file and what is wrong, with the row where there is one.
    """
    with reading_errors(str(path)):
        try:
            return _read(path, threads)
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{path}: not readable as Parquet ({reason})") from None


def _read(path: Path, threads: int) -> tuple[Ratings, dict[str, str | None]]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        try:
            user, item = find_column(names, USER_NAMES), find_column(names, ITEM_NAMES)
            time = find_column(names, TIME_NAMES)
        except SniffError as error:
            raise UserError(f"{path}: {error}") from None
        if user is None or item is None:
            raise UserError(f"{path}: {missing_column(names)}")
        used = [names[place] for place in (user, item, time) if place is not None]
        table = file.read(columns=used, use_threads=threads > 1)
    if table.num_rows == 0:
        raise UserError(f"{path}: has no rows")
    if table.column_names != used and set(table.column_names) != set(used):
        raise UserError(f"{path}: columns {used!r} are nested; ids must be numbers or text")
    users, user_ids = _ids(path, table.column(used[0]), used[0])
    items, item_ids = _ids(path, table.column(used[1]), used[1])
    times = None if time is None else _times(path, table.column(used[2]), used[2])
    columns = {"user": used[0], "item": used[1], "timestamp": used[2] if time is not None else None}
    return Ratings(users, items, times, user_ids, item_ids), columns


def _ids(path: Path, column: pa.ChunkedArray, name: str) -> tuple[Codes, Ids]:
    column, kind = _plain(column)
    if pa.types.is_floating(kind):  # whole numbers that pandas turned into floats
        _refuse_nulls(path, column, name, "no id")
        values = column.to_numpy()
        whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2.0**53)
        if not whole.all():
            row = int(np.argmin(whole))
            raise UserError(
                f"{path} row {row + 1}: id {values[row]} in {name} is not a whole number"
            )
        column, kind = pa.chunked_array([pa.array(values.astype(np.int64))]), pa.int64()
    text = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_text(kind)
    if not (pa.types.is_integer(kind) or text):
        raise UserError(f"{path}: ids in {name} are {kind}; they must be numbers or text")
    _refuse_nulls(path, column, name, "no id")
    single = column.dictionary_encode().unify_dictionaries().combine_chunks()
    return number_column(single, name, lambda row: f"{path} row {row + 1}")


def _times(path: Path, column: pa.ChunkedArray, name: str) -> npt.NDArray[Any]:
    _refuse_nulls(path, column, name, "no timestamp")
    column, kind = _plain(column)
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms")).cast(pa.int64())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_decimal(kind) or kind == pa.uint64():
        column = column.cast(pa.float64())
    elif _is_text(kind):
        column = _parsed(path, column.combine_chunks(), name)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise UserError(f"{path}: times in {name} are {kind}; they must be numbers or dates")
    times: npt.NDArray[Any] = column.to_numpy()
    check_finite(times, lambda row: f"{path} row {row + 1}")
    return times.astype(np.int64) if times.dtype.kind in "iu" else times.astype(np.float64)


def _plain(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.DataType]:
    """A column without dictionary encoding, and the type of its values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column, column.type


def _parsed(path: Path, texts: pa.Array, name: str) -> pa.Array:
    """Times stored as text: numbers, else ISO dates."""
    texts = pc.utf8_trim_whitespace(texts)
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            column = texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        return column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column
    raise UserError(f"{path}: times in {name} are text, and not all numbers or all ISO dates")


def _refuse_nulls(path: Path, column: pa.ChunkedArray, name: str, what: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise UserError(f"{path} row {row + 1}: {what} in {name}")


def _is_text(kind: pa.DataType) -> bool:
    views = (getattr(pa, name)() for name in ("string_view", "binary_view") if hasattr(pa, name))
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind in list(views)
