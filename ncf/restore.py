"""The weights of a checkpoint, without optimizer and training: what using a model needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncf import checkpoint, model
from ncf.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from ncf.dataset import Data


@dataclass(frozen=True)
class Restored:
    """A model read from a file, and what the file says about itself."""

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
        path: a checkpoint, or a folder with one; see `checkpoint.find`.
        option: the option that named it, for messages.
        data: refuse a model that was made on other data.

    Raises:
        UserError: missing or damaged, or made on other data.
    """
    import tensorflow as tf

    found = checkpoint.find(path, option)
    reader = checkpoint.Reader(found, option)
    if data is not None:
        reader.belong_to(belongs(data))
    config = reader.meta.get("config")
    try:
        factors, layers = int(config["factors"]), tuple(map(int, config["layers"]))  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise UserError(f"{option} {found}: its meta data lack the model's sizes") from None
    users, items = (_rows(reader, name) for name in ("gmf_user", "gmf_item"))
    shapes = model.shapes(users, items, factors, layers)
    arrays = reader.arrays(list(shapes), list(shapes.values()))
    broken = [name for name, array in zip(shapes, arrays, strict=True) if not _finite(array)]
    if broken:
        raise UserError(
            f"{option} {found}: {', '.join(broken)} hold numbers that are not finite: this model "
            "has diverged; take an earlier checkpoint"
        )
    variables = [tf.Variable(array, trainable=False) for array in arrays]
    return Restored(found, model.assembled(variables), reader.meta)


def belongs(data: Data) -> checkpoint.Belongs:
    """What a checkpoint of these data must say."""
    return checkpoint.Belongs(data.n_users, data.n_items, data.hash, data.ids_hash)


def _finite(array: Any) -> bool:
    import numpy as np

    return bool(np.isfinite(array).all())


def _rows(reader: checkpoint.Reader, name: str) -> int:
    known = reader.meta.get("users" if name == "gmf_user" else "items")
    return int(known) if isinstance(known, int) else int(reader.array(name).shape[0])
