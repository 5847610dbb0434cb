"""Loss and gradients of one chunk of samples, from the rows of its users and items.

Differentiated by hand. Every layer is one matmul and one element-wise pass each way: ReLU and
dropout share a pass, and since a kept unit is one that is positive, the activation itself is the
mask of the backward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from ncf.model.reference import dense
from ncf.sampling.sampler import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ncf.model.dropout import Dropout
    from ncf.model.neumf import Parameters


class Weights(NamedTuple):
    """The dense variables as a step needs them: kernels in the compute type, the rest float32.

    user_kernel [L_user, W] and item_kernel [L_item, W] are the two halves of the first kernel
    (with no hidden layer: of the MLP's part of the output kernel, W = 1), first_bias [W] belongs
    to them; kernels and biases are those of the further layers; gmf_kernel [F] and mlp_kernel
    [last width] are the parts of the output kernel.
    """

    user_kernel: Any
    item_kernel: Any
    first_bias: Any
    kernels: list[Any]
    biases: list[Any]
    gmf_kernel: Any
    mlp_kernel: Any
    output_bias: Any


def weights_of(parameters: Parameters, compute_dtype: Any) -> Weights:
    """Slice and cast the dense variables."""
    factors, user_width = parameters.gmf_user.shape[1], parameters.mlp_user.shape[1]
    output = tf.convert_to_tensor(parameters.output_kernel)[:, 0]
    hidden = len(parameters.kernels) > 0
    first = tf.convert_to_tensor(parameters.kernels[0]) if hidden else output[factors:, None]
    return Weights(
        tf.cast(first[:user_width], compute_dtype),
        tf.cast(first[user_width:], compute_dtype),
        tf.convert_to_tensor(parameters.biases[0]) if hidden else tf.zeros([1]),
        [tf.cast(tf.convert_to_tensor(kernel), compute_dtype) for kernel in parameters.kernels[1:]],
        [tf.convert_to_tensor(bias) for bias in parameters.biases[1:]],
        output[:factors],
        output[factors:] if hidden else tf.ones([1]),
        tf.convert_to_tensor(parameters.output_bias),
    )


class Rows(NamedTuple):
    """A chunk of C groups, looked up.

    float32 user [C, W] (projected, with the first bias) and gmf_user [C, F]; item [C * size, W + F]
    in the compute type, its projection and its GMF row side by side because one wide gather is
    faster than two.
    """

    user: Any
    gmf_user: Any
    item: Any


class Samples(NamedTuple):
    """The samples of a chunk: labels [C, size], weights [C], places [C * size]."""

    labels: Any
    weights: Any
    places: Any


class Gradients(NamedTuple):
    """The chunk's loss sum, and float32 gradients of its rows and of the dense variables.

    Of the rows: user [C, W], gmf_user [C, F], item [C * size, W] and gmf_item [C * size, F].
    """

    loss: Any
    user: Any
    gmf_user: Any
    item: Any
    gmf_item: Any
    kernels: list[Any]
    biases: list[Any]
    gmf_kernel: Any
    mlp_kernel: Any
    output_bias: Any


class FastChunk:
    """Forward and backward through one chunk.

    Args:
        compute_dtype: type of the matmuls and of what lies between them.
        dropout: rate and widths of the masks.
        pieces: True compiles each element-wise piece with XLA (a CPU), False leaves that to the
            caller (a GPU, where the whole step is compiled at once).
    """

    def __init__(self, compute_dtype: Any, dropout: Dropout, *, pieces: bool) -> None:
        self._dtype, self._dropout = compute_dtype, dropout
        self.hidden = len(dropout.widths) > 0
        piece: Callable[[Any], Any] = _compiled if pieces else _as_it_is
        self._enter, self._activate = piece(self._first), piece(self._further)
        self._head, self._back = piece(self._output), piece(self._through)
        self._leave, self._split = piece(self._out), piece(self._apart)

    def __call__(
        self, rows: Rows, weights: Weights, samples: Samples, key: Any, grad_scale: Any
    ) -> Gradients:
        """Loss sum (unscaled) and gradients of grad_scale times it; key: uint32 [2]."""
        hidden = [self._enter(rows.user, rows.item, samples.places, key)]
        for layer, (kernel, bias) in enumerate(zip(weights.kernels, weights.biases, strict=True)):
            product = dense(hidden[-1], kernel, self._dtype)
            hidden.append(self._activate(product, bias, samples.places, key, layer + 1))
        output = (weights.gmf_kernel, weights.mlp_kernel, weights.output_bias)
        loss, slope, slope_sum, gmf_user, gmf_item, *output_slopes = self._head(
            hidden[-1], rows.gmf_user, rows.item, *output, *samples[:2], grad_scale
        )
        kernels, biases = [], []
        groups, size = samples.labels.shape
        user = item = None
        for layer in range(len(weights.kernels) - 1, -1, -1):
            below = hidden[layer]
            product = tf.matmul(below, slope, transpose_a=True)
            kernels.append(tf.cast(product, tf.float32))
            biases.append(slope_sum)
            product = tf.matmul(slope, weights.kernels[layer], transpose_b=True)
            if layer:
                slope, slope_sum = self._back(product, below)
            else:
                user, item = self._leave(product, below, groups, size)
        if not weights.kernels:
            user, item = self._split(slope, groups, size)
        lookups = (user, gmf_user, item, gmf_item)
        return Gradients(loss, *lookups, kernels[::-1], biases[::-1], *output_slopes)

    def _keep(self, values: Any, places: Any, key: Any, layer: int) -> Any:
        """ReLU and dropout of float32 values, in the compute type."""
        positive = values > 0
        if self._dropout.active:
            positive &= self._dropout.keep(places, key, layer)
            values *= self._dropout.scale
        return tf.cast(tf.where(positive, values, 0.0), self._dtype)

    def _first(self, user: Any, item: Any, places: Any, key: Any) -> Any:
        """The first hidden layer from its two projections; just their sum if there is none."""
        groups, width = user.shape
        item = tf.reshape(tf.cast(item[:, :width], tf.float32), [groups, -1, width])
        values = tf.reshape(user[:, None, :] + item, [-1, width])
        return self._keep(values, places, key, 0) if self.hidden else values

    def _further(self, product: Any, bias: Any, places: Any, key: Any, layer: int) -> Any:
        return self._keep(tf.cast(product, tf.float32) + bias, places, key, layer)

    def _output(
        self,
        hidden: Any,
        gmf_user: Any,
        item: Any,
        gmf_kernel: Any,
        mlp_kernel: Any,
        output_bias: Any,
        labels: Any,
        weights: Any,
        grad_scale: Any,
    ) -> tuple[Any, ...]:
        """Scores, loss, and the gradients around the output layer.

        The GMF kernel is folded into the user's row, once per group: the score is then a plain
        dot product, and the kernel's own gradient a sum over groups instead of samples.
        """
        groups, size = labels.shape
        factors = gmf_user.shape[1]
        hidden = tf.cast(hidden, tf.float32)
        item = tf.reshape(tf.cast(item[:, -factors:], tf.float32), [groups, size, factors])
        folded = gmf_user * gmf_kernel  # [C, F]
        gmf = tf.reduce_sum(item * folded[:, None, :], axis=2)
        mlp = tf.reshape(tf.reduce_sum(hidden * mlp_kernel, axis=1), [groups, size])
        scores = gmf + mlp + output_bias
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores)
        loss = tf.reduce_sum(losses * weights[:, None])
        slopes = (tf.sigmoid(scores) - labels) * (weights * grad_scale)[:, None]  # [C, size]
        column = tf.reshape(slopes, [-1, 1])
        below = column * mlp_kernel
        if self.hidden:
            below = tf.where(hidden > 0, below * self._scale, 0.0)
        folded_slope = tf.reduce_sum(slopes[:, :, None] * item, axis=1)  # [C, F]
        gmf_item_slope = slopes[:, :, None] * folded[:, None, :]
        return (
            loss,
            tf.cast(below, self._dtype) if self.hidden else below,
            tf.reduce_sum(below, axis=0),
            folded_slope * gmf_kernel,
            tf.reshape(gmf_item_slope, [-1, factors]),
            tf.reduce_sum(folded_slope * gmf_user, axis=0),
            tf.reduce_sum(hidden * column, axis=0),
            tf.reduce_sum(slopes)[None],
        )

    @property
    def _scale(self) -> float:
        return self._dropout.scale if self._dropout.active else 1.0

    def _masked(self, product: Any, below: Any) -> Any:
        return tf.where(below > 0, tf.cast(product, tf.float32) * self._scale, 0.0)

    def _through(self, product: Any, below: Any) -> tuple[Any, Any]:
        """Through a hidden layer's activation; the slope, and its sum over samples."""
        slope = self._masked(product, below)
        return tf.cast(slope, self._dtype), tf.reduce_sum(slope, axis=0)

    def _out(self, product: Any, below: Any, groups: int, size: int) -> tuple[Any, Any]:
        """Through the first activation, to the two projections: user [C, W], item [n, W]."""
        return self._apart(self._masked(product, below), groups, size)

    def _apart(self, slope: Any, groups: int, size: int) -> tuple[Any, Any]:
        slope = tf.cast(slope, tf.float32)
        by_group = tf.reshape(slope, [groups, size, -1])
        return tf.reduce_sum(by_group, axis=1), slope


def _compiled(function: Any) -> Any:
    return tf.function(function, jit_compile=True, autograph=False)


def _as_it_is(function: Any) -> Any:
    return function


_SHARERS = 2
"""Streams that share a sum. They add in a fixed order, so results are deterministic. Adding is a
sixteenth of their work; two sums instead are twice the memory to clear, cache and add up."""


class GradientAccumulators:
    """Dense float32 sums of item rows' gradients, kept between steps because they are large.

    Every sum has one fixed order of additions, that in which `add` was traced: the same seed gives
    the same bits.
    """

    def __init__(self, parameters: Parameters, streams: int, width: int) -> None:
        items, factors = parameters.gmf_item.shape
        self.count = -(-streams // _SHARERS)
        self._kept = [(_zeros([items, width]), _zeros([items, factors])) for _ in range(self.count)]
        self._add = [tuple(_adder(variable) for variable in pair) for pair in self._kept]

    def clear(self) -> None:
        """Begin a step."""
        for variable in (v for pair in self._kept for v in pair):
            variable.assign(tf.zeros(variable.shape))

    def add(self, stream: int, items: Any, mlp: Any, gmf: Any) -> None:
        """Add rows [n, width] to those of the items [n], which may repeat."""
        for add, rows in zip(self._add[stream // _SHARERS], (mlp, gmf), strict=True):
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


def count_distinct(users: NDArray[np.int32], chunks: Chunks) -> int:
    """Distinct users of every chunk, added up: what a step projects of the user table."""
    ordered = np.sort(users)
    ordered = np.pad(ordered, (0, chunks.groups - len(ordered)), mode="edge")
    rows = ordered.reshape(-1, chunks.chunk)
    return len(rows) + int(np.count_nonzero(rows[:, 1:] != rows[:, :-1]))


class Chunks(NamedTuple):
    """How a batch is divided: `rounds` times `streams` parallel chunks of `chunk` groups."""

    rounds: int
    streams: int
    chunk: int

    @property
    def groups(self) -> int:
        """Groups computed, padding included."""
        return self.rounds * self.streams * self.chunk


def split_into_chunks(groups: int, streams: int, at_most: int) -> Chunks:
    """Equal chunks of at most `at_most` groups; the padding is below one group per chunk."""
    streams = min(streams, groups)
    rounds = -(-groups // (streams * at_most))
    return Chunks(rounds, streams, -(-groups // (streams * rounds)))


def chunks_like(full: Chunks, groups: int) -> Chunks:
    """A step of fewer groups in chunks of the same size, so that nothing is compiled for it."""
    return full._replace(rounds=-(-groups // (full.streams * full.chunk)))


def part_sizes(count: int, parts: int) -> list[int]:
    """Sizes of `parts` parts of `count`, as equal as can be."""
    return [count * (i + 1) // parts - count * i // parts for i in range(parts)]


def pad_groups(batch: Batch, groups: int) -> Batch:
    """Append groups of weight 0, equal to the last one."""
    missing = groups - batch.items.shape[0]
    if missing == 0:
        return batch
    last = Batch(*(tf.repeat(part[-1:], missing, axis=0) for part in batch))
    last = last._replace(weights=tf.zeros([missing]))
    return Batch(*(tf.concat(pair, axis=0) for pair in zip(batch, last, strict=True)))


def sort_by_user(batch: Batch) -> Batch:
    """The groups in the order of their users; a sum does not mind the order of its terms."""
    order = tf.argsort(batch.users, stable=True)
    return Batch(*(tf.gather(part, order) for part in batch))


def slice_groups(batch: Batch, begin: Any, count: int) -> Batch:
    """Groups [begin, begin + count), with a static shape."""
    parts = []
    for part in batch:
        begins = [begin, 0] if part.shape.rank == 2 else [begin]
        shape = [count, *part.shape[1:]]
        parts.append(tf.ensure_shape(tf.slice(part, begins, shape), shape))
    return Batch(*parts)


def distinct_users(users: Any) -> tuple[Any, Any]:
    """The distinct ones of sorted users [C], int32 [D], and which of them each is, int32 [C]."""
    changes = tf.cast(users[1:] != users[:-1], tf.int32)
    segments = tf.concat([[0], tf.cumsum(changes)], axis=0)
    return tf.math.segment_max(users, segments), segments
