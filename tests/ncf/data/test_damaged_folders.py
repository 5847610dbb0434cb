"""Malformed and odd inputs: each is a correct result, or one line and exit 2; never half a folder.

The line names the file, and the line of the file where there is one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncf.__main__ import main
from ncf.data import dataset

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = b"user,item,rating,timestamp\n"
GOOD = HEADER + b"".join(
    b"%d,%d,5,%d\n" % (user, item, user * 10 + item) for user in range(3) for item in range(4)
)
"""Three users, four items, everybody has everything: the smallest input with a result here."""
LEAST = ["--min_interactions", "2", "--pad_candidates"]


@dataclass(frozen=True)
class Bad:
    """Content, or what writes it, and what the one line says after the file's name."""

    content: bytes | Callable[[Path], None]
    says: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Odd:
    """Content that looks wrong and is not; users, items and training rows of the result."""

    content: bytes | Callable[[Path], None]
    users: int
    items: int
    train: int


def rows(*lines: str, header: bytes = HEADER) -> bytes:
    return header + "".join(line + "\n" for line in lines).encode()


def timed(*times: str) -> bytes:
    """Two users with these times each, so that everyone has enough."""
    return rows(*(f"{user},{n},5,{time}" for user in "ab" for n, time in enumerate(times)))


def zipped(content: bytes = GOOD, name: str = "ml/ratings.csv") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


def encrypted() -> bytes:
    """A zip whose only member says that it is encrypted."""
    content = bytearray(zipped())
    content[6] |= 1
    content[content.index(b"PK\1\2") + 8] |= 1
    return bytes(content)


def zstd(content: bytes) -> bytes:
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, "zstd") as packed:
        packed.write(content)
    return bytes(buffer.getvalue().to_pybytes())


def parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def folder_of(**files: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        for name, content in files.items():
            (path / name.replace("__", ".")).write_bytes(content)

    return make


def triple(train: str, test: str, negative: str | None) -> Callable[[Path], None]:
    files = {"t__train__rating": train.encode(), "t__test__rating": test.encode()}
    if negative is not None:
        files["t__test__negative"] = negative.encode()
    return folder_of(**files)


PAIRS = np.array([(user, item) for user in range(3) for item in range(4)])
TRAIN, TEST = "0\t1\t5\t1\n1\t2\t5\t1\n", "0\t2\t5\t9\n1\t3\t5\t9\n"
IDS = {"user": [1, 1, 2, 2], "item": [1, 2, 1, 2]}

BAD = {
    # The file as such.
    "missing": Bad(lambda _: None, ": no such file"),
    "empty": Bad(b"", ": is empty"),
    "only line ends": Bad(b"\r\n\n\r\n", ": is empty"),
    "an empty folder": Bad(folder_of(), ": is a folder without a split"),
    "a folder of something else": Bad(folder_of(notes__txt=b"x"), ": is a folder without a split"),
    "binary": Bad(bytes(range(256)) * 40, ": not a text file (it has NUL bytes)"),
    "a picture": Bad(b"\x89PNG\r\n\x1a\n" + bytes(range(1, 256)) * 9, ": only one column found"),
    "UTF-16": Bad(GOOD.decode().encode("utf-16"), ": UTF-16 text; save it as UTF-8"),
    "UTF-16 without mark": Bad(GOOD.decode().encode("utf-16-le"), ": not a text file"),
    "UTF-32": Bad(GOOD.decode().encode("utf-32"), ": UTF-16 text"),
    "a NUL byte late in the file": Bad(
        GOOD + b"4,1,5,9\n" * 20_000 + b"4\0,2,5,9\n", " line 20014: NUL byte in user"
    ),
    "HTML instead of data": Bad(b"<html>\n<body>403 Forbidden</body>\n</html>\n", ": only one"),
    "JSON": Bad(b'[{"user": 1, "item": 2}]\n', ": no user column in the header"),
    "one endless line": Bad(b"1," * 70_000, ": no end of line in the first 65,536 bytes"),
    "HDF5": Bad(b"\x89HDF\r\n\x1a\n" + bytes(99), ": an HDF5 file"),
    "a .npy array": Bad(b"\x93NUMPY\1\0" + b"x" * 99, ": a .npy array"),
    "7z": Bad(b"7z\xbc\xaf\x27\x1c" + bytes(99), ": a 7z archive"),
    # Archives.
    "truncated zip": Bad(zipped()[:-30], ": truncated or corrupt"),
    "zip with a flipped byte": Bad(
        flipped(zipped(GOOD * 50), 80), ":ml/ratings.csv: truncated or corrupt"
    ),
    "encrypted zip": Bad(encrypted(), ":ml/ratings.csv: cannot be unpacked"),
    "zip without ratings": Bad(zipped(b"hello\n"), ": no ratings file in this zip"),
    "empty zip": Bad(b"PK\5\6" + bytes(18), ": no ratings file in this zip (it holds nothing)"),
    "truncated gzip": Bad(gzip.compress(GOOD * 500)[:-20], ": truncated or corrupt"),
    "truncated bzip2": Bad(bz2.compress(GOOD * 500)[:-20], ": truncated or corrupt"),
    "truncated xz": Bad(lzma.compress(GOOD * 500)[:-20], ": truncated or corrupt"),
    "truncated zstd": Bad(zstd(GOOD * 500)[:-20], ": truncated or corrupt"),
    "gzip with rubbish behind": Bad(gzip.compress(GOOD) + b"xyz", ": truncated or corrupt"),
    # Columns.
    "one column": Bad(b"1\n2\n3\n", ": only one column found"),
    "no user column": Bad(b"film,stars\n1,2\n", ": no user column in the header ['film', 'stars']"),
    "no item column": Bad(b"user,stars\n1,2\n", ": no item column in the header"),
    "duplicate headers": Bad(b"user,item,user_\n1,2,3\n", ": two columns are named user"),
    "only a header": Bad(HEADER, ": has a header and no rows"),
    "mixed separators": Bad(GOOD + b"1;2;3;4\n", " line 14: 1 columns, but line 1 has 4"),
    "a short row": Bad(GOOD + b"1,2,3\n", " line 14: 3 columns, but line 1 has 4"),
    "a long row": Bad(GOOD + b"1,2,3,4,5\n", " line 14: 5 columns, but line 1 has 4"),
    "a quote that never ends": Bad(GOOD + b'1,"2,3,4\n' + b"1,2,3,4\n" * 3, " line 14: "),
    "tabs read as commas": Bad(
        b"1\t10\t3\t881250949\n", ": only one column found", ("--format", "csv")
    ),
    "words without header": Bad(b"anna,film\nbert,film\n", ": no user column in the header"),
    # Values.
    "empty user id": Bad(GOOD + b",2,5,9\n", " line 14: empty id in user"),
    "blank item id": Bad(GOOD + b"1,  ,5,9\n", " line 14: empty id in item"),
    "a time that is none": Bad(timed("1", "soon"), " line 3: timestamp 'soon' is not a number"),
    "a missing time": Bad(timed("1", ""), " line 3: no timestamp"),
    "NaN for a time": Bad(timed("1", "nan"), " line 3: no timestamp"),
    "an infinite time": Bad(timed("1.5", "inf"), " line 3: timestamp inf is not finite"),
    "the 31st of February": Bad(timed("2020-01-01", "2020-02-31"), " line 3: timestamp"),
    # Too little, too much.
    "one user with one item": Bad(rows("1,1,5,9"), ": no user has 2 distinct items"),
    "the same row again and again": Bad(rows(*["1,1,5,9"] * 30), ": no user has 2 distinct items"),
    "nobody with enough": Bad(
        GOOD, ": no user has 20 distinct items (the most is 4); use", ("--min_interactions", "20")
    ),
    # Parquet.
    "truncated Parquet": Bad(parquet(**IDS)[:-9], ": not readable as Parquet"),
    "Parquet of nothing": Bad(parquet(user=[], item=[]), ": has no rows"),
    "Parquet without items": Bad(parquet(user=[1], film=[2]), ": no item column in"),
    "Parquet with lists": Bad(parquet(user=[[1]], item=[2]), ": ids in user are list<"),
    "Parquet with a null": Bad(parquet(user=[1, None], item=[1, 2]), " row 2: no id in user"),
    "Parquet with half an item": Bad(parquet(user=[1], item=[1.5]), " row 1: id 1.5 in item is no"),
    # NumPy archives.
    "npz of text": Bad(npz(a=np.array([["a", "b"]])), ": array a is <U1; ids must be whole"),
    "npz of floats": Bad(npz(a=PAIRS / 2), ": array a is float64; ids must be whole numbers"),
    "npz of objects": Bad(npz(a=np.array([[1, None]], object)), ": cannot be read as arrays"),
    "npz with one axis": Bad(npz(a=PAIRS[0]), ": array a is [2], not [rows, 2 to 4]"),
    "npz with two tables": Bad(npz(a=PAIRS, b=PAIRS), ": holds a, b; expected one table"),
    "npz with other users in test": Bad(npz(train=PAIRS, test=[[9, 9]]), ": no test user has"),
    "npz with two tests a user": Bad(
        npz(train=PAIRS, test=[[0, 9], [0, 8]]), " test row 2: user 0 has several test rows"
    ),
    "npz with short negatives": Bad(
        npz(train=PAIRS, test=[[0, 9]], test_negatives=PAIRS), ": negatives are int64 [12, 2]"
    ),
    # The NCF paper's files.
    "paper files without test": Bad(folder_of(t__train__rating=TRAIN.encode()), ": t.test.rating"),
    "paper files with two tests a user": Bad(
        triple(TRAIN, TEST + "0\t3\t5\t9\n", None),
        "/t.test.rating line 3: user 0 has several test rows",
    ),
    "paper negatives of another test": Bad(
        triple(TRAIN, TEST, "(0,2)\t3\n(1,2)\t3\n"),
        "/t.test.negative line 2: (1,2) is not a test row",
    ),
    "paper negatives that end early": Bad(
        triple(TRAIN, TEST, "(0,2)\t3\t4\n(1,3)\t4\n"), "line 2: 1 negatives, but line 1 has 2"
    ),
    "paper negatives without pair": Bad(
        triple(TRAIN, TEST, "0\t3\n"), "/t.test.negative line 1: begins with '0'"
    ),
    "paper negatives for some": Bad(
        triple(TRAIN, TEST, "(0,2)\t3\n"), "/t.test.negative: no negatives for test row 2, (1,3)"
    ),
}

ODD = {
    "negative ids": Odd(rows("-1,-5,5,1", "-1,-6,5,2", "-2,-5,5,1", "-2,-6,5,2"), 2, 2, 2),
    "float ids": Odd(rows("1.0,5,5,1", "1.0,6,5,2", "1.5,5,5,1", "1.5,6,5,2"), 2, 2, 2),
    "huge ids": Odd(rows(f"{10**30},1,5,1", f"{10**30},2,5,2", "7,1,5,1", "7,2,5,2"), 2, 2, 2),
    "ids with leading zeros": Odd(rows("01,1,5,1", "01,2,5,2", "1,1,5,1", "1,2,5,2"), 2, 2, 2),
    "ids of words": Odd(rows("zoë,a b,5,1", "zoë,c,5,2", "NA,a b,5,1", "NA,c,5,2"), 2, 2, 2),
    "users with full catalogues": Odd(GOOD, 3, 4, 9),
    "one item too many for one": Odd(rows("1,1,5,1", "1,2,5,2"), 1, 2, 1),
    "one user who is dropped": Odd(GOOD + b"9,1,5,9\n", 3, 4, 9),
    "times in the far future": Odd(timed("253402300799", "99999999999999"), 2, 2, 2),
    "times in milliseconds": Odd(timed("1427784002000", "1427784002001"), 2, 2, 2),
    "times before 1970": Odd(timed("-5", "-7", "0"), 2, 3, 4),
    "ISO dates": Odd(timed("2020-02-28", "2020-02-29"), 2, 2, 2),
    "no ratings at all": Odd(b"user,item\n1,1\n1,2\n", 1, 2, 1),
    "ratings that are no numbers": Odd(GOOD.replace(b",5,", b",five stars,"), 3, 4, 9),
    "CR, LF and both": Odd(GOOD.replace(b"\n", b"\r\n", 5), 3, 4, 9),
    "a byte order mark": Odd(b"\xef\xbb\xbf" + GOOD, 3, 4, 9),
    "blank lines between": Odd(GOOD.replace(b"\n", b"\n\n"), 3, 4, 9),
    "no line end at the end": Odd(GOOD.rstrip(), 3, 4, 9),
    "quotes late in a large file": Odd(
        GOOD + b'1,0,"a\nb",1\n' * 20_000 + b'"1","4",5,"99"\n', 3, 5, 10
    ),
    "gzip in two parts": Odd(gzip.compress(GOOD[:50]) + gzip.compress(GOOD[50:]), 3, 4, 9),
    "xz": Odd(lzma.compress(GOOD), 3, 4, 9),
    "zstd": Odd(zstd(GOOD), 3, 4, 9),
    "Parquet with whole floats": Odd(parquet(user=[1.0, 1.0], item=[3, 4]), 1, 2, 1),
    "Parquet with dictionaries and times": Odd(
        parquet(
            USER_ID=pa.array(["a", "a", "b", "b"]).dictionary_encode(),
            itemId=[1, 2, 1, 2],
            Timestamp=pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
        ),
        *(2, 2, 2),
    ),
    "npz with 64-bit ids": Odd(npz(a=PAIRS + 2**40), 3, 4, 9),
    "npz with a split": Odd(npz(train=PAIRS, test=[[0, 9], [7, 1]]), 3, 5, 12),
    "paper files without negatives": Odd(triple(TRAIN, TEST, None), 2, 3, 2),
    "a training row that is the test row": Odd(triple(TRAIN + TEST[:8], TEST, None), 2, 3, 2),
}


def prepare(tmp_path: Path, content: bytes | Callable[[Path], None], words: tuple[str, ...]) -> int:
    source = tmp_path / "input"
    if isinstance(content, bytes):
        source.write_bytes(content)
    else:
        content(source)
    given = not isinstance(content, bytes) and source.is_dir()
    given = given or (isinstance(content, bytes) and b"train.npy" in content[:99])
    least = LEAST[2:] if given else LEAST
    return main(["prepare", str(source), "--output", str(tmp_path / "out"), *least, *words])


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_a_malformed_input_is_one_line_and_exit_2_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: Bad
) -> None:
    assert prepare(tmp_path, case.content, case.words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    *progress, line = captured.err.splitlines()
    assert line.startswith(f"ncf: error: {tmp_path / 'input'}")
    assert case.says in line.removeprefix(f"ncf: error: {tmp_path / 'input'}")
    assert not any("rror" in told or "Traceback" in told for told in progress)
    assert {path.name for path in tmp_path.iterdir()} <= {"input"}


@pytest.mark.parametrize("case", ODD.values(), ids=ODD.keys())
def test_an_odd_input_that_is_not_wrong_gives_the_right_result(tmp_path: Path, case: Odd) -> None:
    assert prepare(tmp_path, case.content, ()) == 0
    data = dataset.verify(tmp_path / "out")
    assert (data.n_users, data.n_items, data.n_train) == (case.users, case.items, case.train)
    assert {path.name for path in tmp_path.iterdir()} == {"input", "out"}


def test_there_are_at_least_sixty_kinds() -> None:
    assert len(BAD) >= 60
