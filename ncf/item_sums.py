"""Sums of item rows' gradients over the chunks of a step, for the lanes of `ncf.fast`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from ncf.model import Parameters

_SHARERS = 2
"""Lanes with a sum in common. They take turns, always the same, and adding is a sixteenth of their
work; two sums instead are twice the memory that is cleared, missed by the cache and added up."""


class ItemSums:
    """Dense float32 sums of item rows' gradients, kept between steps because they are large.

    Every sum has one fixed order of additions, that in which `add` was traced: the same seed gives
    the same bits.
    """

    def __init__(self, parameters: Parameters, lanes: int, width: int) -> None:
        items, factors = parameters.gmf_item.shape
        self.count = -(-lanes // _SHARERS)
        self._kept = [(_zeros([items, width]), _zeros([items, factors])) for _ in range(self.count)]
        self._add = [tuple(_adder(variable) for variable in pair) for pair in self._kept]

    def clear(self) -> None:
        """Begin a step."""
        for variable in (v for pair in self._kept for v in pair):
            variable.assign(tf.zeros(variable.shape))

    def add(self, lane: int, items: Any, mlp: Any, gmf: Any) -> None:
        """Add rows [n, width] to those of the items [n], which may repeat."""
        for add, rows in zip(self._add[lane // _SHARERS], (mlp, gmf), strict=True):
            add(items, rows)

    def read(self) -> list[tuple[Any, ...]]:
        """Of the MLP and of the GMF, every sum [items, width]."""
        return [tuple(v.read_value() for v in sums) for sums in zip(*self._kept, strict=True)]


def _zeros(shape: Any) -> Any:
    return tf.Variable(tf.zeros(shape), trainable=False)


def _adder(variable: Any) -> Any:
    """A scatter-add that works in place.

    XLA compiles it to vector instructions: four times as fast as TensorFlow's own kernel, which
    adds number by number.
    """

    def add(ids: Any, rows: Any) -> None:
        summed = tf.tensor_scatter_nd_add(variable.read_value(), ids[:, None], rows)
        variable.assign(summed)

    return tf.function(add, jit_compile=True, autograph=False)
