"""The fast formulation: the loss and gradients of `ncf.model.reference`, computed with less work.

- Factored first layer: [u | i] W + b = u W_u + i W_i + b. The item table, and a chunk's distinct
  users, are multiplied once and the products gathered, instead of multiplying every sample.
- Groups: the samples of a group share their user, whose side is computed once.
- Chunks: the batch is computed in chunks that stay in cache, several in parallel, and gradients
  add up in dense float32 sums. Within a step the groups are sorted by user, so
  that equal users meet in one chunk and a table's rows are touched in order.
- On a CPU only the element-wise pieces between the matmuls are compiled by XLA, one stream per
  thread; on a GPU, and with `--xla`, the whole step is, and one chunk is the whole batch.

tests/ncf/model/test_fast.py checks that the loss and every gradient equal the reference's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ncf.model import roofline
from ncf.model.dropout import Dropout
from ncf.model.fast_chunk import (
    FastChunk,
    GradientAccumulators,
    Rows,
    Samples,
    Weights,
    chunks_like,
    count_distinct,
    distinct_users,
    pad_groups,
    part_sizes,
    slice_groups,
    sort_by_user,
    split_into_chunks,
    weights_of,
)
from ncf.model.reference import Reference, dense
from ncf.runtime import environment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ncf.config.train import TrainConfig
    from ncf.model.fast_chunk import Chunks
    from ncf.model.neumf import Parameters
    from ncf.sampling.sampler import Batch


class Fast:
    """The fast formulation.

    Args:
        parameters: the variables.
        compute_dtype: type of the matmuls.
        dropout: rate and widths of the masks.
        streams: chunks computed in parallel.
        chunk: most groups of a chunk.
        size: samples of a group.
        groups: of a step on this rank; with fewer samples than items, the samples' items are
            projected instead of the table.
        whole: True where the caller compiles the whole step.
    """

    name = "fast"

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        dropout: Dropout,
        *,
        streams: int,
        chunk: int,
        size: int,
        groups: int,
        whole: bool,
    ) -> None:
        self._parameters, self._dtype = parameters, compute_dtype
        self._streams, self._max_groups, self._whole = (1 if whole else streams), chunk, whole
        self._full = split_into_chunks(groups, self._streams, chunk)
        self.micro_batch: int | None = self._full.chunk * size
        self._chunk = FastChunk(compute_dtype, dropout, pieces=not whole)
        self._project = parameters.gmf_item.shape[0] <= groups * size
        width = dropout.widths[0] if dropout.widths else 1
        item_width = width if self._project else parameters.mlp_item.shape[1]
        self._sums = None if whole else GradientAccumulators(parameters, streams, item_width)

    def loss_and_gradients(self, batch: Batch, key: Any, grad_scale: Any) -> tuple[Any, list[Any]]:
        """As `ncf.model.reference.Reference.loss_and_gradients`."""
        weights = weights_of(self._parameters, self._dtype)
        table = self._item_table(weights) if self._project else None
        chunks = self._chunks(batch.items.shape[0])
        batch = pad_groups(batch, chunks.groups)
        if self._whole:
            return self._at_once(batch, chunks, weights, table, key, grad_scale)
        return self._in_streams(sort_by_user(batch), chunks, weights, table, key, grad_scale)

    def cost(self, users: NDArray[np.int32], size: int) -> tuple[float, float]:
        """Operations and bytes per sample (`ncf.model.roofline`).

        Args:
            users: of the groups of one step, int32 [groups].
            size: samples per group.
        """
        own, chunks = self._parameters, self._chunks(len(users))
        groups = chunks.groups if self._whole else count_distinct(users, chunks)
        sums = self._sums.count if self._sums else 1
        shape = roofline.shape_of(own, self._dtype, len(users), size, groups, sums)
        return roofline.fast_cost(shape, table=self._project)

    def _chunks(self, groups: int) -> Chunks:
        # Compiled whole, every shape is compiled anyway: a chunk that just fits pads nothing.
        return (
            split_into_chunks(groups, self._streams, self._max_groups)
            if self._whole
            else chunks_like(self._full, groups)
        )

    def _item_table(self, weights: Weights) -> Any:
        """Every item's projection and its GMF row, [items, W + F] in the compute type."""

        def table(mlp: Any, gmf: Any) -> Any:
            projected = dense(tf.cast(mlp, self._dtype), weights.item_kernel, self._dtype)
            return tf.concat([projected, tf.cast(gmf, self._dtype)], axis=1)

        own = self._parameters
        return tf.concat(self._by_streams(table, own.mlp_item, own.gmf_item), axis=0)

    def _by_streams(self, work: Any, *tables: Any) -> list[Any]:
        """Apply work to equal parts of tables' rows side by side; the streams have one thread each.

        A cut along the rows copies nothing.
        """
        parts = [tf.split(rows, part_sizes(rows.shape[0], self._streams)) for rows in tables]
        return [work(*part) for part in zip(*parts, strict=True)]

    def _look_up(
        self, users: Any, segments: Any, part: Batch, weights: Weights, table: Any
    ) -> tuple[Rows, Any, Any]:
        """A chunk's rows, and the embeddings behind its projections (items: None with a table).

        Args:
            users: the users to project, int32 [D].
            segments: which of them each group has, int32 [C]; None where users are the groups'.
            part: the chunk.
            weights: of this step.
            table: every item's row, or None.
        """
        own, dtype = self._parameters, self._dtype
        user_rows = tf.cast(tf.gather(own.mlp_user, users), dtype)
        user = tf.cast(dense(user_rows, weights.user_kernel, dtype), tf.float32)
        user += weights.first_bias
        if segments is not None:
            user = tf.gather(user, segments)
        items = tf.reshape(part.items, [-1])
        item_rows = None
        if table is not None:
            item = tf.gather(table, items)
        else:
            item_rows = tf.cast(tf.gather(own.mlp_item, items), dtype)
            gmf = tf.cast(tf.gather(own.gmf_item, items), dtype)
            item = tf.concat([dense(item_rows, weights.item_kernel, dtype), gmf], axis=1)
        return Rows(user, tf.gather(own.gmf_user, part.users), item), user_rows, item_rows

    def _chunk_gradients(
        self, users: Any, segments: Any, part: Batch, weights: Weights, table: Any,
        key: Any, grad_scale: Any,
    ) -> tuple[list[Any], list[Any]]:  # fmt: skip
        """Row gradients (users' MLP and GMF, items' MLP and GMF), and those of dense variables.

        The dense ones are [loss, user kernel, first bias, kernels, biases, GMF kernel, MLP kernel,
        output bias, and without a table the item kernel].
        """
        dtype = self._dtype
        rows, user_rows, item_rows = self._look_up(users, segments, part, weights, table)
        samples = Samples(part.labels, part.weights, tf.reshape(part.places, [-1]))
        gradients = self._chunk(rows, weights, samples, key, grad_scale)
        user, gmf_user = gradients.user, gradients.gmf_user
        if segments is not None:
            user, gmf_user = (tf.math.segment_sum(x, segments) for x in (user, gmf_user))
        bias, user = tf.reduce_sum(user, axis=0), tf.cast(user, dtype)
        sums = [
            gradients.loss,
            _product(user_rows, user),
            bias,
            *gradients.kernels,
            *gradients.biases,
        ]
        sums += [gradients.gmf_kernel, gradients.mlp_kernel, gradients.output_bias]
        item = gradients.item
        if item_rows is not None:
            item = tf.cast(item, dtype)
            sums.append(_product(item_rows, item))
            item = _back(item, weights.item_kernel)
        return [_back(user, weights.user_kernel), gmf_user, item, gradients.gmf_item], sums

    def _no_sums(self) -> list[Any]:
        own = self._parameters
        weights = weights_of(own, tf.float32)
        like = [weights.user_kernel, weights.first_bias, *weights.kernels, *weights.biases]
        like += [weights.gmf_kernel, weights.mlp_kernel, weights.output_bias]
        like += [] if self._project else [weights.item_kernel]
        return [tf.zeros([]), *(tf.zeros_like(x) for x in like)]

    def _in_streams(
        self, batch: Batch, chunks: Chunks, weights: Weights, table: Any, key: Any, grad_scale: Any
    ) -> tuple[Any, list[Any]]:
        """Compute the batch, `streams` chunks at a time.

        The users' sums are tensors that travel through the loop. InplaceAdd alone adds to them in
        place there: TensorScatterAdd copies them each time, and a variable is copied when it is
        read. Empty is the one way to zeros that no optimizer merges or makes a constant.
        """
        accumulators, own = self._sums, self._parameters
        assert accumulators is not None, "a step that is compiled whole has no accumulators"
        accumulators.clear()

        def body(number: Any, tables: list[Any], sums: list[Any]) -> tuple[Any, ...]:
            for stream in range(chunks.streams):
                part = slice_groups(
                    batch, (number * chunks.streams + stream) * chunks.chunk, chunks.chunk
                )
                users, segments = distinct_users(part.users)
                rows, more = self._chunk_gradients(
                    users, segments, part, weights, table, key, grad_scale
                )
                accumulators.add(stream, tf.reshape(part.items, [-1]), *rows[2:])
                tables = [
                    tf.raw_ops.InplaceAdd(x=whole, i=users, v=few)
                    for whole, few in zip(tables, rows[:2], strict=True)
                ]
                sums = [a + b for a, b in zip(sums, more, strict=True)]
            return number + 1, tables, sums

        users = [
            tf.raw_ops.Empty(shape=rows.shape, dtype=tf.float32, init=True)
            for rows in (own.mlp_user, own.gmf_user)
        ]
        start = (tf.constant(0), users, self._no_sums())
        _, users, sums = tf.while_loop(lambda number, *_: number < chunks.rounds, body, start)
        return self._gradients(sums, [*users, *accumulators.read()], weights)

    def _at_once(
        self, batch: Batch, chunks: Chunks, weights: Weights, table: Any, key: Any, grad_scale: Any
    ) -> tuple[Any, list[Any]]:
        """The form that is compiled as a whole: chunk after chunk, whole-table sums as tensors."""
        own = self._parameters
        counts = [own.gmf_user.shape[0]] * 2 + [own.gmf_item.shape[0]] * 2

        def chunk(number: Any) -> tuple[list[Any], list[Any]]:
            part = slice_groups(batch, number * chunks.chunk, chunks.chunk)
            rows, sums = self._chunk_gradients(
                part.users, None, part, weights, table, key, grad_scale
            )
            places = [part.users] * 2 + [tf.reshape(part.items, [-1])] * 2
            tables = [
                tf.math.unsorted_segment_sum(gradient, place, count)
                for gradient, place, count in zip(rows, places, counts, strict=True)
            ]
            return tables, sums

        def body(number: Any, tables: list[Any], sums: list[Any]) -> tuple[Any, ...]:
            more = chunk(number)
            added = [
                [a + b for a, b in zip(x, y, strict=True)]
                for x, y in zip((tables, sums), more, strict=True)
            ]
            return number + 1, *added

        tables, sums = chunk(tf.constant(0))
        if chunks.rounds > 1:
            start = (tf.constant(1), tables, sums)
            _, tables, sums = tf.while_loop(lambda i, *_: i < chunks.rounds, body, start)
        mlp_user, gmf_user, *items = tables
        return self._gradients(sums, [mlp_user, gmf_user, *((table,) for table in items)], weights)

    def _gradients(
        self, sums: list[Any], tables: list[Any], weights: Weights
    ) -> tuple[Any, list[Any]]:
        """The loss, and gradients in the order of `Parameters.flat`.

        Args:
            sums: as from `_chunk_gradients`.
            tables: the users' MLP and GMF rows; of the items' a tuple of sums to add up.
            weights: of this step.
        """
        mlp_user, gmf_user, mlp_item, gmf_item = tables
        loss, user_kernel, first_bias, *rest = sums
        gmf_item = tf.add_n(gmf_item)
        if self._project:
            parts = self._by_streams(
                lambda rows, *parts: self._unproject(rows, parts, weights),
                self._parameters.mlp_item, *mlp_item,
            )  # fmt: skip
            item_kernel = tf.add_n([kernel for kernel, _ in parts])
            mlp_item = tf.concat([part for _, part in parts], axis=0)
        else:
            item_kernel, mlp_item = rest.pop(), tf.add_n(mlp_item)
        first = tf.concat([user_kernel, item_kernel], axis=0)
        further = len(weights.kernels)
        kernels, biases, output = rest[:further], rest[further : 2 * further], rest[2 * further :]
        gmf_kernel, mlp_kernel, output_bias = output
        gradients = [gmf_user, gmf_item, mlp_user, mlp_item]
        if self._chunk.hidden:
            gradients += [first, first_bias]
            gradients += [x for pair in zip(kernels, biases, strict=True) for x in pair]
            last = mlp_kernel[:, None]
        else:
            last = first
        return loss, [*gradients, tf.concat([gmf_kernel[:, None], last], axis=0), output_bias]

    def _unproject(self, rows: Any, sums: Any, weights: Weights) -> tuple[Any, Any]:
        """From sums of slopes of items' projections: the slopes of the kernel and of the rows."""
        slopes = tf.cast(tf.add_n(sums), self._dtype)
        return _product(tf.cast(rows, self._dtype), slopes), _back(slopes, weights.item_kernel)


def _product(rows: Any, slopes: Any) -> Any:
    """A kernel's gradient, float32 [in, out], from its inputs [n, in] and slopes [n, out]."""
    return tf.cast(tf.matmul(rows, slopes, transpose_a=True), tf.float32)


def _back(slopes: Any, kernel: Any) -> Any:
    """The inputs' gradient, float32 [n, in], from slopes [n, out] and the kernel [in, out]."""
    return tf.cast(tf.matmul(slopes, kernel, transpose_b=True), tf.float32)


def build_formulation(
    config: TrainConfig,
    parameters: Parameters,
    compute_dtype: Any,
    *,
    groups: int,
    streams: int,
    whole: bool,
) -> Reference | Fast:
    """The formulation that is configured.

    Args:
        config: names it, and may give the size of its chunks.
        parameters: the variables.
        compute_dtype: type of the matmuls.
        groups: of a full step on this rank.
        streams: chunks computed in parallel.
        whole: True where the whole gradient computation is compiled.
    """
    dropout = Dropout(config.layers[1:], config.dropout)
    if config.formulation == "reference":
        return Reference(parameters, compute_dtype, dropout)
    size = config.group_size
    return Fast(
        parameters,
        compute_dtype,
        dropout,
        streams=streams,
        chunk=max(1, micro_batch(config, groups, whole=whole) // size),
        size=size,
        groups=groups,
        whole=whole,
    )


def micro_batch(config: TrainConfig, groups: int, *, whole: bool) -> int:
    """Samples of a chunk: as configured, what a core's cache holds, or all if compiled whole.

    A second-level cache holds a quarter of a chunk's widest float32 layer then. Half or four times
    as many cost at most 6 % (docs/performance.md).
    """
    if config.micro_batch != "auto":
        return int(config.micro_batch)
    if whole:
        return groups * config.group_size
    width = max(config.layers[1:], default=config.layers[0])
    return max(1, environment.level_2_cache_bytes() // width)
