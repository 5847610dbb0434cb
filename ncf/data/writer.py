"""Writing a data folder: built next to its final place and renamed, so complete or absent."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf.data.dataset import (
    DTYPES,
    MANIFEST,
    SCHEMA_VERSION,
    Data,
    digest_of,
    load,
    os_errors,
    split_hash,
)
from ncf.errors import UserError
from ncf.record import write_json
from ncf.runtime.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

_BLOCK_BYTES: Final = 1 << 22


@dataclass(frozen=True)
class Prepared:
    """A split with its candidates, ready to be written.

    `arrays` holds every array of the folder by name: train_items [n_train], train_offsets
    [n_users + 1], test_users and test_items [n_test], candidates [n_test, n], and the ids as
    concatenated bytes with offsets. `about` holds the manifest's descriptive parts, as plain
    JSON data: name, source, split, summary, candidates, hr_at_10.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    about: Mapping[str, Any]


def check_target(folder: Path, *, force: bool) -> None:
    """Check, before any work is done, that a data folder may be written to a place.

    Raises:
        UserError: something is there already; with `force`, something other than a data folder.
    """
    with os_errors(folder, "written"):
        if not folder.exists() and not folder.is_symlink():
            return
        if not folder.is_dir():
            raise UserError(f"{folder}: exists and is not a folder; choose another --output")
        if next(folder.iterdir(), None) is None:
            return
        if not (folder / MANIFEST).is_file():
            raise UserError(f"{folder}: not empty and not a data folder; choose another --output")
        if not force:
            raise UserError(f"{folder}: exists already; add --force to replace it")


def save(folder: Path, data: Prepared, *, force: bool = False, threads: int = 1) -> Data:
    """Write a data folder and load it back.

    With `force` an existing data folder is replaced, and removed only once the new one is whole.

    Raises:
        UserError: the place is taken (see `check_target`) or cannot be written.
    """
    with building(folder, force=force) as built:
        for name, dtype in DTYPES.items():
            array = np.ascontiguousarray(data.arrays[name], dtype)
            np.save(built / f"{name}.npy", array, allow_pickle=False)
        write_manifest(built, data.about, threads)
    return load(folder)


@contextlib.contextmanager
def building(folder: Path, *, force: bool = False) -> Iterator[Path]:
    """A new folder to fill; it is renamed to its final place when the block ends without an error.

    Raises:
        UserError: as `save`.
    """
    check_target(folder, force=force)
    target = folder.resolve()
    with os_errors(folder, "written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            built = temporary / "new"
            built.mkdir()
            yield built
            aside = temporary / "old"
            try:
                if target.exists():
                    target.rename(aside)
                built.rename(target)
            except BaseException:  # after an interrupt too the old folder must be back in its place
                if aside.exists():
                    aside.rename(target)
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


class ArrayFile:
    """A .npy file that grows by rows; it is complete when the `with` block ends."""

    def __init__(self, path: Path, dtype: str, columns: int | None = None) -> None:
        self.path, self.rows = path, 0
        self._dtype, self._columns = np.dtype(dtype), columns

    def __enter__(self) -> ArrayFile:  # noqa: PYI034 - Self needs Python 3.11
        self._file = self.path.open("w+b")
        self._write_header()
        self._start = self._file.tell()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._file.seek(0)
            self._write_header()
            if self._file.tell() != self._start:
                raise ValueError("the header of a .npy file has grown")
        self._file.close()

    def append(self, block: npt.NDArray[Any]) -> None:
        """Add rows: [n], or [n, columns]."""
        self._file.write(np.ascontiguousarray(block, self._dtype).data)
        self.rows += len(block)

    def _write_header(self) -> None:
        shape = (self.rows,) if self._columns is None else (self.rows, self._columns)
        # NumPy leaves room for the first size to grow, which the second writing relies on.
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


def blocks(path: Path, block_bytes: int = _BLOCK_BYTES) -> Iterator[npt.NDArray[Any]]:
    """The rows of a .npy file in blocks, read and not mapped, so that memory stays small."""
    with path.open("rb") as file:
        shape, dtype = _read_header(file)
        row = dtype.itemsize * int(np.prod(shape[1:]))
        rows = max(1, block_bytes // row)
        for start in range(0, shape[0], rows):
            count = min(rows, shape[0] - start)
            yield np.frombuffer(file.read(count * row), dtype).reshape(count, *shape[1:])


def write_manifest(folder: Path, about: Mapping[str, Any], threads: int = 1) -> None:
    """Write the manifest with shapes and hashes of the arrays in the folder."""
    entries = in_order(_entry, [folder / f"{name}.npy" for name in DTYPES], threads)
    listed = dict(zip(DTYPES, entries, strict=True))
    n_users = listed["train_offsets"]["shape"][0] - 1
    n_items = listed["item_id_offsets"]["shape"][0] - 1
    hashes = {name: entry["sha256"] for name, entry in listed.items()}
    about = dict(about)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "name": about.pop("name"),
        "hash": split_hash(hashes, n_users, n_items),
        "users": n_users,
        "items": n_items,
        "train_interactions": listed["train_items"]["shape"][0],
        "test_users": listed["test_users"]["shape"][0],
        **about,
        "arrays": listed,
    }
    manifest["candidates"] = {**manifest["candidates"], "hash": hashes["candidates"]}
    write_json(folder / MANIFEST, manifest)


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        shape, dtype = _read_header(file)
    content = (block.reshape(-1).view(np.uint8).data for block in blocks(path))
    sha256 = digest_of(dtype.name, shape, content)
    return {"dtype": dtype.name, "shape": list(shape), "sha256": sha256}


def _read_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype
