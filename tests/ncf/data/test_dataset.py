from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from ncf.data import dataset
from ncf.data import writer as writing
from ncf.data.writer import Prepared
from ncf.errors import UserError


def prepared(**changes: np.ndarray) -> Prepared:
    """Two users, four items; user 0 trained on {0, 2}, user 1 on {1}."""
    arrays = {
        "train_items": np.array([0, 2, 1], np.int32),
        "train_offsets": np.array([0, 2, 3]),
        "test_users": np.array([0, 1], np.int32),
        "test_items": np.array([3, 0], np.int32),
        "candidates": np.array([[1, 1], [2, 3]], np.int32),
        "user_ids": np.frombuffer("01é".encode(), np.uint8),
        "user_id_offsets": np.array([0, 2, 4]),
        "item_ids": np.frombuffer(b"1234", np.uint8),
        "item_id_offsets": np.arange(5),
        **changes,
    }
    about = {"name": "two", "source": {}, "split": {}, "summary": {}, "hr_at_10": {}}
    return Prepared(arrays, {**about, "candidates": {"protocol": "nvidia", "seed": 1}})


def manifest_of(folder: Path) -> dict[str, object]:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    saved = writing.save(tmp_path / "deep" / "d", prepared())
    data = dataset.load(tmp_path / "deep" / "d")
    assert (data.n_users, data.n_items, data.n_train, data.n_test) == (2, 4, 3, 2)
    assert data.name == "two"
    assert data.hash == saved.hash
    for name, array in prepared().arrays.items():
        np.testing.assert_array_equal(getattr(data, name), array)
    assert data.user_id(0) == "01"
    assert data.user_id(1) == "é"
    assert data.item_id(3) == "4"


def test_arrays_are_mapped_and_read_only(tmp_path: Path) -> None:
    data = writing.save(tmp_path / "d", prepared())
    assert not data.train_items.flags.writeable
    assert not data.train_items.flags.owndata


def test_the_folder_is_plain_npy_and_json_without_pickles(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    for path in (tmp_path / "d").iterdir():
        assert path.suffix in (".npy", ".json")
        if path.suffix == ".npy":
            assert np.load(path, allow_pickle=False).dtype.hasobject is False
    manifest = manifest_of(tmp_path / "d")
    assert manifest["schema_version"] == 1
    assert manifest["arrays"]["train_items"]["shape"] == [3]
    assert manifest["candidates"]["hash"] == dataset.digest(prepared().arrays["candidates"])


def test_a_pickled_array_is_refused_not_executed(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    (tmp_path / "d" / "train_items.npy").write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(UserError, match=r"train_items\.npy: truncated or not a \.npy file"):
        dataset.load(tmp_path / "d")


def test_the_hash_covers_the_split_and_not_the_candidates(tmp_path: Path) -> None:
    first = writing.save(tmp_path / "a", prepared())
    other = np.array([[1, 1], [3, 3]], np.int32)
    assert writing.save(tmp_path / "b", prepared(candidates=other)).hash == first.hash
    moved = np.array([3, 2], np.int32)
    assert writing.save(tmp_path / "c", prepared(test_items=moved)).hash != first.hash
    assert len(first.hash) == 16


def test_a_digest_tells_type_and_shape_apart_and_ignores_byte_order() -> None:
    values = np.arange(6, dtype=np.int32)
    assert dataset.digest(values) == dataset.digest(values.astype(">i4"))
    assert dataset.digest(values) != dataset.digest(values.astype(np.int64))
    assert dataset.digest(values) != dataset.digest(values.reshape(2, 3))
    assert dataset.digest(values[::2]) == dataset.digest(values[::2].copy())


@pytest.mark.parametrize("name", sorted(prepared().arrays))
def test_a_missing_array_is_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    writing.save(tmp_path / "d", prepared())
    (tmp_path / "d" / f"{name}.npy").unlink()
    with pytest.raises(UserError, match=rf"{name}\.npy: missing; run ncf prepare again"):
        dataset.load(tmp_path / "d")


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
@pytest.mark.parametrize("name", ["train_items", "candidates", "item_ids"])
def test_a_truncated_array_is_named_with_the_way_out(tmp_path: Path, name: str, keep: int) -> None:
    writing.save(tmp_path / "d", prepared())
    path = tmp_path / "d" / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=rf"{name}\.npy: .*run ncf prepare again"):
        dataset.load(tmp_path / "d")


def test_an_array_with_bytes_too_many_is_named(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    with (tmp_path / "d" / "test_items.npy").open("ab") as file:
        file.write(b"more")
    with pytest.raises(UserError, match=r"test_items\.npy: wrong file size"):
        dataset.load(tmp_path / "d")


def test_an_array_of_another_shape_or_type_is_named(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    np.save(tmp_path / "d" / "test_items.npy", np.array([1, 2, 3], np.int32))
    with pytest.raises(UserError, match=r"holds int32 \[3\], not int32 \[2\]"):
        dataset.load(tmp_path / "d")
    np.save(tmp_path / "d" / "test_items.npy", np.array([1, 2]))
    with pytest.raises(UserError, match=r"holds int64 \[2\], not int32 \[2\]"):
        dataset.load(tmp_path / "d")


def test_arrays_that_do_not_fit_each_other_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train_items\.npy: does not fit"):
        writing.save(tmp_path / "d", prepared(train_offsets=np.array([0, 2, 9])))


def test_a_changed_value_is_found_by_verify_and_not_by_load(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    dataset.verify(tmp_path / "d")
    np.save(tmp_path / "d" / "test_items.npy", np.array([3, 1], np.int32))
    dataset.load(tmp_path / "d")
    with pytest.raises(UserError, match=r"test_items\.npy: content has changed"):
        dataset.verify(tmp_path / "d")


def test_a_newer_schema_says_so(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    manifest = manifest_of(tmp_path / "d")
    for version in (2, "1", None):
        text = json.dumps({**manifest, "schema_version": version})
        (tmp_path / "d" / "manifest.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"schema_version .* run ncf prepare again"):
            dataset.load(tmp_path / "d")


@pytest.mark.parametrize("text", ["", "[1]", '{"schema_version": 1', '{"schema_version": 1}'])
def test_a_broken_manifest_is_one_line(tmp_path: Path, text: str) -> None:
    writing.save(tmp_path / "d", prepared())
    (tmp_path / "d" / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"manifest\.json: [^\n]*run ncf prepare again"):
        dataset.load(tmp_path / "d")


def test_no_folder_a_file_and_a_folder_of_something_else_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder; make one with `ncf prepare`"):
        dataset.load(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is not a folder"):
        dataset.load(tmp_path / "file")
    with pytest.raises(UserError, match=r"it has no manifest\.json"):
        dataset.load(tmp_path)


def test_an_existing_folder_is_replaced_only_by_force(tmp_path: Path) -> None:
    writing.save(tmp_path / "d", prepared())
    with pytest.raises(UserError, match="exists already; add --force"):
        writing.save(tmp_path / "d", prepared())
    moved = np.array([3, 2], np.int32)
    new = writing.save(tmp_path / "d", prepared(test_items=moved), force=True)
    assert new.test_items.tolist() == [3, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_force_never_replaces_what_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("all of it", encoding="utf-8")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="not a data folder"):
        writing.save(tmp_path / "thesis", prepared(), force=True)
    with pytest.raises(UserError, match="not a folder"):
        writing.save(tmp_path / "file", prepared(), force=True)
    assert (tmp_path / "thesis" / "chapter.txt").exists()


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert writing.save(tmp_path / "d", prepared()).n_users == 2


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_half_way_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    old = writing.save(tmp_path / "d", prepared())

    def fail(*_args: object, **_options: object) -> None:
        raise failure

    monkeypatch.setattr(writing, "write_json", fail)
    moved = prepared(test_items=np.array([3, 2], np.int32))
    shown = r"cannot be written \(No space left on device\)|^$"
    with pytest.raises((UserError, KeyboardInterrupt), match=shown):
        writing.save(tmp_path / "d", moved, force=True)
    assert dataset.verify(tmp_path / "d").hash == old.hash
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_an_interrupt_between_the_renames_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = writing.save(tmp_path / "d", prepared())
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writing.save(tmp_path / "d", prepared(), force=True)
    assert dataset.verify(tmp_path / "d").hash == old.hash
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
