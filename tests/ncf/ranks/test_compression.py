"""Gradients sent as float16: scaled by powers of two, so that none of them vanishes."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow

from ncf.ranks import horovod

tf = import_tensorflow()


pytestmark = pytest.mark.tf


def sent(ranks: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The sums over ranks, as every one of them gets them."""
    own = [[tf.constant(t, tf.float32) for t in tensors] for tensors in ranks]
    largest = tf.reduce_max(tf.stack([horovod.peaks(tensors) for tensors in own]), axis=0)
    factors = horovod.scales(largest, len(ranks))
    halves = [horovod.halved(tensors, factors) for tensors in own]
    assert {half.dtype for tensors in halves for half in tensors} == {tf.float16}
    summed = [tf.add_n(same) for same in zip(*halves, strict=True)]
    return [tensor.numpy() for tensor in horovod.restored(summed, factors)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 512])
def test_factors_are_powers_of_two_and_leave_room_for_the_sum_over_ranks(ranks: int) -> None:
    largest = np.float32([1e-12, 1e-9, 0.3, 1.0, 2.0, 65504.0, 1e12])
    factors = horovod.scales(tf.constant(largest), ranks).numpy()
    assert list(np.frexp(factors)[0]) == [0.5] * len(largest)
    reached = factors * largest * ranks
    assert (reached <= 2**15).all()
    assert (reached > 2**13.9).all()


def test_gradients_of_a_mean_over_a_million_samples_survive() -> None:
    rng = np.random.default_rng(1)
    ranks = [[rng.normal(0, 1e-9, [50, 8]), rng.normal(0, 1e3, [9])] for _ in range(2)]
    for found, exact in zip(sent(ranks), map(sum, zip(*ranks, strict=True)), strict=True):
        largest = max(abs(t).max() for tensors in ranks for t in tensors if t.shape == exact.shape)
        # Two roundings of the terms and one of the sum, each at most half a unit in 11 bits.
        assert np.abs(found - exact).max() <= 4 * 2**-11 * largest
        assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.999999


def test_zeros_stay_zeros_and_a_flag_stays_itself() -> None:
    assert [t.tolist() for t in sent([[np.zeros(3), np.ones(1)], [np.zeros(3), np.zeros(1)]])] == [
        [0.0, 0.0, 0.0],
        [1.0],
    ]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_on_one_rank_is_not_finite_on_any(bad: float) -> None:
    found, other = sent([[np.array([bad, 1.0]), np.ones(2)], [np.ones(2), np.ones(2)]])
    assert not np.isfinite(found).all()
    assert other.tolist() == [2.0, 2.0]


def test_a_large_gradient_does_not_overflow() -> None:
    (found,) = sent([[np.array([3e5, 1.0])], [np.array([3e5, 1.0])]])
    assert found[0] == pytest.approx(6e5, rel=1e-3)
