"""One training step's forward and backward pass: the reference formulation.

Gather, concatenate, dense layers on a whole batch, as published, differentiated by TensorFlow.
`ncf.model.fast` must equal it, and is measured against it. Gradients are dense and float32, one per
variable in the order of `Parameters.flat`, summed (not averaged) over the samples with their
weights, so that the sums of all ranks can be added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ncf.model import roofline

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ncf.model.dropout import Dropout
    from ncf.model.neumf import Parameters
    from ncf.sampling.sampler import Batch


def dense(inputs: Any, kernel: Any, compute_dtype: Any) -> Any:
    """Multiply inputs [n, in] x kernel [in, out]: the matmul that `precision` probes."""
    return tf.matmul(tf.cast(inputs, compute_dtype), tf.cast(kernel, compute_dtype))


def logits(
    rows: Sequence[Any],
    parameters: Parameters,
    compute_dtype: Any,
    masks: Sequence[Any] | None = None,
    scale: float = 1.0,
) -> Any:
    """Scores of (user, item) pairs.

    Args:
        rows: the pairs' rows of gmf_user, gmf_item, mlp_user, mlp_item, each [n, width].
        parameters: supplies the dense layers.
        compute_dtype: type of the matmuls; the last product is always float32, because bfloat16
            logits would tie candidates that differ.
        masks: units to keep in each hidden layer, or None.
        scale: factor of the units that are kept.

    Returns:
        float32 [n].
    """
    gmf_user, gmf_item, mlp_user, mlp_item = (tf.cast(row, compute_dtype) for row in rows)
    gmf = gmf_user * gmf_item  # [n, F]
    hidden = tf.concat([mlp_user, mlp_item], axis=1)  # [n, L_0]
    for layer, (kernel, bias) in enumerate(zip(parameters.kernels, parameters.biases, strict=True)):
        product = dense(hidden, kernel, compute_dtype)
        hidden = tf.nn.relu(product + tf.cast(bias, compute_dtype))  # [n, L_i]
        if masks is not None:
            keep = tf.cast(masks[layer], compute_dtype)
            hidden = hidden * (keep * tf.cast(scale, compute_dtype))
    features = tf.cast(tf.concat([gmf, hidden], axis=1), tf.float32)  # [n, F + L_last]
    return tf.matmul(features, parameters.output_kernel)[:, 0] + parameters.output_bias


def gather_rows(parameters: Parameters, users: Any, items: Any) -> list[Any]:
    """The four embedding rows of each pair."""
    return [
        tf.gather(parameters.gmf_user, users),
        tf.gather(parameters.gmf_item, items),
        tf.gather(parameters.mlp_user, users),
        tf.gather(parameters.mlp_item, items),
    ]


class Reference:
    """The published formulation.

    Args:
        parameters: the variables.
        compute_dtype: type of the matmuls.
        dropout: rate and widths of the masks.
        same_masks: draw the masks of `dropout` instead of those of the published code, so that
            the formulations can be compared number by number.
    """

    name = "reference"
    micro_batch: int | None = None

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        dropout: Dropout,
        *,
        same_masks: bool = False,
    ) -> None:
        self._parameters, self._dtype, self._dropout = parameters, compute_dtype, dropout
        self._masks = dropout.masks if same_masks else self._published_masks

    def _published_masks(self, places: Any, key: Any) -> list[Any]:
        """A uniform float32 number per unit, kept where it is not below the rate.

        This is how `tf.nn.dropout` draws, and most of what dropout costs. The seed holds the
        batch's first place, because ranks share the step's key.
        """
        samples, seed = places.shape[0], tf.cast(tf.bitcast(key, tf.int32), tf.int64)
        masks = []
        for layer, width in enumerate(self._dropout.widths):
            own = seed + tf.stack([tf.cast(places[0], tf.int64), tf.constant(layer, tf.int64)])
            drawn = tf.random.stateless_uniform([samples, width], own)
            masks.append(drawn >= self._dropout.rate)
        return masks

    def cost(self, users: NDArray[np.int32], size: int) -> tuple[float, float]:
        """Operations and bytes per sample (`ncf.model.roofline`), as `ncf.model.fast.Fast.cost`."""
        shape = roofline.shape_of(self._parameters, self._dtype, len(users), size, len(users), 1)
        return roofline.reference_cost(shape)

    def loss_and_gradients(self, batch: Batch, key: Any, grad_scale: Any) -> tuple[Any, list[Any]]:
        """Weighted sum of the sigmoid cross-entropy, and the gradients of grad_scale times it.

        Args:
            batch: samples with their weights (0 for padding).
            key: uint32 [2], the step's dropout key.
            grad_scale: float32 scalar: loss scale over the number of samples in the global batch.

        Returns:
            The unscaled loss sum (float32 scalar), and dense float32 gradients.
        """
        parameters, size = self._parameters, batch.items.shape[1]
        users, weights = tf.repeat(batch.users, size), tf.repeat(batch.weights, size)
        items, labels = tf.reshape(batch.items, [-1]), tf.reshape(batch.labels, [-1])
        masks = self._masks(tf.reshape(batch.places, [-1]), key) if self._dropout.active else None
        rows = gather_rows(parameters, users, items)
        dense_variables = parameters.flat()[4:]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*rows, *dense_variables])
            scores = logits(rows, parameters, self._dtype, masks, self._dropout.scale)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = tf.reduce_sum(losses * weights)
            scaled = loss * grad_scale
        gradients = tape.gradient(scaled, [*rows, *dense_variables])
        places = [users, items, users, items]
        tables = parameters.flat()[:4]
        # The gather's own gradient would be sparse: summed here once, so that Adam and the
        # all-reduce see one dense tensor per table.
        scattered = [
            tf.math.unsorted_segment_sum(gradient, place, table.shape[0])
            for gradient, place, table in zip(gradients[:4], places, tables, strict=True)
        ]
        return loss, [*scattered, *gradients[4:]]
