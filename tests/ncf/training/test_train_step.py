"""One update on several ranks: what one of them skips, all of them skip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy import import_tensorflow

tf = import_tensorflow()

from ncf.model.optimizer import Adam
from ncf.training.train_step import TrainStep

pytestmark = pytest.mark.tf


class Both:
    """Sums the gradients of two ranks of this process."""

    size = 2

    def __init__(self, rank: int, gradients: dict[int, list[Any]]) -> None:
        self.rank, self._gradients = rank, gradients

    def sum_gradients(self, mine: list[Any]) -> list[Any]:
        """What Horovod gives every rank."""
        others = self._gradients[1 - self.rank]
        return [a + tf.cast(b, a.dtype) for a, b in zip(mine, others, strict=True)]

    def max_tensor(self, mine: Any) -> Any:
        """As if the other rank's gradients were no larger."""
        return mine


def an_update(
    ranks: Any, *, own: list[bool] | None = None, halve: bool = False
) -> tuple[TrainStep, Any]:
    """One rank's update of a model of one variable; nothing is sampled or differentiated."""
    weight = tf.Variable([1.0, 2.0])
    adam = Adam([weight], 0.1, 0.25, 0.5, 1e-8)
    nothing: Any = None
    update = TrainStep(
        nothing,
        nothing,
        adam,
        ranks,
        loss_scale="dynamic",
        compute_dtype="float16",
        xla=False,
        own=own,
        halve=halve,
    )
    return update, weight


def test_overflow_on_one_rank_skips_that_step_on_both() -> None:
    gradients = {0: [tf.constant([1.0, 1.0])], 1: [tf.constant([np.inf, 1.0])]}
    ranks = [an_update(Both(rank, gradients)) for rank in (0, 1)]
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


def test_overflow_in_owned_rows_skips_the_step_on_all_ranks() -> None:
    # Such gradients are never sent; whether they are finite is, as a number of its own.
    sent: dict[int, list[Any]] = {0: [tf.constant([0.0])], 1: [tf.constant([1.0])]}
    for rank, gradient in ((0, [1.0, 1.0]), (1, [np.inf, 1.0])):
        update, weight = an_update(Both(rank, sent), own=[True])
        update.apply([tf.constant(gradient)])
        assert int(update.skipped) == 1
        assert list(weight.numpy()) == [1.0, 2.0]
        assert update.reduced_bytes == 4
    sent[1] = [tf.constant([0.0])]
    update, weight = an_update(Both(0, sent), own=[True])
    update.apply([tf.constant([1.0, 1.0])])
    assert int(update.skipped) == 0
    assert list(weight.numpy()) != [1.0, 2.0]


def test_float16_gradients_are_counted_and_skipped_on_overflow() -> None:
    # Half of 2 x 4 bytes, and 4 for the largest magnitude.
    for other, skipped in ((0.0, 0), (np.inf, 1)):
        sent = {1: [tf.constant([other, 0.0])]}
        update, weight = an_update(Both(0, sent), halve=True)
        update.apply([tf.constant([1e-9, -1e-9])])
        assert update.reduced_bytes == 2 * 2 + 4
        assert int(update.skipped) == skipped
        assert (list(weight.numpy()) == [1.0, 2.0]) == bool(skipped)
