"""The layout of a text table, judged by its first kilobytes: separator, header, columns.

The name of a file says little (`.dat`, `.data`, `.txt`, `.csv` with semicolons), so it is not
used. A header is matched by name, whatever its case, quotes, blanks or byte order mark; a
table without one must begin with two columns of whole numbers, as those of MovieLens do. Pure.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SEPARATORS: Final = {"tsv": "\t", "dat": "::", "csv": ",", "semicolon": ";", "pipe": "|"}
"""Separators by their names in `--format`, in the order in which they are tried."""

_NAMES: Final = {"\t": "tab", "::": "::", ",": "comma", ";": "semicolon", "|": "|"}

USER_NAMES: Final = (
    *("userid", "user", "uid", "users", "customerid", "customer", "reviewerid", "visitorid"),
    *("memberid", "accountid", "profileid", "personid", "playerid", "listenerid"),
)
ITEM_NAMES: Final = (
    *("itemid", "item", "iid", "items", "movieid", "movie", "productid", "product"),
    *("asin", "parentasin", "sku", "isbn", "bookid", "book", "artistid", "artist", "trackid"),
    *("track", "songid", "song", "gameid", "game", "businessid", "business", "articleid"),
    *("newsid", "animeid", "recipeid", "venueid", "poiid", "videoid", "showid"),
)
TIME_NAMES: Final = (
    *("timestamp", "time", "ts", "datetime", "date", "unixtime", "unixreviewtime"),
    *("reviewtime", "eventtime", "createdat", "ratedat"),
)
RATING_NAMES: Final = ("rating", "ratings", "score", "stars", "overall")

_INTER_TYPES: Final = (":token", ":float", ":token_seq", ":float_seq")
_SAMPLE_ROWS: Final = 50
_WHOLE: Final = re.compile(r"[+-]?\d+$")
_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d*)?([eE][+-]?\d+)?$")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
FIRST_SECONDS: Final = 100_000_000
"""A third column of whole numbers from here on (1973) has seconds, below it ratings."""


class SniffError(ValueError):
    """The sample is not a table of interactions; the message says why."""


@dataclass(frozen=True)
class Layout:
    """How to read a table. Columns are numbers from 0; `time` and `rating` may be absent.

    `quoted`: the sample has a quote, so a value may contain a line end.
    """

    separator: str
    columns: tuple[str, ...]
    skip_lines: int
    user: int
    item: int
    time: int | None
    rating: int | None
    time_kind: str
    inter: bool = False
    quoted: bool = False

    @property
    def has_header(self) -> bool:
        """Whether the first line names the columns."""
        return self.skip_lines > 0

    @property
    def stride(self) -> int:
        """Fields from one column to the next: `a::b` is a, nothing, b between single colons."""
        return len(self.separator)

    def used(self) -> dict[str, str | None]:
        """Names of the columns that are read."""
        time = None if self.time is None else self.columns[self.time]
        return {"user": self.columns[self.user], "item": self.columns[self.item], "timestamp": time}

    def describe(self) -> str:
        """The format in words."""
        if self.inter:
            return "RecBole .inter"
        header = "with header" if self.has_header else "no header"
        return f"{_NAMES[self.separator]}-separated, {header}"


def sniff(sample: bytes, *, complete: bool, tried: str = "auto") -> Layout:
    """Judge the beginning of a table.

    Args:
        sample: the first bytes.
        complete: whether they are all there is; otherwise the last line may be cut off.
        tried: "auto", or a key of `SEPARATORS` to try no other.

    Raises:
        SniffError: empty, binary, UTF-16, one column, or no user and item column.
    """
    lines = _text(sample, complete=complete)
    separators = list(SEPARATORS.values()) if tried == "auto" else [SEPARATORS[tried]]
    tables = {separator: _rows(lines, separator) for separator in separators}
    wide = {s: rows for s, rows in tables.items() if rows and len(rows[0][1]) > 1}
    for layout_of in (_with_header, _without_header):
        for separator, rows in wide.items():
            layout = layout_of(separator, rows)
            if layout:
                return replace(layout, quoted='"' in lines)
    if not wide:
        said = ", ".join(_NAMES[separator] for separator in separators)
        first = lines.strip().splitlines()[0]
        raise SniffError(
            f"only one column found (separators tried: {said}); it begins {first!r:.80}"
        )
    rows = max(wide.values(), key=lambda rows: len(rows[0][1]))
    header = rows[0][1]
    raise SniffError(
        f"{missing_column(header, 'the header ')} (without a header the first two columns must be "
        "whole numbers)"
    )


def _text(sample: bytes, *, complete: bool) -> str:
    """The sample as text, one character a byte, byte order mark and cut-off last line removed."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SniffError("UTF-16 text; save it as UTF-8")
    if b"\0" in sample:
        raise SniffError("not a text file (it has NUL bytes)")
    text = sample.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    if not complete:
        end = max(text.rfind("\n"), text.rfind("\r"))
        if end < 0:
            raise SniffError(f"no end of line in the first {len(sample):,} bytes")
        text = text[: end + 1]
    if not text.strip():
        raise SniffError("is empty")
    return text


def _rows(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """The first rows with the line on which each ends; [] if the separator does not fit."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator[0])
    rows = []
    try:
        for row in reader:
            if any(field.strip() for field in row):
                rows.append((reader.line_num, row))
            if len(rows) == _SAMPLE_ROWS:
                break
    except csv.Error:
        return []
    if separator == "::":
        if any(any(row[1::2]) or len(row) % 2 == 0 for _, row in rows):
            return []
        rows = [(line, row[::2]) for line, row in rows]
    return [(line, [field.strip().strip("\"'").strip() for field in row]) for line, row in rows]


def _with_header(separator: str, rows: list[tuple[int, list[str]]]) -> Layout | None:
    line, header = rows[0]
    inter = separator == "\t" and all(name.endswith(_INTER_TYPES) for name in header)
    user, item = find_column(header, USER_NAMES), find_column(header, ITEM_NAMES)
    if user is None or item is None:
        return None
    time = find_column(header, TIME_NAMES)
    return Layout(
        separator=separator,
        columns=tuple(
            name.encode("latin-1").decode("utf-8", "backslashreplace") for name in header
        ),
        skip_lines=line,
        user=user,
        item=item,
        time=time,
        rating=find_column(header, RATING_NAMES),
        time_kind=_time_kind([row for _, row in rows[1:]], time),
        inter=inter,
    )


def _without_header(separator: str, rows: list[tuple[int, list[str]]]) -> Layout | None:
    width = len(rows[0][1])
    table = [row for _, row in rows if len(row) == width]  # a row of another width is found later
    if not all(_WHOLE.match(row[0]) and _WHOLE.match(row[1]) for row in table):
        return None
    if not all(_NUMBER.match(field) for row in table for field in row[2:3]):
        return None
    time: int | None = None
    if width >= 4 and all(_NUMBER.match(row[3]) or _DATE.match(row[3]) for row in table[:1]):
        time = 3
    elif width == 3 and all(_WHOLE.match(row[2]) and int(row[2]) >= FIRST_SECONDS for row in table):
        time = 2
    return Layout(
        separator=separator,
        columns=tuple(f"column {place + 1}" for place in range(width)),
        skip_lines=0,
        user=0,
        item=1,
        time=time,
        rating=2 if width >= 3 and time != 2 else None,
        time_kind=_time_kind(table, time),
    )


def find_column(header: Sequence[str], names: tuple[str, ...]) -> int | None:
    """Place of the first of these names that the header has; case, blanks and `_` do not count."""
    plain = [re.sub(r"[\s_.-]", "", name.lower().partition(":")[0]) for name in header]
    for name in names:
        if plain.count(name) > 1:
            raise SniffError(f"two columns are named {name} in the header {header!r}")
        if name in plain:
            return plain.index(name)
    return None


def missing_column(header: Sequence[str], where: str = "") -> str:
    """Why a header without a user or an item column cannot be used."""
    has_user = find_column(header, USER_NAMES) is not None
    kind, names = ("item", ITEM_NAMES[:4]) if has_user else ("user", USER_NAMES[:4])
    return f"no {kind} column in {where}{header!r}; name one {', '.join(names)}, ..."


def _time_kind(rows: list[list[str]], time: int | None) -> str:
    """`none`, `whole`, `number` or `date`, by the first value that is a number or a date."""
    if time is None:
        return "none"
    values = [row[time] for row in rows if len(row) > time and row[time]]
    kinds = [_NUMBER.match(value) for value in values if _NUMBER.match(value) or _DATE.match(value)]
    if kinds and kinds[0] is None:
        return "date"
    return "number" if any(kind and kind[1] for kind in kinds) else "whole"
