"""Reading interactions: any text table with a user and an item column, into numbered arrays.

Ids are read as bytes and numbered by (length, bytes): 2 before 10, and the same numbers whatever
the order of the rows. Only the columns that are used are looked at, so titles in any encoding do
no harm. pyarrow does the parsing; rows that it cannot read are found again by `line_of_row`.

A quoted value may hold a line end, which makes it slow to cut a file into blocks. Few files have
quotes at all, so it is looked for while reading and the file read again, slowly, if one is found.
"""

from __future__ import annotations

import csv
import io
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pa_csv

from ncf.errors import UserError
from ncf.readers.numbering import encoded
from ncf.readers.rows import Ratings
from ncf.readers.sniff import Layout, SniffError, sniff
from ncf.readers.sources import Source, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ncf.readers.ids import Ids

_BLOCK_BYTES: Final = 4 << 20
_TIME_TYPES: Final = {
    "whole": (pa.int64(), pa.float64()),
    "number": (pa.float64(),),
    "date": tuple(pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")),
}
"""Types tried in turn for each kind of time column; the first that fits every row is used."""
_NO_TIME: Final = "no timestamp; fill it in or remove the column"


def read(source: Source, layout: Layout, threads: int = 1) -> Ratings:
    """Read a table found by `choose`; `threads` changes the time, never the result.

    Raises:
        UserError: one line with file, line and what is wrong.
    """
    table = _table(source, layout, threads)
    if table.num_rows == 0:
        raise UserError(f"{source.label}: has a header and no rows")
    chunked = table.unify_dictionaries().columns
    del table
    columns: list[Any] = []
    while chunked:  # one column after another, so that only one is there twice
        columns.insert(0, chunked.pop().combine_chunks())
    pa.default_memory_pool().release_unused()
    times = _times(source, layout, columns.pop()) if layout.time is not None else None
    item_codes, item_ids = _numbered(source, layout, columns.pop(), layout.item)
    user_codes, user_ids = _numbered(source, layout, columns.pop(), layout.user)
    return Ratings(user_codes, item_codes, times, user_ids, item_ids)


def choose(path: Path, tried: str = "auto") -> tuple[Source, Layout]:
    """The table to read: the file itself, or of a zip's members the largest with ratings.

    Args:
        path: the file; its name does not matter.
        tried: "auto", or the only separator to try (a key of `sniff.SEPARATORS`).

    Raises:
        UserError: nothing there looks like interactions.
    """
    offered = sources(path)
    found: list[tuple[bool, int, Source, Layout]] = []
    reason = ""
    for source in offered:
        sample, complete = source.sample()
        try:
            layout = sniff(sample, complete=complete, tried=tried)
        except SniffError as error:
            reason = reason or str(error)
            continue
        found.append((layout.rating is not None, source.size, source, layout))
    if found:
        _, _, source, layout = max(found, key=lambda each: each[:2])
        return source, layout
    if offered and offered[0].member is None:
        raise UserError(f"{path}: {reason}")
    names = ", ".join(str(source.member) for source in offered[:5]) or "nothing"
    raise UserError(f"{path}: no ratings file in this zip (it holds {names}); is it the right one?")


def _table(source: Source, layout: Layout, threads: int) -> pa.Table:
    """The used columns: dictionary-encoded bytes for ids, numbers for time; times come last."""
    types = _TIME_TYPES.get(layout.time_kind, (None,))
    for time_type in types:
        table = _parse(source, layout, time_type, threads)
        if table is not None:
            return table
    # No type fits every row: read the column as text to find the first row that does not.
    table = _parse(source, layout, pa.string())
    if table is None or layout.time is None:
        raise UserError(f"{source.label}: cannot be read as {layout.describe()}")
    text = pc.ascii_trim_whitespace(table.column(2).combine_chunks())
    # Numbers are judged by the most general type, dates by the form of the first one.
    fitting = [kind for kind in types if _fits(text[:1], kind)]
    general = layout.time_kind != "date" or not fitting
    row = _first_misfit(text, types[-1] if general else fitting[0])
    value = text[row].as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    what = f"timestamp {value!r} is not a number or an ISO date" if value else _NO_TIME
    raise _at_row(source, layout, row, what)


class _Watched(io.RawIOBase):
    """A stream that remembers whether a quote has passed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.quoted = stream, False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self.quoted = self.quoted or b'"' in block
        return block


def _parse(
    source: Source, layout: Layout, time_type: pa.DataType | None, threads: int = 1
) -> pa.Table | None:
    """Read the table; None if the time column does not have this type throughout."""
    if not layout.quoted:
        try:
            with source.open() as stream:
                watched = _Watched(stream)
                table = _read_csv(watched, layout, time_type, max(1, threads), _skip_blank)
        except pa.ArrowInvalid:
            pass  # read again, in order: the first mistake of the file is the one to tell
        else:
            if not watched.quoted:
                return table
    return _parse_in_order(source, layout, time_type)


def _parse_in_order(
    source: Source, layout: Layout, time_type: pa.DataType | None
) -> pa.Table | None:
    misfits = []

    def on_misfit(row: Any) -> str:
        decision = _skip_blank(row)
        if decision == "error":
            misfits.append(row.actual_columns)
        return decision

    with source.open() as stream:
        try:
            return _read_csv(stream, layout, time_type, 0, on_misfit)
        except pa.ArrowInvalid as error:
            reason = str(error).splitlines()[0]
    if misfits:
        raise _wrong_width(source, layout)
    if "straddling" in reason or "sync" in reason:
        raise UserError(
            f"{source.label}: a line or quoted value longer than {_BLOCK_BYTES:,} bytes"
        )
    if "too short" in reason or "Empty CSV" in reason:
        raise UserError(f"{source.label}: has a header and no rows")
    return None


def _skip_blank(row: Any) -> str:
    return "error" if row.text.strip(" \t\r\n") else "skip"


def _read_csv(
    stream: Any,
    layout: Layout,
    time_type: pa.DataType | None,
    threads: int,
    on_misfit: Callable[[Any], str],
) -> pa.Table:
    """Read with some threads where values hold no line ends; with 0 in order, where they may."""
    stride = layout.stride
    names = [str(place) for place in range(stride * (len(layout.columns) - 1) + 1)]
    id_type = pa.dictionary(pa.int32(), pa.binary())
    used = {names[stride * place]: id_type for place in (layout.user, layout.item)}
    if layout.time is not None:
        used[names[stride * layout.time]] = time_type
    return pa_csv.read_csv(
        stream,
        pa_csv.ReadOptions(
            use_threads=threads > 1,
            block_size=_BLOCK_BYTES,
            column_names=names,
            skip_rows=layout.skip_lines,
        ),
        pa_csv.ParseOptions(
            delimiter=layout.separator[0],
            newlines_in_values=threads == 0,
            invalid_row_handler=on_misfit,
        ),
        pa_csv.ConvertOptions(check_utf8=False, include_columns=list(used), column_types=used),
    )


def _wrong_width(source: Source, layout: Layout) -> UserError:
    expected = len(layout.columns)
    with source.open() as stream:
        found = first_wrong_width(stream, layout)
    if found is None:
        return UserError(f"{source.label}: a row does not have {expected} columns")
    line, width = found
    first = f"line {layout.skip_lines}" if layout.has_header else "the first row"
    return UserError(f"{source.label} line {line}: {width} columns, but {first} has {expected}")


def place_of(source: Source, layout: Layout, row: int) -> str:
    """File and line of a data row, counted from 0."""
    with source.open() as stream:
        line = line_of_row(stream, layout, row)
    return f"{source.label} " + (f"line {line}" if line else f"data row {row + 1}")


def _at_row(source: Source, layout: Layout, row: int, what: str) -> UserError:
    return UserError(f"{place_of(source, layout, row)}: {what}")


def _times(source: Source, layout: Layout, column: pa.Array) -> npt.NDArray[Any]:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise _at_row(source, layout, row, _NO_TIME)
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    times: npt.NDArray[Any] = column.to_numpy()
    if times.dtype.kind == "f" and not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise _at_row(source, layout, row, f"timestamp {times[row]} is not finite")
    return times


def _numbered(
    source: Source, layout: Layout, column: pa.DictionaryArray, place: int
) -> tuple[npt.NDArray[np.int32], Ids]:
    """Number the ids by (length, bytes), surrounding blanks removed; empty ones are refused."""
    codes, ids = encoded(column)
    name = layout.columns[place]
    if ids.offsets[1] == 0:
        raise _at_row(source, layout, int(np.argmax(codes == 0)), f"empty id in {name}")
    if ids.text.min() == 0:
        bad = int(np.searchsorted(ids.offsets, np.argmin(ids.text), side="right")) - 1
        row = int(np.argmax(codes == bad))
        raise _at_row(source, layout, row, f"NUL byte in {name}; this is not a text file")
    return codes, ids


def _fits(text: pa.Array, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _first_misfit(text: pa.Array, kind: pa.DataType) -> int:
    """First row whose text is not of this kind, by halving."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(text[low:middle], kind) else (low, middle)
    return low


def line_of_row(stream: IO[bytes], layout: Layout, row: int) -> int | None:
    """Line, from 1, on which data row number `row`, from 0, begins; None if it cannot be told."""
    for number, (line, _) in enumerate(_records(stream, layout)):
        if number == row:
            return line
    return None


def first_wrong_width(stream: IO[bytes], layout: Layout) -> tuple[int, int] | None:
    """Line and number of columns of the first row whose width is not the layout's."""
    for line, width in _records(stream, layout):
        if width != len(layout.columns):
            return line, width
    return None


def _records(stream: IO[bytes], layout: Layout) -> Iterator[tuple[int, int]]:
    """First line and width of each data row; blank lines are no rows."""
    text = io.TextIOWrapper(stream, "latin-1", newline="")
    # Python 3.10's reader stops at NUL bytes; they do not matter for counting.
    lines = (line.replace("\0", "") for line in text)
    reader = csv.reader(lines, delimiter=layout.separator[0])
    last = 0
    try:
        for fields in reader:
            line, last = last + 1, reader.line_num
            blank = not fields or (len(fields) == 1 and not fields[0].strip())
            if line <= layout.skip_lines or blank:
                continue
            separators, rest = divmod(len(fields) - 1, layout.stride)
            yield line, len(fields) if rest else separators + 1
    except csv.Error:
        return
    finally:
        text.detach()  # the stream belongs to the caller
