"""Dropout masks as a pure function of (step, sample's place in the global batch, unit).

Counter-based: a mask bit is a hash of where it belongs, so the masks of a step do not depend on
how the batch is divided into ranks, streams or chunks, nor on the order of the chunks, and
nothing is stored. One hash gives 32 bits: 32 units at rate 0.5, 4 at a multiple of 1/256, 2 at
any other. Integer arithmetic only, which compilers vectorise; drawing floats instead was measured
to cost a quarter of a whole training step.

The hash is Wellons' two-round `lowbias32` (https://nullprogram.com/blog/2018/07/31/) with a key
added before each round, so that two steps' streams are not shifted copies of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Sequence


def realised_rate(rate: float) -> tuple[int, float]:
    """Random bits per unit, and the dropout rate they can realise.

    Rates 0.5, and other multiples of 1/256, are met exactly with 1 and 8 bits, any other within
    2**-17 with 16; the scale of the kept units uses the rate really drawn, so the expectation is
    exact.
    """
    bits = 1 if rate == 0.5 else 8 if (rate * 256).is_integer() else 16
    return bits, round(rate * 2**bits) / 2**bits


class Dropout:
    """The masks of all hidden layers.

    Args:
        widths: of the hidden layers.
        rate: share of units to drop.
    """

    def __init__(self, widths: Sequence[int], rate: float) -> None:
        self.bits, self.rate = realised_rate(rate)
        self.widths = tuple(widths)
        words = [-(-width * self.bits // 32) for width in widths]
        self._begin = [sum(words[:layer]) for layer in range(len(words))]
        self._words, self._all_words = words, sum(words)

    @property
    def active(self) -> bool:
        """False where nothing is dropped."""
        return self.rate > 0

    @property
    def scale(self) -> float:
        """Factor of the units that are kept."""
        return 1 / (1 - self.rate)

    def keep(self, places: Any, key: Any, layer: int) -> Any:
        """Units to keep.

        Args:
            places: uint32 [n], each sample's place in the global batch.
            key: uint32 [2] of the step.
            layer: number of the hidden layer.

        Returns:
            bool [n, width of that layer].
        """
        words, width, parts = self._words[layer], self.widths[layer], 32 // self.bits
        counters = tf.range(self._begin[layer], self._begin[layer] + words)
        drawn = _hash(places[:, None] * _u32(self._all_words) + tf.cast(counters, tf.uint32), key)
        # The longer of the two axes goes inside: a compiler's vector runs along it.
        shifts = tf.cast(tf.range(parts) * self.bits, tf.uint32)
        if parts > words:  # unit u lies in word u // parts
            numbers = tf.bitwise.right_shift(drawn[:, :, None], shifts)
        else:  # unit u lies in word u % words
            numbers = tf.bitwise.right_shift(drawn[:, None, :], shifts[:, None])
        numbers = tf.bitwise.bitwise_and(numbers, _u32(2**self.bits - 1))
        kept = numbers >= _u32(round(self.rate * 2**self.bits))
        return tf.reshape(kept, [-1, parts * words])[:, :width]

    def masks(self, places: Any, key: Any) -> list[Any] | None:
        """`keep` for every layer; None where nothing is dropped."""
        if not self.active:
            return None
        return [self.keep(places, key, layer) for layer in range(len(self.widths))]


def step_key(epoch_key: Any, step: Any) -> Any:
    """The key of a step, uint32 [2], from that of its epoch, uint32 [2]; step: int64 scalar."""
    low = tf.cast(tf.bitwise.bitwise_and(step, tf.constant(0xFFFFFFFF, tf.int64)), tf.uint32)
    first = _hash(low, epoch_key)
    second = _hash(first + _u32(0x9E3779B9), tf.reverse(epoch_key, [0]))
    return tf.stack([first, second])


def _hash(value: Any, key: Any) -> Any:
    value = value + key[0]
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u32(16)))
    value = value * _u32(0x7FEB352D)
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u32(15)))
    value = (value + key[1]) * _u32(0x846CA68B)
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u32(16)))


def _u32(value: int) -> Any:
    return tf.constant(value, tf.uint32)
