"""The prepared data set on disk: plain .npy arrays and a JSON manifest, memory-mapped to train.

The manifest names every array with its type, shape and SHA-256; `load` checks all but the hashes
(for which it would have to read everything), `verify` checks those too. Nothing is ever unpickled.
`writer` makes these folders.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf.errors import UserError
from ncf.readers.ids import Ids
from ncf.record import RecordError, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

SCHEMA_VERSION: Final = 1
"""History: 1 (2026-11) first form."""

MANIFEST: Final = "manifest.json"

DTYPES: Final[Mapping[str, str]] = {
    "train_items": "int32",
    "train_offsets": "int64",
    "test_users": "int32",
    "test_items": "int32",
    "candidates": "int32",
    "user_ids": "uint8",
    "user_id_offsets": "int64",
    "item_ids": "uint8",
    "item_id_offsets": "int64",
}

_HASHED: Final = ("train_offsets", "train_items", "test_users", "test_items")
"""What the dataset hash covers: the split, not the candidates drawn for it."""


@dataclass(frozen=True)
class Data:
    """A loaded folder. The arrays are read-only views of the files."""

    folder: Path
    manifest: Mapping[str, Any]
    train_items: npt.NDArray[np.int32]
    train_offsets: npt.NDArray[np.int64]
    test_users: npt.NDArray[np.int32]
    test_items: npt.NDArray[np.int32]
    candidates: npt.NDArray[np.int32]
    user_ids: npt.NDArray[np.uint8]
    user_id_offsets: npt.NDArray[np.int64]
    item_ids: npt.NDArray[np.uint8]
    item_id_offsets: npt.NDArray[np.int64]

    @property
    def n_users(self) -> int:
        """Users, each with at least one training row."""
        return len(self.train_offsets) - 1

    @property
    def n_items(self) -> int:
        """Items of training and test together."""
        return len(self.item_id_offsets) - 1

    @property
    def n_train(self) -> int:
        """Training positives."""
        return len(self.train_items)

    @property
    def n_test(self) -> int:
        """Test users, one held-out item each."""
        return len(self.test_users)

    @property
    def name(self) -> str:
        """The name of the data in reports."""
        return str(self.manifest["name"])

    @property
    def hash(self) -> str:
        """Identity of the split: equal for equal splits, whatever the candidates."""
        return str(self.manifest["hash"])

    @property
    def ids_hash(self) -> str:
        """Identity of the numbering: which source ids the users and items 0, 1, ... stand for."""
        names = ("user_ids", "user_id_offsets", "item_ids", "item_id_offsets")
        listed = [str(self.manifest["arrays"][name].get("sha256")) for name in names]
        return hashlib.sha256("\n".join(listed).encode()).hexdigest()[:16]

    def user_id(self, user: int) -> str:
        """The id of this user in the source."""
        return Ids(self.user_ids, self.user_id_offsets).text_of(user)

    def item_id(self, item: int) -> str:
        """The id of this item in the source."""
        return Ids(self.item_ids, self.item_id_offsets).text_of(item)


def digest(array: npt.NDArray[Any]) -> str:
    """SHA-256 of an array's type, shape and little-endian bytes, in hex."""
    array = np.asarray(array)
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return digest_of(array.dtype.name, array.shape, [plain.reshape(-1).view(np.uint8).data])


def digest_of(dtype: str, shape: tuple[int, ...], blocks: Iterable[bytes | memoryview]) -> str:
    """The digest of an array whose little-endian bytes come in blocks."""
    state = hashlib.sha256(f"{dtype}[{','.join(map(str, shape))}]".encode())
    for block in blocks:
        state.update(block)
    return state.hexdigest()


def load(folder: Path) -> Data:
    """Map a data folder into memory and check it against its manifest, without reading it all.

    Raises:
        UserError: no folder, no manifest, a newer schema, or an array that is missing,
            truncated or not what the manifest says; names it and the way out.
    """
    with os_errors(folder, "read"):
        there = (folder / MANIFEST).exists()
    if not there:
        problem = "no such folder" if not folder.exists() else "is not a folder"
        if folder.is_dir():
            problem = f"is not a data folder (it has no {MANIFEST})"
        raise UserError(f"{folder}: {problem}; make one with `ncf prepare` or `ncf synthesize`")
    try:
        manifest = read_json(folder / MANIFEST)
    except RecordError as error:
        raise UserError(f"{error}; run ncf prepare again") from None
    version = manifest.get("schema_version")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        problem = f"schema_version {version!r}, and this program reads up to {SCHEMA_VERSION}"
        raise _unusable(folder / MANIFEST, problem)
    listed = manifest.get("arrays")
    if not isinstance(listed, dict) or not isinstance(manifest.get("hash"), str):
        raise _unusable(folder / MANIFEST, "lacks arrays or hash")
    arrays = {name: _map(folder, name, listed.get(name)) for name in DTYPES}
    _check_fit(folder, arrays)
    return Data(folder=folder, manifest=manifest, **arrays)


def verify(folder: Path) -> Data:
    """Load a folder, then read all of it and compare every hash.

    Raises:
        UserError: as `load`, or an array whose content has changed.
    """
    data = load(folder)
    hashes = {name: digest(getattr(data, name)) for name in DTYPES}
    for name, digest_now in hashes.items():
        if digest_now != data.manifest["arrays"][name].get("sha256"):
            raise _unusable(folder / f"{name}.npy", "content has changed")
    if data.hash != split_hash(hashes, data.n_users, data.n_items):
        raise _unusable(folder / MANIFEST, "hash does not fit")
    return data


def split_hash(hashes: Mapping[str, str], n_users: int, n_items: int) -> str:
    """Identity of a split, from the hashes of its arrays and its sizes."""
    text = "\n".join([f"{n_users} users {n_items} items", *(hashes[name] for name in _HASHED)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _map(folder: Path, name: str, entry: object) -> npt.NDArray[Any]:
    """Memory-map one array; its size on disk must be exactly what its header promises."""
    path = folder / f"{name}.npy"
    if not isinstance(entry, dict):
        raise _unusable(folder / MANIFEST, f"does not list {name}")
    if not path.is_file():
        raise _unusable(path, "missing")
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        size = path.stat().st_size
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    except (ValueError, EOFError, SyntaxError):
        raise _unusable(path, "truncated or not a .npy file") from None
    if not isinstance(mapped, np.memmap) or size != mapped.offset + mapped.nbytes:
        raise _unusable(path, f"wrong file size ({size} bytes)")
    actual = f"{mapped.dtype.name} {list(mapped.shape)}"
    listed = f"{DTYPES[name]} {entry.get('shape')}"
    if actual != listed or mapped.ndim != (2 if name == "candidates" else 1):
        raise _unusable(path, f"holds {actual}, not {listed} as in the manifest")
    return mapped.view(np.ndarray)


def _check_fit(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Check that the shapes fit each other; otherwise an index would fail far into training."""
    n_test = arrays["test_users"].shape[0]
    fits = {
        "train_items": arrays["train_offsets"][-1] == arrays["train_items"].shape[0],
        "test_items": arrays["test_items"].shape == (n_test,),
        "candidates": arrays["candidates"].shape[0] == n_test,
        "user_id_offsets": arrays["user_id_offsets"].shape == arrays["train_offsets"].shape,
        "user_ids": arrays["user_id_offsets"][-1] == arrays["user_ids"].shape[0],
        "item_ids": arrays["item_id_offsets"][-1] == arrays["item_ids"].shape[0],
    }
    for name, fit in fits.items():
        if not fit:
            raise _unusable(folder / f"{name}.npy", "does not fit the other arrays")


def _unusable(path: Path, problem: str) -> UserError:
    return UserError(f"{path}: {problem}; run ncf prepare again")


@contextlib.contextmanager
def os_errors(folder: Path, how: str) -> Iterator[None]:
    """Turn an error of the operating system (permission, full disk) into one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder}: cannot be {how} ({error.strerror or error})") from None
