"""Reading interactions from a text table with a user and an item column.

Only the columns that are used are read, so titles in any encoding do no harm. pyarrow does the
parsing; a row that it cannot parse is found again with Python's csv module, which counts lines.

A quoted value may contain a line end, which makes it slow to cut a file into blocks. Few files have
quotes, so the reader watches for them while it reads, and reads the file again, slowly, if it meets
one.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pa_csv

from ncf.errors import UserError
from ncf.readers.rows import Ratings, check_finite, number_column
from ncf.readers.sniff import Layout, SniffError, sniff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ncf.readers.ids import Ids
    from ncf.readers.rows import Codes
    from ncf.readers.sources import Source

_BLOCK_BYTES: Final = 4 << 20
_TIME_TYPES: Final = {
    "whole": (pa.int64(), pa.float64()),
    "number": (pa.float64(),),
    "date": tuple(pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")),
}
"""Types tried in turn for each kind of time column; the first that fits every row is used."""
_NO_TIME: Final = "no timestamp; fill it in or remove the column"


def choose(path: Path, sources: Sequence[Source], separator: str = "auto") -> TextTable:
    """The table to read: the file itself, or of a zip's members the largest with ratings.

    Args:
        path: the file, for messages; its name does not matter.
        sources: the streams of the file (`sources.find_sources`).
        separator: "auto", or the key of `sniff.SEPARATORS` to try alone.

    Raises:
        UserError: no stream looks like interactions.
    """
    tables = []
    reason = ""
    for source in sources:
        try:
            table = TextTable.sniffed(source, separator)
        except SniffError as error:
            reason = reason or str(error)
            continue
        tables.append(table)
    if tables:
        return max(tables, key=lambda each: (each.layout.rating is not None, each.source.size))
    if sources and sources[0].member is None:
        raise UserError(f"{path}: {reason}")
    names = ", ".join(str(source.member) for source in sources[:5]) or "nothing"
    raise UserError(f"{path}: no ratings file in this zip (it holds {names}); is it the right one?")


@dataclass(frozen=True)
class TextTable:
    """A stream of text and the layout of the table in it."""

    source: Source
    layout: Layout

    @classmethod
    def sniffed(cls, source: Source, separator: str = "auto") -> TextTable:
        """A table whose layout is judged by its first bytes; raises as `sniff` does."""
        sample, complete = source.sample()
        return cls(source, sniff(sample, complete=complete, tried=separator))

    def read(self, threads: int = 1) -> Ratings:
        """Read the table; `threads` changes the time, never the result.

        Raises:
            UserError: one line with file, line and what is wrong.
        """
        table = self._parse_columns(threads)
        if table.num_rows == 0:
            raise UserError(f"{self.source.label}: has a header and no rows")
        chunked = table.unify_dictionaries().columns
        del table
        columns: list[Any] = []
        while chunked:  # one column after another, so that only one is in memory twice
            columns.insert(0, chunked.pop().combine_chunks())
        pa.default_memory_pool().release_unused()
        times = self._times(columns.pop()) if self.layout.time is not None else None
        items, item_ids = self._ids(columns.pop(), self.layout.item)
        users, user_ids = self._ids(columns.pop(), self.layout.user)
        return Ratings(users, items, times, user_ids, item_ids)

    def place_of(self, row: int) -> str:
        """File and line of a data row, counted from 0."""
        with self.source.open() as stream:
            line, _ = next(islice(self._records(stream), row, None), (None, 0))
        return f"{self.source.label} " + (f"line {line}" if line else f"data row {row + 1}")

    def _parse_columns(self, threads: int) -> pa.Table:
        """Dictionary-encoded bytes for ids, numbers for time; times are the last column."""
        types = _TIME_TYPES.get(self.layout.time_kind, (None,))
        for time_type in types:
            table = self._parse(time_type, threads)
            if table is not None:
                return table
        # No type fits every row: read the column as text to find the first row that does not fit.
        table = self._parse(pa.string())
        if table is None or self.layout.time is None:
            raise UserError(f"{self.source.label}: cannot be read as {self.layout.describe()}")
        text = pc.ascii_trim_whitespace(table.column(2).combine_chunks())
        # Numbers are judged by the most general type, dates by the form of the first one.
        fitting = [kind for kind in types if _fits(text[:1], kind)]
        general = self.layout.time_kind != "date" or not fitting
        row = _first_misfit(text, types[-1] if general else fitting[0])
        value = text[row].as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
        problem = f"timestamp {value!r} is not a number or an ISO date" if value else _NO_TIME
        raise UserError(f"{self.place_of(row)}: {problem}")

    def _parse(self, time_type: pa.DataType | None, threads: int = 1) -> pa.Table | None:
        """Parse the file; None if the time column does not have this type throughout."""
        if not self.layout.quoted:
            try:
                with self.source.open() as stream:
                    watched = _QuoteWatcher(stream)
                    table = self._read_csv(watched, time_type, max(1, threads), _skip_blank)
            except pa.ArrowInvalid:
                pass  # read again in order: the first mistake of the file must be reported
            else:
                if not watched.quoted:
                    return table
        return self._parse_in_order(time_type)

    def _parse_in_order(self, time_type: pa.DataType | None) -> pa.Table | None:
        misfits = []

        def on_misfit(row: Any) -> str:
            decision = _skip_blank(row)
            if decision == "error":
                misfits.append(row.actual_columns)
            return decision

        with self.source.open() as stream:
            try:
                return self._read_csv(stream, time_type, 0, on_misfit)
            except pa.ArrowInvalid as error:
                reason = str(error).splitlines()[0]
        label = self.source.label
        if misfits:
            raise self._wrong_width()
        if "straddling" in reason or "sync" in reason:
            raise UserError(f"{label}: a line or quoted value longer than {_BLOCK_BYTES:,} bytes")
        if "too short" in reason or "Empty CSV" in reason:
            raise UserError(f"{label}: has a header and no rows")
        return None

    def _read_csv(
        self,
        stream: Any,
        time_type: pa.DataType | None,
        threads: int,
        on_misfit: Callable[[Any], str],
    ) -> pa.Table:
        """Read with threads where values contain no line ends; with 0 in order, where they may."""
        layout, stride = self.layout, self.layout.stride
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

    def _wrong_width(self) -> UserError:
        layout, label = self.layout, self.source.label
        expected = len(layout.columns)
        with self.source.open() as stream:
            wrong = next((row for row in self._records(stream) if row[1] != expected), None)
        if wrong is None:
            return UserError(f"{label}: a row does not have {expected} columns")
        line, width = wrong
        first = f"line {layout.skip_lines}" if layout.has_header else "the first row"
        return UserError(f"{label} line {line}: {width} columns, but {first} has {expected}")

    def _times(self, column: pa.Array) -> npt.NDArray[Any]:
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise UserError(f"{self.place_of(row)}: {_NO_TIME}")
        if pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        times: npt.NDArray[Any] = column.to_numpy()
        check_finite(times, self.place_of)
        return times

    def _ids(self, column: pa.DictionaryArray, place: int) -> tuple[Codes, Ids]:
        """Number the ids of a column, surrounding blanks removed."""
        name = self.layout.columns[place]
        codes, ids = number_column(column, name, self.place_of)
        if ids.text.min() == 0:
            bad = int(np.searchsorted(ids.offsets, np.argmin(ids.text), side="right")) - 1
            place_of_bad = self.place_of(int(np.argmax(codes == bad)))
            raise UserError(f"{place_of_bad}: NUL byte in {name}; this is not a text file")
        return codes, ids

    def _records(self, stream: IO[bytes]) -> Iterator[tuple[int, int]]:
        """First line, from 1, and width of each data row; blank lines do not count as rows."""
        text = io.TextIOWrapper(stream, "latin-1", newline="")
        # Python 3.10's reader stops at NUL bytes; they do not matter for counting.
        lines = (line.replace("\0", "") for line in text)
        reader = csv.reader(lines, delimiter=self.layout.separator[0])
        last = 0
        try:
            for fields in reader:
                line, last = last + 1, reader.line_num
                blank = not fields or (len(fields) == 1 and not fields[0].strip())
                if line <= self.layout.skip_lines or blank:
                    continue
                separators, rest = divmod(len(fields) - 1, self.layout.stride)
                yield line, len(fields) if rest else separators + 1
        except csv.Error:
            return
        finally:
            text.detach()  # the stream belongs to the caller


class _QuoteWatcher(io.RawIOBase):
    """A stream that remembers whether a quote has been read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.quoted = stream, False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self.quoted = self.quoted or b'"' in block
        return block


def _skip_blank(row: Any) -> str:
    return "error" if row.text.strip(" \t\r\n") else "skip"


def _fits(text: pa.Array, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _first_misfit(text: pa.Array, kind: pa.DataType) -> int:
    """First row whose text is not of this kind, by bisection."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(text[low:middle], kind) else (low, middle)
    return low
