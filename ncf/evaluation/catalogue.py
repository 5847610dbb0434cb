"""The whole catalogue for a block of users: what serving does, and what full ranking evaluates.

Memory is bounded by block of users x items, whatever the number of users. The declared tie rule:
the higher score first, then the lower item number. An item in a user's training rows is masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from ncf.evaluation import precomputed
from ncf.metrics import NonFiniteScores
from ncf.model.reference import gather_rows, logits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ncf.model.neumf import Parameters

BLOCK_SCORES = 1 << 22
"""Scores held at a time: 16 MiB, and a few copies of it while the best are chosen."""


def users_per_block(items: int) -> int:
    """Users ranked together, so that their scores take BLOCK_SCORES."""
    return max(1, BLOCK_SCORES // items)


class Best(NamedTuple):
    """Items int32 [n, k] and scores float32 [n, k], best first; a masked place scores -inf."""

    items: NDArray[np.int32]
    scores: NDArray[np.float32]


class Catalogue:
    """Scores of users with every item.

    Args:
        parameters: weights; with `fast` a change after this call does not show.
        compute_dtype: type of the matmuls.
        formulation: "reference" or "fast".
        streams: blocks of items scored in parallel.
        chunk: most items of a block.
        compiled: XLA for the first layer of `fast`; off where the graph leaves this process.
        tables: the precomputed tables, if they exist already.
    """

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        formulation: str,
        *,
        streams: int = 1,
        chunk: int = precomputed.CHUNK,
        compiled: bool = True,
        tables: precomputed.Tables | None = None,
    ) -> None:
        self.items = int(parameters.gmf_item.shape[0])
        self._blocks = -(-self.items // chunk)
        self._size = -(-self.items // self._blocks)  # equal blocks: one shape, one compilation
        self._streams = max(1, streams)
        users = tf.TensorSpec([None], tf.int32)
        if formulation == "reference":
            one_block = self._reference(parameters, compute_dtype)
            gmf = None
        else:
            gmf = precomputed.precompute(parameters, compute_dtype) if tables is None else tables
            one_block = self._fast(gmf, compiled=compiled)

        def scores(users: Any) -> Any:
            mlp = self._walk(one_block, users)
            return mlp if gmf is None else mlp + _gmf(gmf, users)

        self.graph = scores
        self.scores = tf.function(scores, input_signature=[users], autograph=False)
        pairs, k = tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([], tf.int32)
        self._best = tf.function(self._choose, input_signature=[users, pairs, k], autograph=False)
        self._beaten = tf.function(
            self._count, input_signature=[users, pairs, users], autograph=False
        )

    def _reference(self, parameters: Parameters, compute_dtype: Any) -> Any:
        def one_block(user: Any, number: Any) -> Any:
            items = tf.minimum(number * self._size + tf.range(self._size), self.items - 1)
            rows = gather_rows(parameters, tf.repeat(user, self._size), items)
            return logits(rows, parameters, compute_dtype)

        return one_block

    def _fast(self, tables: precomputed.Tables, *, compiled: bool) -> Any:
        """The MLP's share; that of GMF is one matmul for all users."""
        last = self.items - self._size

        def between(row: Any, block: Any) -> Any:
            return precomputed.first_layer(tables, row, block)

        first = tf.function(between, jit_compile=True, autograph=False) if compiled else between

        def one_block(user: Any, number: Any) -> Any:
            start = tf.minimum(number * self._size, last)
            block = tf.slice(tables.item, [start, 0], [self._size, -1])
            hidden = first(tf.gather(tables.user, user), block)
            # the last block begins earlier than it should, so that all are of one size
            return tf.roll(precomputed.upper(tables, hidden), start - number * self._size, axis=0)

        return one_block

    def _walk(self, one_block: Any, users: Any) -> Any:
        """Every block of every user, [users, items]."""
        count = tf.size(users) * self._blocks
        blocks = tf.TensorArray(tf.float32, count, element_shape=[self._size])

        def body(number: Any, blocks: Any) -> tuple[Any, Any]:
            part = one_block(users[number // self._blocks], number % self._blocks)
            return number + 1, blocks.write(number, tf.ensure_shape(part, [self._size]))

        _, blocks = tf.while_loop(
            lambda number, _: number < count,
            body,
            (tf.constant(0), blocks),
            parallel_iterations=self._streams,
        )
        return tf.reshape(blocks.stack(), [-1, self._blocks * self._size])[:, : self.items]

    def _choose(self, users: Any, masked: Any, k: Any) -> tuple[Any, Any, Any]:
        scores = self.scores(users)
        wrong = _not_finite(scores)
        best = tf.math.top_k(mask(scores, masked), k)  # of equal scores, the lower number first
        return best.indices, best.values, wrong

    def _count(self, users: Any, masked: Any, held_out: Any) -> tuple[Any, Any]:
        scores = self.scores(users)
        own = tf.gather(scores, held_out, batch_dims=1)[:, None]
        itself = tf.stack([tf.range(tf.size(held_out)), held_out], axis=1)
        others = mask(mask(scores, masked), itself)
        return tf.math.count_nonzero(others >= own, axis=1), _not_finite(scores)

    def best(self, users: NDArray[np.int32], masked: NDArray[np.int32], k: int) -> Best:
        """The top k of every user.

        Args:
            users: [n].
            masked: [m, 2] (row of users, item) of what is left out; see `seen_pairs`.
            k: at most the number of items.

        Raises:
            NonFiniteScores: a score is not finite.
        """
        items, scores, wrong = self._best(tf.constant(users), tf.constant(masked), tf.constant(k))
        _refuse(int(wrong))
        return Best(items.numpy(), scores.numpy())

    def beaten_by(
        self, users: NDArray[np.int32], masked: NDArray[np.int32], held_out: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """How many items that are not masked score at least as high as the held-out one, [n].

        Raises:
            NonFiniteScores: a score is not finite.
        """
        places, wrong = self._beaten(tf.constant(users), tf.constant(masked), tf.constant(held_out))
        _refuse(int(wrong))
        return np.asarray(places.numpy(), np.int64)


def best_of(
    catalogue: Catalogue,
    users: NDArray[np.int32],
    offsets: NDArray[np.int64],
    items: NDArray[np.int32],
    k: int,
) -> Iterator[Best]:
    """The top k of any number of users, some users at a time, their training items left out.

    Args:
        catalogue: scores.
        users: [n].
        offsets: [all users + 1], where each user's items begin that are left out.
        items: of all users, one after another.
        k: at most the number of items.
    """
    step = users_per_block(catalogue.items)
    for start in range(0, len(users), step):
        part = users[start : start + step]
        yield catalogue.best(part, seen_pairs(offsets, items, part), k)


def mask(scores: Any, masked: Any) -> Any:
    """Scores [n, items] with -inf at masked [m, 2]."""
    nothing = tf.fill([tf.shape(masked)[0]], tf.constant(-np.inf, tf.float32))
    return tf.tensor_scatter_nd_update(scores, masked, nothing)


def seen_pairs(
    offsets: NDArray[np.int64], items: NDArray[np.int32], users: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Training items of some users as [m, 2] (row of users, item).

    Args:
        offsets: [all users + 1], where each user's training items begin.
        items: of all users, one after another.
        users: [n], whose items to return.
    """
    starts = offsets[users]
    lengths = offsets[users.astype(np.int64) + 1] - starts
    first = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(starts - first, lengths)
    rows = np.repeat(np.arange(len(users), dtype=np.int32), lengths)
    return np.stack([rows, items[places].astype(np.int32)], axis=1)


def _gmf(tables: precomputed.Tables, users: Any) -> Any:
    rows = tf.gather(tables.gmf_user, users)
    return tf.matmul(rows, tables.gmf_item, transpose_b=True) + tables.output_bias


def _not_finite(scores: Any) -> Any:
    return tf.math.count_nonzero(~tf.math.is_finite(scores))


def _refuse(wrong: int) -> None:
    if wrong:
        raise NonFiniteScores(f"{wrong} scores are not finite")
