"""Bad tables of ratings: each is one line that names the file and the place in it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from rating_tables import ML_20M, UTF8_BOM, make_zip, pairs, read, read_bytes

from ncf.errors import UserError


def problem(tmp_path: Path, content: bytes, tried: str = "auto") -> str:
    """The one line that a bad file earns; it must name the file."""
    with pytest.raises(UserError) as caught:
        read_bytes(tmp_path, content, tried)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(tmp_path / "table"))
    return message.removeprefix(str(tmp_path / "table"))


HEADER = b"user,item,rating,timestamp\n"
BAD = {
    "empty": (b"", ": is empty"),
    "blank": (b"\n \r\n\n", ": is empty"),
    "only a mark": (UTF8_BOM, ": is empty"),
    "header only": (HEADER, ": has a header and no rows"),
    "header only, no newline": (HEADER.strip(), ": has a header and no rows"),
    "header and blanks": (HEADER + b"\n\n", ": has a header and no rows"),
    "one column": (b"1\n2\n", "only one column found (separators tried: tab, ::, comma, semicolon"),
    "one word": (b"hello", "only one column found"),
    "blanks between": (b"1 10 3 881250949\n", "it begins '1 10 3 881250949'"),
    "no user column": (b"a,item\n1,2\n", ": no user column in the header ['a', 'item']"),
    "no item column": (b"user,b\n1,2\n", ": no item column in the header ['user', 'b']"),
    "a mark inside": (b"\xc2\xa0user\xe2\x80\x8b,item\n1,2\n", "no user column in the header ["),
    "same name twice": (b"user,item,User\n1,2,3\n", "two columns are named user"),
    "text without header": (b"u1,i1,3\nu2,i2,4\n", "first two columns must be whole numbers"),
    "UTF-16": ("user,item\n1,2\n".encode("utf-16"), ": UTF-16 text; save it as UTF-8"),
    "UTF-16 big": (b"\xfe\xff" + "user,item\n".encode("utf-16-be"), ": UTF-16 text"),
    "binary": (bytes(range(256)) * 9, ": not a text file (it has NUL bytes)"),
    "NUL late": (HEADER + b"1,2,3,4\n" * 9999 + b"1\0,2,3,4\n", " line 10001: NUL byte in user"),
    "PDF-like line": (b"%PDF" + b"x" * 70_000, ": no end of line in the first 65,536 bytes"),
    "too few columns": (HEADER + b"1,2,3,4\n\n1,2,3\n", " line 4: 3 columns, but line 1 has 4"),
    "too many columns": (HEADER + b"1,2,3,4\n1,2,3,4,5\n", " line 3: 5 columns, but line 1 has 4"),
    "mixed separators": (HEADER + b"1,2,3,4\n1;2;3;4\n", " line 3: 1 columns, but line 1 has 4"),
    "wide later": (b"1\t2\t3\t4\n" * 9 + b"1\t2\n", " line 10: 2 columns, but the first row has 4"),
    "wide dat": (b"1::2::3::4\n" * 2 + b"1::2::3\n", " line 3: 3 columns, but the first row has 4"),
    "after a quoted newline": (
        b'title,user,item\n"a\nb",1,2\n"c\n\nd",1,2\nx,1\n',
        " line 7: 2 columns, but line 1 has 3",
    ),
    "empty user": (HEADER + b"1,2,3,4\n,2,3,4\n", " line 3: empty id in user"),
    "empty item": (HEADER + b"1,2,3,4\n\n1,  ,3,4\n", " line 4: empty id in item"),
    "bad time": (HEADER + b"1,2,3,4\n1,2,3,soon\n", " line 3: timestamp 'soon' is not a number"),
    "late bad time": (HEADER + b"1,2,3,4\n" * 5000 + b"1,2,3,4x\n", " line 5002: timestamp '4x'"),
    "bad date": (
        HEADER + b"1,2,3,2020-01-01\n1,2,3,2020-13-01\n",
        " line 3: timestamp '2020-13-01'",
    ),
    "dates then numbers": (HEADER + b"1,2,3,2020-01-01\n1,2,3,99\n", " line 3: timestamp '99'"),
    "a fraction, then none": (HEADER + b"1,2,3,4\n1,2,3,4.5\n1,2,3,x\n", " line 4: timestamp 'x'"),
    "first time bad": (HEADER + b"1,2,3,soon\n1,2,3,4\n", " line 2: timestamp 'soon'"),
    "dates then zoned": (
        HEADER + b"1,2,3,2020-01-01\n1,2,3,2020-01-01T00:00:00Z\n",
        " line 3: timestamp '2020-01-01T00:00:00Z'",
    ),
    "no time": (HEADER + b"1,2,3,4\n1,2,3,\n", " line 3: no timestamp; fill it in or remove"),
    "no date": (HEADER + b"1,2,3,2020-01-01\n1,2,3,\n", " line 3: no timestamp"),
    "NaN time": (HEADER + b"1,2,3,4\n1,2,3,NaN\n", " line 3: no timestamp"),
    "infinite time": (HEADER + b"1,2,3,4\n1,2,3,inf\n", " line 3: timestamp inf is not finite"),
    "a time in no UTF-8": (HEADER + b"1,2,3,4\n1,2,3,\xe9\n", r" line 3: timestamp '\\xe9'"),
    "truncated gzip": (gzip.compress(HEADER * 999)[:60], ": truncated or corrupt"),
    "an empty zip": (b"PK\5\6" + bytes(18), ": no ratings file in this zip (it holds nothing)"),
    "half a zip": (b"PK\3\4" + b"junk" * 50, ": truncated or corrupt"),
}


@pytest.mark.parametrize(("content", "expected"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_one_line_with_the_place(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    assert expected in problem(tmp_path, content)


def test_a_tab_file_read_as_commas_is_one_column_and_says_so(tmp_path: Path) -> None:
    content = b"1\t10\t3\t881250949\n"
    assert "only one column found (separators tried: comma)" in problem(tmp_path, content, "csv")
    assert pairs(read_bytes(tmp_path, content)) == [("1", "10")]


def test_a_separator_can_be_forced(tmp_path: Path) -> None:
    content = b"user,x;item;y\n1,x;2;z\n"
    assert "no user column" in problem(tmp_path, content, "semicolon")
    assert "no item column" in problem(tmp_path, content, "csv")


def test_a_missing_file_a_folder_and_a_closed_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent: no such file$"):
        read(tmp_path / "absent")
    with pytest.raises(UserError, match=r"is a folder; give the ratings file or the zip$"):
        read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be read \(Not a directory\)"):
        read(tmp_path / "file" / "below")


def test_a_truncated_zip_is_one_line(tmp_path: Path) -> None:
    whole = make_zip(tmp_path / "whole.zip", **ML_20M).read_bytes()
    for keep in (10, len(whole) // 2, len(whole) - 1):
        assert "truncated or corrupt" in problem(tmp_path, whole[:keep])


def test_a_zip_with_a_damaged_member_is_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = [f"{a},{b},3,{c}\n" for a, b, c in rng.integers(1, 9999, (40_000, 3))]
    content = HEADER + "".join(lines).encode()
    whole = bytearray(make_zip(tmp_path / "whole.zip", ratings=content).read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    assert "table:ml/ratings: truncated or corrupt" in problem(tmp_path, bytes(whole)).replace(
        ":ml", "table:ml"
    )


def test_a_zip_without_ratings_says_what_it_holds(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "table", **{"a.txt": b"hello\n", "b.csv": b"x,y\n1,2.5\n"})
    with pytest.raises(UserError, match=r"no ratings file in this zip \(it holds ml/a.txt, ml/b"):
        read(path)


def test_an_error_inside_a_zip_names_the_member(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "table", **{"r.csv": HEADER + b"1,2,3,4\n1,2,3\n"})
    with pytest.raises(UserError, match=r"table:ml/r\.csv line 3: 3 columns"):
        read(path)
