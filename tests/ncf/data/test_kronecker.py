"""Expanded data: each copy a thinned picture of the base, streamed, the same for any threads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ncf.__main__ import main
from ncf.data import dataset, kronecker, synthetic
from ncf.data import writer as writing
from ncf.data.split import Split, leave_one_out

SHAPE = synthetic.Shape(60, 80, 1_800, 4)


@pytest.fixture(scope="module")
def base() -> Split:
    made = synthetic.generate(SHAPE, 1)
    return leave_one_out(made.users, made.items, None, SHAPE.users, SHAPE.items, 20)


def blocks(base: Split, users: int, items: int, seed: int = 1, rows: int = 500):
    picture = kronecker.weights(base, users, items)
    return [
        kronecker.block(base, picture, seed, part) for part in kronecker.ranges(base, users, rows)
    ]


def histories(parts: list[kronecker.Block]) -> list[np.ndarray]:
    return [own for part in parts for own in np.split(part.items, np.cumsum(part.lengths)[:-1])]


def test_every_copy_is_a_subset_of_the_base_and_the_densest_block_is_whole(base: Split) -> None:
    picture = kronecker.weights(base, 3, 4)
    found = histories(blocks(base, 3, 4))
    assert len(found) == 3 * base.n_users
    for new, own in enumerate(found):
        copy, user = divmod(new, base.n_users)
        original = base.train_items[base.train_offsets[user] : base.train_offsets[user + 1]]
        assert (np.diff(own) > 0).all()
        block, item = np.divmod(own, base.n_items)
        assert set(item.tolist()) <= set(original.tolist())
        whole = item[block == picture[copy].argmax()]
        np.testing.assert_array_equal(whole, original)


def test_held_out_items_copy_the_bases_and_are_never_in_training(base: Split) -> None:
    parts = blocks(base, 3, 4)
    held_out = np.concatenate([part.held_out for part in parts])
    np.testing.assert_array_equal(held_out % base.n_items, np.tile(base.test_items, 3))
    assert len(set((held_out // base.n_items).tolist())) > 1
    for own, item in zip(histories(parts), held_out, strict=True):
        assert item not in own
    assert [part.first_user for part in parts] == sorted({part.first_user for part in parts})


def test_blocks_are_kept_as_often_as_the_picture_says(base: Split) -> None:
    picture = kronecker.weights(base, 2, 2)
    kept = np.zeros((2, 2))
    for seed in range(40):
        for new, own in enumerate(histories(blocks(base, 2, 2, seed))):
            kept[new // base.n_users] += np.bincount(own // base.n_items, minlength=2)
    share = kept / 40 / len(base.train_items)
    np.testing.assert_allclose(share, picture, atol=0.01)


def test_the_picture_has_the_tails_of_the_base(base: Split) -> None:
    picture = kronecker.weights(base, 3, 4)
    assert picture.shape == (3, 4)
    assert (picture.max(axis=1) == 1.0).all()
    assert (np.diff(picture[0]) < 0).all()  # from the most to the least popular items
    assert picture[0].sum() > picture[2].sum()  # from the busiest users to the quietest


def test_a_picture_needs_as_many_users_and_items(base: Split) -> None:
    with pytest.raises(ValueError, match="too few to be pictured as 61 x 1"):
        kronecker.weights(base, 61, 1)
    with pytest.raises(ValueError, match="too few"):
        kronecker.weights(base, 1, 81)


def test_an_expansion_of_one_by_one_is_the_base(base: Split) -> None:
    parts = blocks(base, 1, 1)
    np.testing.assert_array_equal(np.concatenate([p.items for p in parts]), base.train_items)
    np.testing.assert_array_equal(np.concatenate([p.held_out for p in parts]), base.test_items)


def synthesize(folder: Path, *words: str) -> dataset.Data:
    command = ["synthesize", "--preset", "tiny", "--output", str(folder), *words]
    assert main(command) == 0
    return dataset.verify(folder)


def test_a_scaled_folder_is_complete_and_says_how_it_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = synthesize(tmp_path / "d", "--scale", "4x3", "--protocol", "unique", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (data.n_users, data.n_items, data.n_test) == (800, 900, 800)
    assert data.name == "synthetic-tiny-x4x3"
    assert told["source"]["scale"] == "4x3"
    assert told["summary"]["base"] == {"users": 200, "items": 300, "copies": [4, 3]}
    assert told["summary"]["history"]["min"] >= 20
    assert told["candidates"]["effective_mean"] == 100.0
    assert data.user_id(799) == "800"
    for user in range(0, 800, 7):
        own = data.train_items[data.train_offsets[user] : data.train_offsets[user + 1]]
        seen = {*own.tolist(), int(data.test_items[user])}
        assert not seen & set(data.candidates[user].tolist())
        assert len(set(data.candidates[user].tolist())) == 100


def test_threads_change_no_bit_of_an_expansion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing.blocks, "__defaults__", (1000,))
    one = synthesize(tmp_path / "a", "--scale", "3x2", "--threads", "1")
    many = synthesize(tmp_path / "b", "--scale", "3x2", "--threads", "4")
    assert one.manifest["arrays"] == many.manifest["arrays"]


def test_a_failure_while_streaming_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.ArrayFile, "append", full)
    command = ["synthesize", "--preset", "tiny", "--scale", "2x2", "--output", str(tmp_path / "d")]
    assert main(command) == 2
    assert list(tmp_path.iterdir()) == []


def test_real_ratings_can_be_expanded_too(tmp_path: Path) -> None:
    rows = "".join(f"{u},{(u * 7 + n * 3) % 40}\n" for u in range(30) for n in range(25))
    (tmp_path / "r.csv").write_text("user,item\n" + rows, encoding="utf-8")
    command = ["prepare", str(tmp_path / "r.csv"), "--scale", "2x2", "--output"]
    assert main([*command, str(tmp_path / "d")]) == 0
    data = dataset.verify(tmp_path / "d")
    assert (data.name, data.n_users, data.n_items) == ("r-x2x2", 60, 80)


def test_an_array_file_is_what_numpy_would_have_written(tmp_path: Path) -> None:
    table = np.arange(3000, dtype=np.int32).reshape(1000, 3)
    with writing.ArrayFile(tmp_path / "a.npy", "int32", 3) as file:
        for part in np.array_split(table, 7):
            file.append(part)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), table)
    joined = np.concatenate(list(writing.blocks(tmp_path / "a.npy", 100)))
    np.testing.assert_array_equal(joined, table)
