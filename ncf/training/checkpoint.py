"""Checkpoints: one .npz file with every variable, the optimizer's state and the data's identity.

Written atomically by the first rank only; loaded by the first rank and broadcast. The file holds
whole tables in the data's order of users, however many ranks trained and however they shared the
work. A checkpoint of another model or data set is refused with the name of what differs, a damaged
one with the name of the array that is damaged: every array is read with its checksum. No pickles.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf.errors import UserError
from ncf.record import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ncf.data.dataset import Data
    from ncf.model import neumf as model

META = "meta_json"
BEST, LAST = "best.npz", "last.npz"

# What zipfile and numpy raise on damaged bytes.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, IndexError, SyntaxError,
    NotImplementedError, RuntimeError, OverflowError, MemoryError, TypeError,
)  # fmt: skip


@dataclass(frozen=True)
class DataIdentity:
    """Identity of the data behind a checkpoint's rows: sizes, split and ids."""

    users: int
    items: int
    data_hash: str
    ids_hash: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, part of a checkpoint's meta data."""
        return dict(self.__dict__)

    def differs(self, meta: Mapping[str, Any]) -> str | None:
        """How a checkpoint's data differ, or None. An older checkpoint lacks some of the facts."""
        for name, what in (("users", "users"), ("items", "items")):
            if meta.get(name, getattr(self, name)) != getattr(self, name):
                return f"made for {meta[name]} {what}, and these data have {getattr(self, name)}"
        if meta.get("ids_hash", self.ids_hash) != self.ids_hash:
            return (
                f"made with other ids ({meta['ids_hash']}, not {self.ids_hash}): its rows belong "
                "to other users and items"
            )
        if meta.get("data_hash") != self.data_hash:
            return (
                f"trained on data {meta.get('data_hash')}, not on {self.data_hash}: its rows may "
                "belong to other users and items, and it may have seen what is held out here"
            )
        return None


def save(path: Path, names: Sequence[str], values: Sequence[Any], meta: Mapping[str, Any]) -> None:
    """Write arrays and their meta data to path, whole or not at all.

    Raises:
        UserError: the folder cannot be written.
    """
    arrays = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
    arrays[META] = np.frombuffer(json.dumps(dict(meta)).encode(), np.uint8)
    savez: Any = np.savez  # typed so that array names clash with its options
    try:
        write_file(path, lambda file: savez(file, **arrays))
    except OSError as error:
        raise UserError(f"--checkpoint_dir {path.parent}: {error.strerror or error}") from None


def find(path: Path, option: str) -> Path:
    """The checkpoint file: path itself, or the best in a folder, or else the last.

    Raises:
        UserError: the folder contains neither; names the option.
    """
    try:
        if not path.is_dir():
            return path
        for name in (BEST, LAST):
            if (path / name).is_file():
                return path / name
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror or error}") from None
    raise UserError(
        f"{option} {path}: contains neither {BEST} nor {LAST}; "
        "`ncf train --checkpoint_dir` writes them"
    )


class Reader:
    """An open checkpoint. Every array is checked against its checksum when it is read.

    Args:
        path: the file.
        option: the option that named it, for messages.

    Raises:
        UserError: it is missing, unreadable, damaged, or not a checkpoint of ncf.
    """

    def __init__(self, path: Path, option: str = "--load_checkpoint_path") -> None:
        self._where = f"{option} {path}"
        self._path = path
        self.names: frozenset[str] = frozenset()
        self.meta: dict[str, Any] = {}
        try:
            with zipfile.ZipFile(path) as archive:
                self.names = frozenset(name.removesuffix(".npy") for name in archive.namelist())
        except FileNotFoundError:
            raise UserError(f"{self._where}: no such file") from None
        except OSError as error:
            raise UserError(f"{self._where}: {error.strerror or error}") from None
        except _DAMAGE as error:
            raise self._damaged(f"not a whole .npz file: {_first(error)}") from None
        if META not in self.names:
            raise self._damaged(f"no {META} in it")
        try:
            self.meta = dict(json.loads(bytes(self.array(META)).decode()))
        except (ValueError, TypeError):
            raise self._damaged(f"{META} is not a JSON object") from None

    def array(self, name: str) -> Any:
        """One array, its checksum compared.

        Raises:
            UserError: it is missing or damaged.
        """
        try:
            with zipfile.ZipFile(self._path) as archive:
                content = archive.read(f"{name}.npy")  # compares the CRC-32
            return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        except OSError as error:
            raise UserError(f"{self._where}: {error.strerror or error}") from None
        except _DAMAGE as error:
            raise self._damaged(f"{name}: {_first(error)}") from None

    def arrays(self, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> list[Any]:
        """Arrays by name, each of the given shape and of the type float32.

        Raises:
            UserError: an array is missing, damaged, or of another shape or type; names it.
        """
        arrays = []
        for name, shape in zip(names, shapes, strict=True):
            if name not in self.names:
                raise UserError(f"{self._where}: it has no {name}: another --layers?")
            array = self.array(name)
            if array.shape != tuple(shape):
                raise UserError(
                    f"{self._where}: {name} is {list(array.shape)} there and "
                    f"{list(shape)} here: other --factors, --layers or --data"
                )
            if array.dtype != np.float32:
                raise self._damaged(f"{name} is {array.dtype}, not float32")
            arrays.append(array)
        return arrays

    def check_data(self, data: DataIdentity) -> None:
        """Raise a UserError unless the checkpoint was made on these data."""
        if differs := data.differs(self.meta):
            raise UserError(f"{self._where}: {differs}")

    def _damaged(self, what: str) -> UserError:
        return UserError(
            f"{self._where}: damaged or not a checkpoint of ncf ({what}); take another, such as "
            f"{LAST} or {BEST} in the same folder, or train again"
        )


def best_hr(folder: Path) -> float:
    """HR@k of the best checkpoint in a folder, which a resumed run must not overwrite; else -1."""
    try:
        return float(Reader(folder / BEST).meta.get("hr_at_k") or -1.0)
    except (UserError, ValueError, TypeError):
        return -1.0


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True)
class Restored:
    """The weights of a checkpoint, without the optimizer, and what the file says about itself."""

    path: Path
    parameters: model.Parameters
    meta: dict[str, Any]

    @property
    def epoch(self) -> int:
        """The epoch after which it was written."""
        return int(self.meta.get("epoch", 0))


def restore(path: Path, option: str, data: Data | None = None) -> Restored:
    """Read a model.

    Args:
        path: a checkpoint, or a folder with one; see `find`.
        option: the option that named it, for messages.
        data: refuse a model that was made on other data.

    Raises:
        UserError: missing or damaged, or made on other data.
    """
    import tensorflow as tf

    from ncf.model import neumf as model

    file = find(path, option)
    reader = Reader(file, option)
    if data is not None:
        reader.check_data(identity_of(data))
    config = reader.meta.get("config")
    try:
        factors, layers = int(config["factors"]), tuple(map(int, config["layers"]))  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise UserError(f"{option} {file}: its meta data lack the model's sizes") from None
    users, items = (_rows(reader, name) for name in ("gmf_user", "gmf_item"))
    shapes = model.shapes(users, items, factors, layers)
    arrays = reader.arrays(list(shapes), list(shapes.values()))
    broken = [
        name for name, array in zip(shapes, arrays, strict=True) if not np.isfinite(array).all()
    ]
    if broken:
        raise UserError(
            f"{option} {file}: {', '.join(broken)} hold numbers that are not finite: this model "
            "has diverged; take an earlier checkpoint"
        )
    variables = [tf.Variable(array, trainable=False) for array in arrays]
    return Restored(file, model.assembled(variables), reader.meta)


def identity_of(data: Data) -> DataIdentity:
    """The identity that a checkpoint of these data must have."""
    return DataIdentity(data.n_users, data.n_items, data.hash, data.ids_hash)


def _rows(reader: Reader, name: str) -> int:
    rows = reader.meta.get("users" if name == "gmf_user" else "items")
    return int(rows) if isinstance(rows, int) else int(reader.array(name).shape[0])
