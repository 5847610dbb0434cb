"""What a training sample costs, and what the machine can do: the two sides of a roofline.

Costs are counted from shapes; docs/performance.md has the formulas in a table. Multiplications and
additions are those of the matmuls, forward, and backward to inputs and to weights, 2 operations
for each of the 3. Bytes are those that a step must move between memory and cache: rows and row
gradients, tables and optimizer state, and in the reference the activations, which a whole batch
does not keep in cache. Peaks are measured in the run's own process.

Williams, Waterman & Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncf.model.neumf import Parameters

ADAM_BYTES = 28
"""Per variable element: weight, both moments and gradient read, all but the gradient written."""


@dataclass(frozen=True)
class Shape:
    """What the cost of a step on one rank depends on.

    `samples`, `groups` and `distinct_users` are per step; `width` is in bytes per element of the
    compute type; `item_sums` are the accumulators of item gradients (`ncf.model.fast_chunk`).
    """

    users: int
    items: int
    factors: int
    layers: Sequence[int]
    samples: int
    groups: int
    distinct_users: int
    width: int
    item_sums: int = 1


def shape_of(
    parameters: Parameters, dtype: Any, groups: int, size: int, distinct_users: int, item_sums: int
) -> Shape:
    """The shape of a step on these variables: `groups` of `size` samples each."""
    widths = [int(kernel.shape[1]) for kernel in parameters.kernels]
    users, items = parameters.mlp_user.shape, parameters.mlp_item.shape
    return Shape(
        users=users[0],
        items=items[0],
        factors=parameters.gmf_user.shape[1],
        layers=(users[1] + items[1], *widths),
        samples=groups * size,
        groups=groups,
        distinct_users=distinct_users,
        width=dtype.size,
        item_sums=item_sums,
    )


def _products(layers: Sequence[int]) -> int:
    """Multiply-adds of dense layers of these widths, per row."""
    return sum(a * b for a, b in pairwise(layers))


def _variables(shape: Shape) -> int:
    tables = (shape.users + shape.items) * shape.factors
    user_width = shape.layers[0] // 2
    tables += shape.users * user_width + shape.items * (shape.layers[0] - user_width)
    output = shape.factors + shape.layers[-1]
    return tables + _products(shape.layers) + sum(shape.layers[1:]) + output + 1


def reference_cost(shape: Shape) -> tuple[float, float]:
    """Operations and bytes per sample of `ncf.model.reference.Reference`."""
    output = shape.factors + shape.layers[-1]
    operations = 6 * (_products(shape.layers) + output)
    row = 2 * shape.factors + shape.layers[0]
    # A row is read; its gradient is written and read, and its sum read and written.
    rows = 4 * 5 * row
    # An activation is written, read by the next layer and once more on the way back, where its
    # gradient is written and read.
    activations = 5 * shape.width * sum(shape.layers) + sum(shape.layers[1:])
    return operations, rows + activations + ADAM_BYTES * _variables(shape) / shape.samples


def fast_cost(shape: Shape, *, table: bool) -> tuple[float, float]:
    """Operations and bytes per sample of `ncf.model.fast.Fast`, with or without the item table."""
    hidden = shape.layers[1:]
    first = hidden[0] if hidden else 1
    user_width = shape.layers[0] // 2
    item_width = shape.layers[0] - user_width
    output = shape.factors + (hidden[-1] if hidden else 0)
    projected = shape.items if table else shape.samples
    operations = 6 * (_products(hidden) + output) * shape.samples
    operations += 6 * first * (user_width * shape.distinct_users + item_width * projected)
    summed = (first if table else item_width) + shape.factors
    read = (first + shape.factors) * shape.width if table else (item_width + shape.factors) * 4
    moved = (read + 8 * summed) * shape.samples
    moved += 4 * 3 * (user_width + shape.factors) * shape.groups
    # Sums are cleared and read; the item table is read, written, and multiplied once more.
    moved += (
        4
        * 2
        * (shape.item_sums * shape.items * summed + shape.users * (user_width + shape.factors))
    )
    if table:
        moved += shape.items * (2 * 4 * item_width + shape.width * (first + shape.factors))
    moved += ADAM_BYTES * _variables(shape)
    return operations / shape.samples, moved / shape.samples


def matmul_peak(dtype: Any, streams: int, *, on_gpu: bool, seconds: float = 0.2) -> float:
    """Operations/s of square matmuls in dtype, `streams` of them side by side."""
    import tensorflow as tf

    side = 8192 if on_gpu else 1024
    with tf.device("GPU:0" if on_gpu else "CPU:0"):
        inputs = [tf.cast(tf.random.normal([side, side]), dtype) for _ in range(2 * streams)]

    def work(*matrices: Any) -> list[Any]:
        pairs = zip(matrices[::2], matrices[1::2], strict=True)
        return [tf.reduce_max(tf.matmul(a, b)) for a, b in pairs]

    compiled = tf.function(work, autograph=False)
    took = _fastest(lambda: [float(x) for x in compiled(*inputs)], seconds)
    return streams * 2 * side**3 / took


def copy_peak(streams: int, *, on_gpu: bool, seconds: float = 0.2) -> float:
    """Bytes/s, read plus written, of large float32 arrays added to others in place."""
    import tensorflow as tf

    count = (1 << 28) if on_gpu else (1 << 24) // streams
    with tf.device("GPU:0" if on_gpu else "CPU:0"):
        sums = [tf.Variable(tf.zeros([count]), trainable=False) for _ in range(streams)]
        terms = [tf.zeros([count]) for _ in range(streams)]

    def work(*terms: Any) -> None:
        for total, term in zip(sums, terms, strict=True):
            total.assign_add(term)

    compiled = tf.function(work, autograph=False)

    def once() -> None:
        compiled(*terms)
        for total in sums:
            total[0].numpy()

    return streams * 12 * count / _fastest(once, seconds)


def _fastest(work: Callable[[], Any], seconds: float) -> float:
    """Least seconds of one call, over calls that last about `seconds`; a peak is what can be."""
    work()
    times: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds or len(times) < 3:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
