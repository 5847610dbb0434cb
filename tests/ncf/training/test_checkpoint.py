"""Checkpoints: whole or not there, and every damage or mismatch is one line with its name."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ncf import record
from ncf.errors import UserError
from ncf.training import checkpoint

NAMES = ["gmf_user", "gmf_item", "kernel_0"]
SHAPES = [(60, 8), (40, 8), (32, 16)]
HERE = checkpoint.DataIdentity(60, 40, "d" * 16, "e" * 16)


def values() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]


def saved(path: Path, belongs: checkpoint.DataIdentity = HERE, **meta) -> Path:
    checkpoint.save(path, NAMES, values(), {"epoch": 3, **belongs.to_dict(), **meta})
    return path


def loaded(path: Path, here: checkpoint.DataIdentity = HERE) -> list[np.ndarray]:
    option = "--load_checkpoint_path"
    reader = checkpoint.Reader(checkpoint.find(path, option), option)
    reader.check_data(here)
    return reader.arrays(NAMES, SHAPES)


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path) -> None:
    for written, read in zip(values(), loaded(saved(tmp_path / "last.npz")), strict=True):
        assert written.tobytes() == read.tobytes()


def test_a_folder_stands_for_its_best_checkpoint_then_its_last(tmp_path) -> None:
    saved(tmp_path / "last.npz")
    assert checkpoint.find(tmp_path, "--checkpoint").name == "last.npz"
    saved(tmp_path / "best.npz")
    assert checkpoint.find(tmp_path, "--checkpoint").name == "best.npz"


def test_a_checkpoint_from_before_sizes_and_ids_were_kept_still_loads(tmp_path) -> None:
    path = tmp_path / "old.npz"
    checkpoint.save(path, NAMES, values(), {"epoch": 1, "data_hash": HERE.data_hash})
    assert loaded(path)[0].shape == (60, 8)


def cut(keep: float):
    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])

    return damage


def flip(place: float):
    """Flip a bit of an array's content, a share of the way through the file."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(len(content) * place)] ^= 4
        path.write_bytes(bytes(content))

    return damage


def header(wrong: bytes, right: bytes):
    """Change the text of an array's header, and mend the checksum: only the header is wrong."""

    def damage(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content.replace(right, wrong, 1))

    return damage


def without(name: str):
    def damage(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {n: archive.read(n) for n in archive.namelist() if n != f"{name}.npy"}
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)

    return damage


def replaced(content: bytes):
    return lambda path: path.write_bytes(content)


def other(**changes):
    def damage(path: Path) -> None:
        saved(path, checkpoint.DataIdentity(**{**HERE.to_dict(), **changes}))

    return damage


def reshaped(path: Path) -> None:
    arrays = [values()[0][:, :4], *values()[1:]]
    checkpoint.save(path, NAMES, arrays, HERE.to_dict())


def pickled(path: Path) -> None:
    np.savez(path, gmf_user=np.array([{"a": 1}], object))


def a_folder_without_checkpoints(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGED = "damaged or not a checkpoint of ncf"
DAMAGES = {
    "empty": (replaced(b""), DAMAGED),
    "text": (replaced(b"this is no zip file"), DAMAGED),
    "json": (replaced(b"{}"), DAMAGED),
    "cut to 1 %": (cut(0.01), DAMAGED),
    "cut to half": (cut(0.5), DAMAGED),
    "cut by a little": (cut(0.99), DAMAGED),
    "bit in the first array": (flip(0.15), r"gmf_user: Bad CRC-32"),
    "bit in the second array": (flip(0.45), r"gmf_item: Bad CRC-32"),
    "bit in the last array": (flip(0.75), r"kernel_0: Bad CRC-32"),
    "other type": (header(b"<i4", b"<f4"), "gmf_user is int32, not float32"),
    "a shape larger than the file": (header(b"(90, 8)", b"(60, 8)"), DAMAGED),
    "no header": (header(b"\x93NUMPX", b"\x93NUMPY"), DAMAGED),
    "no meta data": (without("meta_json"), "no meta_json"),
    "meta data that are no JSON": (header(b"[", b"{"), DAMAGED),
    "a missing array": (without("kernel_0"), "it has no kernel_0: another --layers"),
    "a pickle": (pickled, DAMAGED),
    "other widths": (reshaped, r"gmf_user is \[60, 4\] there and \[60, 8\] here"),
    "other users": (other(users=61), "made for 61 users, and these data have 60"),
    "other items": (other(items=7), "made for 7 items, and these data have 40"),
    "other ids": (other(ids_hash="f" * 16), "made with other ids"),
    "other data": (other(data_hash="0" * 16), "trained on data 0000000000000000"),
    "an empty folder": (a_folder_without_checkpoints, r"contains neither best\.npz nor last\.npz"),
    "gone": (lambda path: path.unlink(), "no such file"),
}


def test_there_are_twenty_kinds_of_damage_and_more() -> None:
    assert len(DAMAGES) >= 20


@pytest.mark.parametrize("kind", DAMAGES)
def test_every_damage_is_one_line_that_names_file_and_fault(kind, tmp_path) -> None:
    damage, said = DAMAGES[kind]
    path = saved(tmp_path / "last.npz")
    damage(path)
    with pytest.raises(UserError, match=said) as caught:
        loaded(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"--load_checkpoint_path {path}")


@pytest.mark.parametrize("place", np.linspace(0.02, 0.98, 49))
def test_no_flipped_bit_anywhere_is_loaded_as_other_numbers(place, tmp_path) -> None:
    path = saved(tmp_path / "last.npz")
    flip(place)(path)
    try:
        found = loaded(path)
    except UserError:
        return
    for written, read in zip(values(), found, strict=True):  # a bit that means nothing
        assert written.tobytes() == read.tobytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path) -> None:
    path = saved(tmp_path / "last.npz")
    path.chmod(0)
    with pytest.raises(UserError, match="Permission denied"):
        loaded(path)


def test_a_file_that_the_system_refuses_is_named(tmp_path, monkeypatch) -> None:
    path = saved(tmp_path / "last.npz")

    def refused(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint.zipfile, "ZipFile", refused)
    with pytest.raises(UserError, match=r"last\.npz: Permission denied"):
        loaded(path)


def test_a_full_disk_leaves_the_checkpoint_before_and_no_rest(tmp_path, monkeypatch) -> None:
    path = saved(tmp_path / "last.npz")
    before = path.read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"--checkpoint_dir .*: No space left on device"):
        saved(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_best_of_previous_run_is_read_and_a_damaged_one_is_none(tmp_path) -> None:
    assert checkpoint.best_hr(tmp_path) == -1.0
    path = saved(tmp_path / "best.npz", hr_at_k=0.5)
    assert checkpoint.best_hr(tmp_path) == 0.5
    cut(0.5)(path)
    assert checkpoint.best_hr(tmp_path) == -1.0


def test_a_checkpoint_of_any_number_of_ranks_loads_on_any_other(tmp_path) -> None:
    eight = loaded(saved(tmp_path / "last.npz", world_size=8))
    assert [array.shape for array in eight] == SHAPES


class Others:
    """Rank 1 of 2: what the first rank broadcasts is given, what this one would write is not."""

    is_first, rank, size = False, 1, 2

    def __init__(self, told) -> None:
        self.told, self.broadcasts = told, 0

    def broadcast_object(self, _value):
        return self.told

    def broadcast(self, _variables) -> None:
        self.broadcasts += 1


def second_rank(told, shard=None):
    """A run's state on a rank that is not the first."""
    state = pytest.importorskip("ncf.training.state")
    parameters = SimpleNamespace(names=list, flat=list)
    step = SimpleNamespace(state=lambda: [SimpleNamespace(shape=(1,), numpy=lambda: 0)] * 3)
    return state.TrainState(parameters, step, Others(told), shard)


def test_only_the_first_rank_reads_and_all_take_over_what_it_found() -> None:
    second = second_rank({"epoch": 3})
    assert second.load(Path("absent"), HERE) == {"epoch": 3}
    assert second._ranks.broadcasts == 1


def test_checkpoint_refused_by_rank_0_ends_all_ranks_with_its_reason() -> None:
    with pytest.raises(UserError, match="made for 61 users"):
        second_rank("made for 61 users").load(Path("absent"), HERE)


def test_only_the_first_rank_writes(tmp_path) -> None:
    second = second_rank(None, shard=object())  # it brings its rows
    second.save(tmp_path, record.Epoch(1, 1, 1, 1.0, 1, 1.0, 0.5, hr_at_k=0.5), {})
    assert list(tmp_path.iterdir()) == []
