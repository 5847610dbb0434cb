"""The reference formulation against the model written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow

tf = import_tensorflow()
from ncf.model import neumf as model
from ncf.model.dropout import Dropout
from ncf.model.reference import Reference
from ncf.sampling.sampler import Batch

pytestmark = pytest.mark.tf
SHAPES = [(8, (12, 10, 6)), (3, (7, 5)), (4, (6,)), (64, (256, 256, 128, 64))]


KEY = tf.constant([1, 2], tf.uint32)


def batch_of(size: int, users: int = 6, items: int = 9, seed: int = 0) -> Batch:
    """Samples that are groups of their own, as where they are shuffled; two of weight 0."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, n, size).astype(np.int32) for n in (users, items)]
    labels = rng.integers(0, 2, size).astype(np.float32)
    weights = np.where(np.arange(size) < size - 2, 1, 0).astype(np.float32)
    places = np.arange(size, dtype=np.uint32)
    parts = (drawn[0], drawn[1][:, None], labels[:, None], weights, places[:, None])
    return Batch(*(tf.constant(x) for x in parts))


def differentiate(parameters, batch: Batch, dtype=tf.float32, rate: float = 0.0, scale=1.0):
    widths = [kernel.shape[1] for kernel in parameters.kernels]
    reference = Reference(parameters, dtype, Dropout(widths, rate), same_masks=True)
    return reference.loss_and_gradients(batch, KEY, scale)


def masks_of(batch: Batch, layers, rate: float):
    masks = Dropout(layers[1:], rate).masks(tf.reshape(batch.places, [-1]), KEY)
    return None if masks is None else [np.asarray(mask) for mask in masks]


def values_of(parameters: model.Parameters) -> list[np.ndarray]:
    return [variable.numpy().astype(np.float64) for variable in parameters.flat()]


def numpy_loss(values: list[np.ndarray], batch: Batch, masks, rate: float) -> float:
    gmf_user, gmf_item, mlp_user, mlp_item, *dense, output_kernel, output_bias = values
    users, items, labels, weights, _ = (part.numpy().ravel() for part in batch)
    hidden = np.concatenate([mlp_user[users], mlp_item[items]], axis=1)
    for layer, (kernel, bias) in enumerate(zip(dense[::2], dense[1::2], strict=True)):
        hidden = np.maximum(hidden @ kernel + bias, 0)
        if masks is not None:
            hidden = hidden * masks[layer] / (1 - rate)
    features = np.concatenate([gmf_user[users] * gmf_item[items], hidden], axis=1)
    scores = (features @ output_kernel)[:, 0] + output_bias
    return float(((np.logaddexp(0, scores) - labels * scores) * weights).sum())


@pytest.mark.parametrize(("factors", "layers"), SHAPES)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_the_loss_is_that_of_the_model_written_out(factors, layers, rate: float) -> None:
    parameters = model.create(6, 9, factors, layers, seed=3)
    batch = batch_of(17)
    loss, _ = differentiate(parameters, batch, rate=rate)
    expected = numpy_loss(values_of(parameters), batch, masks_of(batch, layers, rate), rate)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("factors", "layers"), SHAPES[:3])
def test_every_gradient_agrees_with_a_finite_difference(factors, layers) -> None:
    parameters = model.create(6, 9, factors, layers, seed=3)
    rng = np.random.default_rng(1)
    for variable in parameters.flat():  # away from ReLU's kink and from tiny embeddings
        variable.assign(rng.normal(0, 0.5, variable.shape).astype(np.float32))
    batch = batch_of(31)
    masks = masks_of(batch, layers, 0.5)
    _, gradients = differentiate(parameters, batch, rate=0.5)
    values, width = values_of(parameters), 1e-6
    for i, gradient in enumerate(gradients):
        assert gradient.shape == values[i].shape
        direction = rng.normal(size=values[i].shape)
        ends = []
        for sign in (1, -1):
            moved = [*values]
            moved[i] = values[i] + sign * width * direction
            ends.append(numpy_loss(moved, batch, masks, 0.5))
        slope = (ends[0] - ends[1]) / (2 * width)
        assert float(np.sum(gradient * direction)) == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_gradients_of_parts_add_up_to_those_of_the_whole() -> None:
    parameters = model.create(6, 9, 8, (12, 10, 6), seed=3)
    whole = batch_of(40)
    parts = [Batch(*(x[:13] for x in whole)), Batch(*(x[13:] for x in whole))]
    loss, expected = differentiate(parameters, whole, scale=1 / 38)
    results = [differentiate(parameters, part, scale=1 / 38) for part in parts]
    assert sum(float(r[0]) for r in results) == pytest.approx(float(loss), rel=1e-5)
    for i, gradient in enumerate(expected):
        summed = results[0][1][i] + results[1][1][i]
        np.testing.assert_allclose(summed, gradient, rtol=1e-4, atol=1e-7)


def test_a_sample_of_weight_zero_changes_nothing() -> None:
    parameters = model.create(6, 9, 8, (12, 10, 6), seed=3)
    batch = batch_of(10)
    kept = Batch(*(part[:8] for part in batch))  # the last two have weight 0
    full, short = differentiate(parameters, batch), differentiate(parameters, kept)
    assert float(full[0]) == pytest.approx(float(short[0]), rel=1e-6)
    for a, b in zip(full[1], short[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


def test_rows_that_no_sample_touches_have_a_gradient_of_zero() -> None:
    parameters = model.create(6, 9, 8, (12, 10, 6), seed=3)
    items, ones = tf.constant([[0], [3], [3], [3]]), tf.ones(4)
    batch = Batch(tf.constant([1, 1, 2, 2]), items, ones[:, None], ones, tf.cast(items, tf.uint32))
    _, gradients = differentiate(parameters, batch)
    assert set(np.flatnonzero(np.abs(gradients[0]).sum(1))) == {1, 2}
    assert set(np.flatnonzero(np.abs(gradients[3]).sum(1))) == {0, 3}


@pytest.mark.parametrize(("dtype", "bound"), [("bfloat16", 0.15), ("float16", 0.03)])
def test_mixed_precision_is_close_and_keeps_float32_gradients(dtype, bound) -> None:
    parameters = model.create(6, 9, 64, (256, 256, 128, 64), seed=3)
    batch = batch_of(512)
    # The bounds are wider than the types' rounding: some units change sides of ReLU's kink.
    exact = differentiate(parameters, batch)
    mixed = differentiate(parameters, batch, tf.as_dtype(dtype))
    assert float(mixed[0]) == pytest.approx(float(exact[0]), rel=1e-3)
    for a, b in zip(mixed[1], exact[1], strict=True):
        assert a.dtype == tf.float32
        assert np.linalg.norm(a - b) <= bound * np.linalg.norm(b)


def test_initial_values_have_the_published_distributions() -> None:
    parameters = model.create(3000, 500, 64, (256, 256, 128, 64), seed=1)
    assert float(np.std(parameters.gmf_user)) == pytest.approx(0.01, rel=0.02)
    limit = np.sqrt(6 / 512)
    assert float(np.abs(parameters.kernels[0]).max()) == pytest.approx(limit, rel=0.01)
    assert float(np.abs(parameters.output_kernel).max()) <= np.sqrt(3 / 128)
    assert all(not bias.numpy().any() for bias in parameters.biases)
    streams = [parameters.gmf_user.numpy()[0, 0], parameters.gmf_item.numpy()[0, 0]]
    assert len(set(streams)) == 2
    again = model.create(3000, 500, 64, (256, 256, 128, 64), seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(parameters.flat(), again.flat(), strict=True))


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_published_masks_drop_their_share_and_differ_by_step_and_rank(rate) -> None:
    parameters = model.create(6, 9, 8, (12, 10, 6), seed=3)
    reference = Reference(parameters, tf.float32, Dropout((256, 128), rate))
    drawn = []
    for key, first in ((KEY, 0), (KEY, 500), (tf.constant([1, 3], tf.uint32), 0)):
        places = tf.cast(tf.range(first, first + 500), tf.uint32)
        drawn.append([mask.numpy() for mask in reference._published_masks(places, key)])
    for mask in drawn[0]:
        assert mask.mean() == pytest.approx(1 - rate, abs=0.01)
    assert not np.array_equal(drawn[0][0][:, :128], drawn[0][1])
    assert not np.array_equal(drawn[0][0], drawn[1][0])
    assert not np.array_equal(drawn[0][0], drawn[2][0])
