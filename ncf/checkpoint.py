"""Checkpoints: one .npz file with every variable, the optimizer's state and what they belong to.

Written atomically by the first rank only; loaded by the first rank and broadcast. A checkpoint of
another model or data set is refused with the name of what differs. No pickles.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

META = "meta_json"


def save(path: Path, names: Sequence[str], values: Sequence[Any], meta: Mapping[str, Any]) -> None:
    """Write arrays and their meta data to path, whole or not at all.

    Raises:
        UserError: the folder cannot be written.
    """
    arrays = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
    arrays[META] = np.frombuffer(json.dumps(dict(meta)).encode(), np.uint8)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            savez: Any = np.savez  # typed so that array names clash with its options
            savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise UserError(f"--checkpoint_dir {path.parent}: {error.strerror or error}") from None


def load(
    path: Path, names: Sequence[str], variables: Sequence[Any], data_hash: str
) -> dict[str, Any]:
    """Assign the checkpoint's arrays to variables and return its meta data.

    Raises:
        UserError: missing or damaged file, other sizes, other data; nothing was assigned then.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            meta = json.loads(bytes(archive[META]).decode())
            arrays = {name: archive[name] for name in names if name in archive.files}
    except FileNotFoundError:
        raise UserError(f"--load_checkpoint_path {path}: no such file") from None
    except OSError as error:
        raise UserError(f"--load_checkpoint_path {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise UserError(
            f"--load_checkpoint_path {path}: damaged or no checkpoint of ours ({error})"
        ) from None
    for name, variable in zip(names, variables, strict=True):
        if name not in arrays:
            raise UserError(f"--load_checkpoint_path {path}: it has no {name}: another --layers?")
        if arrays[name].shape != tuple(variable.shape):
            raise UserError(
                f"--load_checkpoint_path {path}: {name} is {list(arrays[name].shape)} there and "
                f"{list(variable.shape)} here: other --factors, --layers or --data"
            )
    if meta.get("data_hash") != data_hash:
        raise UserError(
            f"--load_checkpoint_path {path}: trained on data {meta.get('data_hash')}, "
            f"not on {data_hash}: its rows belong to other users and items"
        )
    for name, variable in zip(names, variables, strict=True):
        variable.assign(arrays[name])
    return dict(meta)
