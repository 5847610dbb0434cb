"""Scores of (user, item) pairs with frozen weights, in either formulation.

`reference` is the training's own forward pass on the whole batch, as published. `fast` uses the
folded tables (`ncf.folded`) and walks a large batch in chunks that stay in cache, as many side by
side as there are streams; a small batch is scored at once, without compiled pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ncf.evaluation import folded
from ncf.evaluation.folded import CHUNK
from ncf.model.reference import gather_rows, logits

if TYPE_CHECKING:
    from ncf.model.neumf import Parameters

__all__ = ["CHUNK", "FORMULATIONS", "GPU_CHUNK", "Scorer"]

FORMULATIONS = ("reference", "fast")
GPU_CHUNK = 1 << 18
"""Pairs of a chunk on a GPU, where a kernel's start costs more than memory does. Not measured."""


class Scorer:
    """Callable: int32 [n] users and items to float32 [n] scores.

    Args:
        parameters: weights; with `fast` a change after this call does not show.
        compute_dtype: type of the matmuls.
        formulation: one of FORMULATIONS.
        streams: chunks scored side by side, one thread each.
        chunk: pairs of a chunk.
    """

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        formulation: str,
        *,
        streams: int = 1,
        chunk: int = CHUNK,
    ) -> None:
        pairs = [tf.TensorSpec([None], tf.int32, name=name) for name in ("users", "items")]

        def compiled(function: Any) -> Any:
            return tf.function(function, input_signature=pairs, autograph=False)

        self._chunk = chunk
        self.tables: folded.Folded | None = None
        if formulation == "reference":

            def reference(users: Any, items: Any) -> Any:
                rows = gather_rows(parameters, users, items)
                return logits(rows, parameters, compute_dtype)

            self._small = self._large = compiled(reference)
            return
        tables = self.tables = folded.fold(parameters, compute_dtype)
        score_chunk = folded.chunk_scorer(tables)

        def small(users: Any, items: Any) -> Any:
            return folded.scores(tables, users, items)

        def large(users: Any, items: Any) -> Any:
            chunks = tf.size(users) // chunk
            found = tf.TensorArray(tf.float32, chunks, element_shape=[chunk])

            def body(number: Any, found: Any) -> tuple[Any, Any]:
                part = slice(number * chunk, (number + 1) * chunk)
                some = score_chunk(_fixed(users[part], chunk), _fixed(items[part], chunk))
                return number + 1, found.write(number, some)

            _, found = tf.while_loop(
                lambda number, _: number < chunks,
                body,
                (tf.constant(0), found),
                parallel_iterations=max(1, streams),
            )
            rest = chunks * chunk
            last = folded.scores(tables, users[rest:], items[rest:])
            return tf.concat([tf.reshape(found.stack(), [-1]), last], axis=0)

        self._small, self._large = compiled(small), compiled(large)

    def __call__(self, users: Any, items: Any) -> Any:
        """Score pairs. Their numbers must lie within the tables: compiled lookups do not check."""
        return (self._small if users.shape[0] < self._chunk else self._large)(users, items)


def _fixed(values: Any, size: int) -> Any:
    return tf.ensure_shape(values, [size])
