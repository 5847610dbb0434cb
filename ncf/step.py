"""One training step's forward and backward pass: the reference formulation.

Gather, concatenate, dense layers on a whole shuffled batch, as published. Gradients come back
dense and float32, one per variable in the order of `Parameters.flat`, summed (not averaged) over
the samples with their weights, so that ranks can simply be added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncf.model import Parameters
    from ncf.sampling import Batch


def dense(inputs: Any, kernel: Any, compute_dtype: Any) -> Any:
    """Multiply inputs [n, in] x kernel [in, out]: the matmul that `precision` probes."""
    return tf.matmul(tf.cast(inputs, compute_dtype), tf.cast(kernel, compute_dtype))


def realised_rate(rate: float) -> tuple[int, float]:
    """Random bits per unit, and the dropout rate they can realise.

    Random numbers were a quarter of the step with 32 bits per unit. A multiple of 1/256 needs 8,
    any other rate gets 16 and is met within 2**-17; the scale of the kept units uses the rate
    really drawn, so the expectation is exact.
    """
    bits = 8 if (rate * 256).is_integer() else 16
    return bits, round(rate * 2**bits) / 2**bits


def dropout_masks(key: Any, samples: int, widths: Sequence[int], rate: float) -> list[Any] | None:
    """Bool masks [samples, width] of the units to keep, one per hidden layer; None at rate 0.

    Args:
        key: int64 [2], a seed used nowhere else.
        samples: rows of every mask.
        widths: widths of the hidden layers.
        rate: share of units to drop.
    """
    bits, realised = realised_rate(rate)
    if realised == 0:
        return None
    kind = tf.uint8 if bits == 8 else tf.uint16
    threshold = tf.constant(round(realised * 2**bits), kind)
    masks = []
    for layer, width in enumerate(widths):
        seed = key + tf.constant([0, layer], tf.int64)
        words = -(-samples * width * bits // 32)
        drawn = tf.random.stateless_uniform([words], seed, None, None, tf.int32)
        numbers = tf.reshape(tf.bitcast(drawn, kind), [-1])[: samples * width]
        masks.append(tf.reshape(numbers >= threshold, [samples, width]))
    return masks


def logits(
    rows: Sequence[Any],
    parameters: Parameters,
    compute_dtype: Any,
    masks: Sequence[Any] | None = None,
    dropout: float = 0.0,
) -> Any:
    """Scores of (user, item) pairs.

    Args:
        rows: the pairs' rows of gmf_user, gmf_item, mlp_user, mlp_item, each [n, width].
        parameters: supplies the dense layers.
        compute_dtype: type of the matmuls; the last product is always float32, because bfloat16
            logits would tie candidates that differ.
        masks: units to keep in each hidden layer, or None.
        dropout: rate behind the masks.

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
            hidden = hidden * (keep * tf.cast(1 / (1 - realised_rate(dropout)[1]), compute_dtype))
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


def loss_and_gradients(
    parameters: Parameters,
    batch: Batch,
    compute_dtype: Any,
    masks: Sequence[Any] | None,
    dropout: float,
    grad_scale: Any,
) -> tuple[Any, list[Any]]:
    """Weighted sum of the sigmoid cross-entropy, and the gradients of grad_scale times it.

    Args:
        parameters: the variables.
        batch: samples with their weights (0 for padding).
        compute_dtype: type of the matmuls.
        masks: units to keep, see `logits`.
        dropout: rate behind the masks.
        grad_scale: float32 scalar: loss scale over the number of samples in the global batch.

    Returns:
        The unscaled loss sum (float32 scalar), and dense float32 gradients.
    """
    rows = gather_rows(parameters, batch.users, batch.items)
    dense_variables = parameters.flat()[4:]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([*rows, *dense_variables])
        scores = logits(rows, parameters, compute_dtype, masks, dropout)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=scores)
        loss = tf.reduce_sum(losses * batch.weights)
        scaled = loss * grad_scale
    gradients = tape.gradient(scaled, [*rows, *dense_variables])
    places = [batch.users, batch.items, batch.users, batch.items]
    tables = parameters.flat()[:4]
    # The gather's own gradient would be sparse: summed here once, so that Adam and the
    # all-reduce see one dense tensor per table.
    scattered = [
        tf.math.unsorted_segment_sum(gradient, place, table.shape[0])
        for gradient, place, table in zip(gradients[:4], places, tables, strict=True)
    ]
    return loss, [*scattered, *gradients[4:]]
