"""Dropout masks: random where they must be, and a function of the sample's place alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from toy import import_tensorflow

tf = import_tensorflow()
from ncf.model.dropout import Dropout, realised_rate, step_key

pytestmark = pytest.mark.tf


def key_of(step: int, epoch_key=(3, 4)):
    return step_key(tf.constant(epoch_key, tf.uint32), tf.constant(step, tf.int64))


def masks_of(rate: float, step: int = 0, begin: int = 0, count: int = 4000, widths=(256, 40)):
    places = tf.cast(tf.range(begin, begin + count), tf.uint32)
    masks = Dropout(widths, rate).masks(places, key_of(step))
    assert masks is not None
    return [mask.numpy() for mask in masks]


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.25, 0.5, 0.9])
def test_dropout_drops_the_share_it_was_told(rate: float) -> None:
    realised = realised_rate(rate)[1]
    assert realised == pytest.approx(rate, abs=2**-17)
    for mask in masks_of(rate):
        dropped = int((~mask).sum())
        assert stats.binomtest(dropped, mask.size, realised).pvalue > 1e-4


def test_the_scale_keeps_the_expectation_of_the_rate_really_drawn() -> None:
    for rate in (0.1, 0.2, 0.5):
        dropout = Dropout((8,), rate)
        assert dropout.scale * (1 - dropout.rate) == pytest.approx(1, abs=1e-15)


def test_without_dropout_there_are_no_masks() -> None:
    assert Dropout((8, 4), 0.0).masks(tf.zeros([3], tf.uint32), key_of(0)) is None


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_units_samples_layers_and_steps_are_independent(rate: float) -> None:
    first, second = masks_of(rate)
    again = masks_of(rate, step=1)[0]
    pairs = [
        (first[:, :-1], first[:, 1:]),  # neighbouring units
        (first[:, :-8], first[:, 8:]),  # units that share a word at rate 0.5
        (first[:-1], first[1:]),  # neighbouring samples
        (first[:, :40], second),
        (first, again),
    ]
    for a, b in pairs:
        table = np.histogram2d(a.ravel(), b.ravel(), bins=2)[0]
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_every_unit_and_every_sample_is_dropped_about_equally_often() -> None:
    mask = masks_of(0.5)[0]
    for axis in (0, 1):
        kept, of = mask.sum(axis=axis), mask.shape[axis]
        spread = ((kept - of / 2) ** 2 / (of / 4)).sum()
        assert stats.chi2.sf(spread, len(kept)) > 1e-4


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_a_mask_depends_on_the_place_alone_not_on_what_is_asked_with_it(rate: float) -> None:
    whole = masks_of(rate, count=100)
    part = masks_of(rate, begin=37, count=5)
    for a, b in zip(whole, part, strict=True):
        assert np.array_equal(a[37:42], b)


def test_steps_and_epochs_have_keys_of_their_own() -> None:
    keys = {tuple(key_of(step, (a, 9)).numpy()) for step in range(200) for a in range(5)}
    assert len(keys) == 1000
