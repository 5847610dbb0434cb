"""Every way in gives the same data set: files, folders, zips, and whatever they are packed in."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncf.__main__ import main
from ncf.data import candidates, dataset
from ncf.data.split import leave_one_out

if TYPE_CHECKING:
    from collections.abc import Callable

USERS, ITEMS, OWN, NEGATIVES = 12, 60, 8, 9


class Sample:
    """A split with negatives; ids have gaps, so that numbering matters."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        self.rows = [rng.permutation(ITEMS) * 3 + 7 for _ in range(USERS)]
        self.train = np.array(
            [(5 * u + 1, i) for u, row in enumerate(self.rows) for i in row[1:OWN]]
        )
        self.test = np.array([(5 * u + 1, row[0]) for u, row in enumerate(self.rows)])
        self.negatives = np.array([row[-NEGATIVES:] for row in self.rows])


SAMPLE = Sample()


def lines(pairs: np.ndarray) -> bytes:
    return "".join(f"{u}\t{i}\t4\t{900 + n}\n" for n, (u, i) in enumerate(pairs)).encode()


def paper_texts() -> dict[str, bytes]:
    order = np.random.default_rng(2).permutation(USERS)  # the order of test rows is free
    negative = "".join(
        f"({u},{i})\t" + "\t".join(map(str, row)) + "\n"
        for (u, i), row in zip(SAMPLE.test[order], SAMPLE.negatives[order], strict=True)
    )
    return {
        "p.train.rating": lines(SAMPLE.train),
        "p.test.rating": lines(SAMPLE.test),
        "p.test.negative": negative.encode(),
    }


def as_folder(path: Path) -> Path:
    path.mkdir()
    for name, content in paper_texts().items():
        (path / name).write_bytes(content)
    return path


def as_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in paper_texts().items():
            archive.writestr(f"Data/{name}", content)
    return path


def as_npz(path: Path) -> Path:
    with path.open("wb") as file:
        np.savez(file, train=SAMPLE.train, test=SAMPLE.test, test_negatives=SAMPLE.negatives)
    return path


GIVEN: dict[str, Callable[[Path], Path]] = {
    "a folder": as_folder,
    "one of the three files": lambda path: as_folder(path) / "p.train.rating",
    "the negatives' file": lambda path: as_folder(path) / "p.test.negative",
    "a zip": as_zip,
    "npz": as_npz,
}


def prepare(source: Path, output: Path, *words: str) -> dataset.Data:
    assert main(["prepare", str(source), "--output", str(output), *words]) == 0
    return dataset.verify(output)


@pytest.mark.parametrize("make", GIVEN.values(), ids=GIVEN.keys())
def test_split_and_negatives_are_kept_whatever_they_come_in(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    data = prepare(make(tmp_path / "source"), tmp_path / "d")
    assert data.manifest["candidates"]["protocol"] == "given-9"
    assert data.manifest["candidates"]["per_user"] == NEGATIVES
    assert data.manifest["split"]["rule"] == "given with the data"
    for row, user in enumerate(data.test_users):
        assert data.user_id(user) == str(SAMPLE.test[row, 0])
        assert data.item_id(data.test_items[row]) == str(SAMPLE.test[row, 1])
        found = [data.item_id(item) for item in data.candidates[row]]
        assert found == [str(item) for item in SAMPLE.negatives[row]]
    reference = prepare(as_npz(tmp_path / "reference"), tmp_path / "r")
    assert data.hash == reference.hash
    assert data.manifest["candidates"]["hash"] == reference.manifest["candidates"]["hash"]


def test_the_parts_of_an_expanded_data_set_are_one_split(tmp_path: Path) -> None:
    folder = tmp_path / "ml"
    folder.mkdir()
    for part, rows in enumerate(np.array_split(SAMPLE.train, 11)):
        np.savez(folder / f"trainx2x1_{part}.npz", rows)
    for part, rows in enumerate(np.array_split(SAMPLE.test, 2)):
        np.savez_compressed(folder / f"testx2x1_{part}.npz", rows)
    data = prepare(folder, tmp_path / "d", "--protocol", "unique", "--valid_negative", "5")
    assert data.manifest["candidates"]["protocol"] == "unique"
    assert (data.n_users, data.n_train) == (USERS, len(SAMPLE.train))
    assert len(data.manifest["source"]["files"]) == 13


def test_given_negatives_can_be_left_for_drawn_ones(tmp_path: Path) -> None:
    source = as_npz(tmp_path / "s.npz")
    data = prepare(source, tmp_path / "d", "--protocol", "nvidia")
    assert data.manifest["candidates"]["protocol"] == "nvidia"
    assert data.candidates.shape == (USERS, 100)


def csv_of(pairs: np.ndarray) -> bytes:
    buffer = io.StringIO()
    buffer.write("user,item,timestamp\n")
    for place, (user, item) in enumerate(pairs):
        buffer.write(f"{user},{item},{place}\n")
    return buffer.getvalue().encode()


def as_parquet(path: Path, **types: pa.DataType) -> Path:
    users, items = SAMPLE.train.T
    columns = {"user": users, "item": items, "timestamp": np.arange(len(users))}
    table = pa.table(
        {
            name: pa.array(values).cast(types.get(name, pa.int64()))
            for name, values in columns.items()
        }
    )
    pq.write_table(table, path, row_group_size=10)
    return path


@pytest.mark.parametrize(
    "types",
    [
        {},
        {"user": pa.string(), "item": pa.large_string()},
        {"user": pa.int32(), "item": pa.float64(), "timestamp": pa.timestamp("ms")},
        {"user": pa.uint64(), "timestamp": pa.float32()},
        {"timestamp": pa.string()},
    ],
    ids=str,
)
def test_parquet_of_any_types_is_the_same_as_csv(
    tmp_path: Path, types: dict[str, pa.DataType]
) -> None:
    (tmp_path / "a.csv").write_bytes(csv_of(SAMPLE.train))
    least = ["--min_interactions", "2"]
    from_csv = prepare(tmp_path / "a.csv", tmp_path / "a", *least)
    from_parquet = prepare(as_parquet(tmp_path / "b", **types), tmp_path / "b.out", *least)
    assert from_csv.hash == from_parquet.hash
    assert from_csv.manifest["arrays"] == from_parquet.manifest["arrays"]


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("order", ["by user", "mixed"])
def test_threads_and_the_order_of_users_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str, order: str
) -> None:
    least = ["--min_interactions", "2"]
    (tmp_path / "a.csv").write_bytes(csv_of(SAMPLE.train))
    plain = prepare(tmp_path / "a.csv", tmp_path / "a", *least, "--threads", "1")
    header, *rows = csv_of(SAMPLE.train).splitlines(keepends=True)
    if order == "mixed":  # each user's own rows stay in order
        rows = [row for start in range(OWN - 1) for row in rows[start :: OWN - 1]]
    (tmp_path / "b.csv").write_bytes(b"".join([header, *rows]))
    monkeypatch.setitem(leave_one_out.__kwdefaults__, "chunk_rows", 5)
    monkeypatch.setattr("ncf.readers.table._BLOCK_BYTES", 64)
    monkeypatch.setitem(candidates.draw.__kwdefaults__, "chunk_slots", 130)
    other = prepare(tmp_path / "b.csv", tmp_path / "b", *least, "--threads", threads)
    assert other.manifest["arrays"] == plain.manifest["arrays"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--min_interactions", "5"], "--min_interactions 5: {path} has a split of its own"),
        (["--valid_negative", "5"], "--valid_negative: 9 candidates a user came with the data"),
        (["--pad_candidates"], "--pad_candidates: 9 candidates a user came with the data"),
        (["--format", "csv"], "--format csv: {path} is a NumPy archive; leave --format out"),
        (["--scale", "2x2"], "--scale 2x2: works on data without a split of their own"),
        (["--scale", "0x2"], "--scale 0x2: give two numbers from 1, such as 16x32"),
        (["--threads", "-1"], "--threads -1: must be at least 0"),
    ],
)
def test_options_that_would_change_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    source = as_npz(tmp_path / "s.npz")
    assert main(["prepare", str(source), "--output", str(tmp_path / "d"), *words]) == 2
    assert says.format(path=source) in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_given_candidates_must_be_there_to_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_bytes(csv_of(SAMPLE.train))
    words = ["--min_interactions", "2", "--protocol", "given", "--output", str(tmp_path / "d")]
    assert main(["prepare", str(tmp_path / "a.csv"), *words]) == 2
    assert "--protocol given: no candidates came with these data" in capsys.readouterr().err
