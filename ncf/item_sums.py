"""Sums of item rows' gradients over the chunks of a step, one for each lane of `ncf.fast`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from ncf.model import Parameters


class ItemSums:
    """Dense float32 sums of item rows' gradients, kept between steps because they are large.

    One per lane, so that lanes need not wait for each other and every sum has one fixed order of
    additions: the same seed gives the same bits.
    """

    def __init__(self, parameters: Parameters, lanes: int, width: int) -> None:
        items, factors = parameters.gmf_item.shape
        self._kept = [(_zeros([items, width]), _zeros([items, factors])) for _ in range(lanes)]
        self._add = [tuple(_adder(variable) for variable in pair) for pair in self._kept]

    def clear(self) -> None:
        """Begin a step."""
        for variable in (v for pair in self._kept for v in pair):
            variable.assign(tf.zeros(variable.shape))

    def add(self, lane: int, items: Any, mlp: Any, gmf: Any) -> None:
        """Add rows [n, width] to those of the items [n], which may repeat."""
        for add, rows in zip(self._add[lane], (mlp, gmf), strict=True):
            add(items, rows)

    def read(self) -> list[tuple[Any, ...]]:
        """Of the MLP and of the GMF, every lane's sum [items, width]."""
        return [tuple(v.read_value() for v in lanes) for lanes in zip(*self._kept, strict=True)]


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
