"""A small planted data set for tests: two groups of users, each liking half of the items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ncf.data import candidates, dataset
from ncf.data import writer as writing
from ncf.ranks import horovod as distributed

if TYPE_CHECKING:
    from pathlib import Path


def toy_folder(
    folder: Path, users: int = 60, items: int = 40, per_user: int = 12, negatives: int = 20
) -> dataset.Data:
    rng = np.random.default_rng(7)
    half = items // 2
    rows = []
    for user in range(users):
        liked = rng.permutation(half)[: per_user - 2] + half * (user % 2)
        other = rng.permutation(half)[:2] + half * (1 - user % 2)
        rows.append(rng.permutation(np.concatenate([liked, other])))
    held_out = np.array([row[-1] for row in rows], np.int32)
    train = np.concatenate([np.sort(row[:-1]) for row in rows]).astype(np.int32)
    offsets = np.arange(users + 1, dtype=np.int64) * (per_user - 1)
    test_users = np.arange(users, dtype=np.int32)
    history = candidates.History(offsets, train, test_users, held_out, items)
    drawn = candidates.draw(history, candidates.Drawing("nvidia", negatives, 1))
    ids = {}
    for kind, count in (("user", users), ("item", items)):
        text = [str(i + 1).encode() for i in range(count)]
        ids[f"{kind}_ids"] = np.frombuffer(b"".join(text), np.uint8)
        ids[f"{kind}_id_offsets"] = np.cumsum([0, *map(len, text)]).astype(np.int64)
    arrays = {
        "train_items": train,
        "train_offsets": offsets,
        "test_users": test_users,
        "test_items": held_out,
        "candidates": drawn,
        **ids,
    }
    about = {
        "name": "toy",
        "source": None,
        "split": {},
        "summary": {},
        "candidates": {"protocol": "nvidia", "per_user": negatives, "seed": 1},
        "hr_at_10": {},
    }
    return writing.save(folder, writing.Prepared(arrays, about))


def import_tensorflow() -> Any:
    """TensorFlow with the threads that a run of its own sets, which cannot be changed later."""
    tensorflow = pytest.importorskip("tensorflow")
    distributed.prepare_devices(distributed.Place(), threads=0)
    return tensorflow
