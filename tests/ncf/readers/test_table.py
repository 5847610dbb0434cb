"""Tables of ratings in every format: columns, timestamps, ids, archives."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rating_tables import (
    FORMATS,
    ML_1M,
    ML_10M,
    ML_20M,
    ML_100K,
    ROWS,
    make_zip,
    pairs,
    read,
    read_bytes,
)

from ncf.readers import sources, table


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
    found = table.TextTable.sniffed(source).read()
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
    monkeypatch.setattr(table, "_BLOCK_BYTES", 1 << 12)
    parts = read_bytes(tmp_path, content)
    np.testing.assert_array_equal(whole.items, parts.items)
    np.testing.assert_array_equal(whole.times, parts.times)
    assert len(parts.user_ids) == 97


def test_compressed_tables_are_read_in_place(tmp_path: Path) -> None:
    for packed in (gzip.compress(FORMATS["ratings.csv"]), bz2.compress(FORMATS["ratings.csv"])):
        assert pairs(read_bytes(tmp_path, packed)) == [row[:2] for row in ROWS]


@pytest.mark.parametrize("members", [ML_100K, ML_1M, ML_10M, ML_20M])
def test_the_ratings_file_in_a_zip_is_found_by_content(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    found = read(make_zip(tmp_path / "whatever.bin", **members))
    assert pairs(found) == [row[:2] for row in ROWS]
