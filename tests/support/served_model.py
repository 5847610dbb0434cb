"""A small model with random weights, as `ncf recommend`, `infer` and `export` find it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ncf.model.reference import gather_rows, logits


def scores_of(made, user: int, items: int) -> np.ndarray:
    users = tf.fill([items], user)
    return logits(gather_rows(made, users, tf.range(items)), made, tf.float32).numpy()


def ids_of(data, order) -> list[str]:
    return [data.item_id(int(item)) for item in order]
