"""One update on several ranks: what one of them skips, all of them skip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy import import_tensorflow

tf = import_tensorflow()

from ncf.optimizer import Adam  # noqa: E402 - after TensorFlow has its threads
from ncf.update import LossScale, Update  # noqa: E402

pytestmark = pytest.mark.tf


class Both:
    """Sums the gradients of two ranks of this process."""

    size = 2

    def __init__(self, rank: int, gradients: dict[int, list[Any]]) -> None:
        self.rank, self._gradients = rank, gradients

    def sum_gradients(self, mine: list[Any]) -> list[Any]:
        """What Horovod gives every rank."""
        others = self._gradients[1 - self.rank]
        return [a + b for a, b in zip(mine, others, strict=True)]


def an_update(rank: int, gradients: dict[int, list[Any]]) -> tuple[Update, Any]:
    """Only what `apply` needs of an update: two ranks of a model of one variable."""
    weight = tf.Variable([1.0, 2.0])
    update = Update.__new__(Update)
    update._adam = Adam([weight], 0.1, 0.25, 0.5, 1e-8)
    update._ranks = Both(rank, gradients)  # type: ignore[assignment]
    update.loss_scale = LossScale("dynamic", "float16")
    update.skipped = tf.Variable(0, dtype=tf.int64)
    return update, weight


def test_an_overflow_on_one_rank_is_skipped_by_both_and_the_next_step_is_not() -> None:
    gradients = {0: [tf.constant([1.0, 1.0])], 1: [tf.constant([np.inf, 1.0])]}
    ranks = [an_update(rank, gradients) for rank in (0, 1)]
    for rank, (update, weight) in enumerate(ranks):
        scale = float(update.loss_scale.value)
        update.apply(gradients[rank])
        assert int(update.skipped) == 1
        assert list(weight.numpy()) == [1.0, 2.0]
        assert float(update.loss_scale.value) == scale / 2
    gradients[1] = [tf.constant([2.0, 1.0])]
    for rank, (update, _) in enumerate(ranks):
        update.apply(gradients[rank])
        assert int(update.skipped) == 1
    assert list(ranks[0][1].numpy()) == list(ranks[1][1].numpy()) != [1.0, 2.0]
