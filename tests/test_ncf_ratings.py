from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncf import ratings, sources
from ncf.errors import UserError

UTF8_BOM = b"\xef\xbb\xbf"
ROWS = [("7", "30", "100"), ("7", "4", "200"), ("10", "30", "50")]


def read(path: Path, tried: str = "auto") -> ratings.Ratings:
    return ratings.read(*ratings.choose(path, tried))


def read_bytes(tmp_path: Path, content: bytes, tried: str = "auto") -> ratings.Ratings:
    path = tmp_path / "table"
    path.write_bytes(content)
    return read(path, tried)


def pairs(read: ratings.Ratings) -> list[tuple[str, str]]:
    return [
        (read.user_ids.text_of(user), read.item_ids.text_of(item))
        for user, item in zip(read.users, read.items, strict=True)
    ]


def make_zip(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"ml/{name}", content)
    return path


FORMATS = {
    "u.data": b"7\t30\t3\t100\n7\t4\t5\t200\n10\t30\t1\t50\n",
    "ratings.dat": b"7::30::3::100\n7::4::5::200\n10::30::1::50\n",
    "ratings.csv": b"userId,movieId,rating,timestamp\n7,30,3.0,100\n7,4,5.0,200\n10,30,0.5,50\n",
    "inter": (
        b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        b"7\t30\t3\t100\n7\t4\t5\t200\n10\t30\t1\t50\n"
    ),
    "csv, no header": b"7,30,3,100\n7,4,5,200\n10,30,1,50\n",
    "semicolons": b"user;item;rating;time\n7;30;3,5;100\n7;4;2,5;200\n10;30;1,0;50\n",
    "semicolons, no header": b"7;30;3,5;100\n7;4;2,5;200\n10;30;1,0;50\n",
    "pipes": b"uid|iid|ts\n7|30|100\n7|4|200\n10|30|50\n",
    "tabs": b"time\tuser\titem\n100\t7\t30\n200\t7\t4\n50\t10\t30\n",
    "mark, CRLF, blanks, quotes": UTF8_BOM
    + b'\r\n "UserID" , movie_id ,"time stamp"\r\n7,30,100\r\n\r\n7,"4", 200 \r\n 10 ,30,50',
    "old Mac line ends": b"user,item,ts\r7,30,100\r7,4,200\r10,30,50\r",
    "mark, no header": UTF8_BOM + b"7,30,3,100\n7,4,5,200\n10,30,1,50",
    "quoted commas and newlines": (
        b'title,userId,itemId,timestamp\n"a, ""b""\nc",7,30,100\n"x",7,4,200\n,10,30,50\n'
    ),
    "titles that are no UTF-8": b"user,title,item,ts\n7,\xe9,30,100\n7,\xff,4,200\n10,,30,50\n",
    "a header that is no UTF-8": b"user,pr\xe9nom,item,ts\n7,a,30,100\n7,b,4,200\n10,,30,50\n",
    "floats": b"user,item,ts\n7,30,100.0\n7,4,2e2\n10,30,50.\n",
    "quoted numbers": b'"user","item","ts"\n"7","30","100"\n"7","4","200"\n"10","30","50"\n',
    "blank lines": b"\n\nuser,item,ts\n\n7,30,100\n   \n7,4,200\n10,30,50\n\n \n",
}


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
def test_every_format_gives_the_same_interactions(tmp_path: Path, content: bytes) -> None:
    found = read_bytes(tmp_path, content)
    assert pairs(found) == [row[:2] for row in ROWS]
    assert found.times is not None
    assert found.times.tolist() == [100, 200, 50]
    assert found.users.dtype == found.items.dtype == np.int32


@pytest.mark.parametrize("header", ["userId,movieId", "USER_ID,Product", "uid,iid", "User,ASIN"])
def test_columns_are_found_by_name_whatever_the_case(tmp_path: Path, header: str) -> None:
    found = read_bytes(tmp_path, f"{header}\na,b\n".encode())
    assert pairs(found) == [("a", "b")]
    assert found.times is None


def test_the_preferred_of_two_possible_columns_is_taken(tmp_path: Path) -> None:
    assert pairs(read_bytes(tmp_path, b"item,user,item_id\nx,7,30\n")) == [("7", "30")]


@pytest.mark.parametrize(
    ("content", "times"),
    [
        (b"7,30,3\n7,4,5\n", None),
        (b"7,30\n7,4\n", None),
        (b"7,30,881250949\n7,4,881250950\n", [881250949, 881250950]),
        (b"7,30,3,comedy\n7,4,5,drama\n", None),
        (b"7,30,3,2020-01-01\n7,4,5,2020-01-02\n", [1577836800000000, 1577923200000000]),
    ],
)
def test_without_a_header_places_and_sizes_tell_the_columns(
    tmp_path: Path, content: bytes, times: list[int] | None
) -> None:
    found = read_bytes(tmp_path, content)
    assert pairs(found) == [("7", "30"), ("7", "4")]
    assert (None if found.times is None else found.times.tolist()) == times


@pytest.mark.parametrize(
    "values",
    [
        ("2015-03-31", "2015-04-01"),
        ("2015-03-31 06:40:02", "2015-03-31T06:40:02.5"),
        ("2015-03-31T12:00:00+02:00", "2015-03-31T11:00:00Z"),
        ("0001-01-01", "9999-12-31"),
        ("2015-03-31T06:40:02.123456788", "2015-03-31T06:40:02.123456789"),
        ("-5", "3"),
        ("1427784002000", "253402300799000"),
        ("1.5", "17"),
        ("99999999999999999999", "99999999999999999999999"),
        ("5", "6.5"),
        ("9007199254740992", "9007199254740993"),
    ],
)
def test_all_kinds_of_timestamps_keep_their_order(tmp_path: Path, values: tuple[str, str]) -> None:
    early, late = values
    for first, second in (values, values[::-1]):
        content = f"user,item,time\n1,1,{first}\n1,2,{second}\n1,3,{early}\n"
        found = read_bytes(tmp_path, content.encode())
        assert found.times is not None
        assert (found.times[0] < found.times[1]) == (first == early)
        assert (found.times == found.times[2]).tolist() == [first == early, second == early, True]
    assert early != late


def test_ids_are_text_numbered_by_length_and_bytes(tmp_path: Path) -> None:
    content = "user,item\n4000000000,x\n256020837,x\nu-ab,x\n01,x\n1,x\n2,x\n10,x\nü,x\nNA,x\n"
    found = read_bytes(tmp_path, content.encode())
    ids = [found.user_ids.text_of(number) for number in range(len(found.user_ids))]
    assert ids == ["1", "2", "01", "10", "NA", "ü", "u-ab", "256020837", "4000000000"]
    assert found.users.tolist() == [8, 7, 6, 2, 0, 1, 3, 5, 4]


def test_ids_that_differ_by_surrounding_blanks_alone_are_one(tmp_path: Path) -> None:
    found = read_bytes(tmp_path, b"user,item\n7, 30\n7 ,30 \n")
    assert pairs(found) == [("7", "30")] * 2
    assert len(found.user_ids) == len(found.item_ids) == 1


def test_ids_that_are_no_utf8_survive_as_bytes(tmp_path: Path) -> None:
    found = read_bytes(tmp_path, b"user,item\n\xe9,1\n\xff\xfe,1\n")
    assert found.user_ids.text.tobytes() == b"\xe9\xff\xfe"
    assert found.user_ids.text_of(0) == "\\xe9"


safe_ids = st.text(
    st.characters(
        codec="utf-8", exclude_characters="\x00\r\n\t ,\x0b\x0c", exclude_categories=["Z"]
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(safe_ids, safe_ids), min_size=1, max_size=20), st.booleans())
def test_ids_round_trip(rows: list[tuple[str, str]], quoted: bool) -> None:
    # A quote that opens a value is syntax unless it is doubled inside quotes.
    def field(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if quoted or '"' in value else value

    text = "".join(f"{field(user)},{field(item)}\n" for user, item in rows)
    source = MemorySource(b"user,item\n" + text.encode())
    found = ratings.read(source, ratings.sniff(source.content, complete=True))
    assert pairs(found) == rows


class MemorySource(sources.Source):
    """A source without a file, for examples by the hundred."""

    def __init__(self, content: bytes) -> None:
        super().__init__(Path("memory"), len(content))
        object.__setattr__(self, "content", content)

    def open(self) -> io.BytesIO:  # type: ignore[override]
        return io.BytesIO(self.content)


def test_numbers_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    lines = [f"u{n % 13},{n * n % 41}\n" for n in range(200)]
    forward = read_bytes(tmp_path, "".join(["user,item\n", *lines]).encode())
    backward = read_bytes(tmp_path, "".join(["user,item\n", *lines[::-1]]).encode())
    assert forward.user_ids.text.tobytes() == backward.user_ids.text.tobytes()
    np.testing.assert_array_equal(forward.items, backward.items[::-1])


def test_a_table_larger_than_a_block_is_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f'{n % 97},"a\n{n % 53}",{n}\n' for n in range(20_000)]
    content = "".join(["user,item,ts\n", *lines]).encode()
    whole = read_bytes(tmp_path, content)
    monkeypatch.setattr(ratings, "_BLOCK_BYTES", 1 << 12)
    parts = read_bytes(tmp_path, content)
    np.testing.assert_array_equal(whole.items, parts.items)
    np.testing.assert_array_equal(whole.times, parts.times)
    assert len(parts.user_ids) == 97


def test_compressed_tables_are_read_in_place(tmp_path: Path) -> None:
    for packed in (gzip.compress(FORMATS["ratings.csv"]), bz2.compress(FORMATS["ratings.csv"])):
        assert pairs(read_bytes(tmp_path, packed)) == [row[:2] for row in ROWS]


ML_100K = {
    "README": b"SUMMARY & USAGE LICENSE\n=====\n\nMovieLens data sets were collected\n",
    "u.data": FORMATS["u.data"],
    "u1.base": FORMATS["u.data"][:20],
    "u.item": b"1|Toy Story (1995)|01-Jan-1995||http://x|0|0\n" * 99,
    "u.user": b"1|24|M|technician|85711\n" * 99,
    "u.genre": b"unknown|0\nAction|1\n",
}
ML_1M = {
    "users.dat": b"1::F::1::10::48067\n" * 99,
    "movies.dat": b"1::Am\xe9lie (1995)::Animation|Children's\n" * 99,
    "ratings.dat": FORMATS["ratings.dat"],
}
ML_20M = {
    "tags.csv": b"userId,movieId,tag,timestamp\n18,4141,Mark Waters,1240597180\n" * 99,
    "links.csv": b"movieId,imdbId,tmdbId\n1,0114709,862\n" * 99,
    "genome-scores.csv": b"movieId,tagId,relevance\n1,1,0.025\n" * 99,
    "ratings.csv": FORMATS["ratings.csv"],
}
ML_10M = {
    "tags.dat": b"15::4973::excellent!::1215184630\n" * 99,
    "ratings.dat": FORMATS["ratings.dat"],
}


@pytest.mark.parametrize("members", [ML_100K, ML_1M, ML_10M, ML_20M])
def test_the_ratings_file_in_a_zip_is_found_by_content(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    found = read(make_zip(tmp_path / "whatever.bin", **members))
    assert pairs(found) == [row[:2] for row in ROWS]


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
