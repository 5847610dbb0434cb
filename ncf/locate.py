"""Finding the line of a row that cannot be read. Slow and simple: it runs once, before an error."""

from __future__ import annotations

import csv
import io
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncf.sniff import Layout


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
