"""The fast formulation is the reference: the same loss, the same gradients, from less work."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow

tf = import_tensorflow()
from ncf.model import neumf as model
from ncf.model.dropout import Dropout
from ncf.model.fast import Fast
from ncf.model.reference import Reference
from ncf.sampling.sampler import Batch

pytestmark = pytest.mark.tf
PUBLISHED = (64, (256, 256, 128, 64))
SHAPES = [PUBLISHED, (8, (64, 32, 16, 8)), (8, (32, 16)), (5, (7, 9, 3)), (4, (6,))]
SHAPES.append((16, (32, 16)))  # users' tables of one shape, whose sums must not be taken for one
KEY = tf.constant([123, 456], tf.uint32)
SLOW = pytest.mark.slow  # the whole grid compiles for minutes
USERS, ITEMS = 23, 31


def batch_of(groups: int, size: int, seed: int = 0, skew: float = 1.5) -> Batch:
    """Groups with repeated users and items, the last two of weight 0."""
    rng = np.random.default_rng(seed)
    users = (rng.zipf(skew, groups) % USERS).astype(np.int32)
    items = (rng.zipf(skew, (groups, size)) % ITEMS).astype(np.int32)
    labels = rng.integers(0, 2, (groups, size)).astype(np.float32)
    weights = np.where(np.arange(groups) < groups - 2, 1, 0).astype(np.float32)
    places = np.arange(1000, 1000 + groups * size, dtype=np.uint32).reshape(groups, size)
    return Batch(*(tf.constant(x) for x in (users, items, labels, weights, places)))


def parameters_of(factors, layers, seed: int = 3) -> model.Parameters:
    """Embeddings large enough that every unit's gradient matters."""
    parameters = model.create(USERS, ITEMS, factors, layers, seed)
    rng = np.random.default_rng(seed)
    for variable in parameters.flat():
        spread = 0.3 if variable.shape[0] in (USERS, ITEMS) else 0.2
        variable.assign(rng.normal(0, spread, variable.shape).astype(np.float32))
    return parameters


def nearest_kink(parameters: model.Parameters, batch: Batch, dropout: Dropout) -> float:
    """The smallest |pre-activation| of a kept unit, in float64."""
    values = [variable.numpy().astype(np.float64) for variable in parameters.flat()]
    users = np.repeat(batch.users.numpy(), batch.items.shape[1])
    hidden = np.concatenate([values[2][users], values[3][batch.items.numpy().ravel()]], axis=1)
    masks = dropout.masks(tf.reshape(batch.places, [-1]), KEY)
    nearest = np.inf
    for layer in range(len(dropout.widths)):
        hidden = hidden @ values[4 + 2 * layer] + values[5 + 2 * layer]
        keep = np.ones(hidden.shape, bool) if masks is None else masks[layer].numpy()
        nearest = min(nearest, np.abs(hidden[keep]).min())
        hidden = np.maximum(hidden, 0) * keep * (dropout.scale if masks else 1)
    return float(nearest)


def clear_of_kinks(parameters: model.Parameters, batch: Batch, dropout: Dropout) -> Batch:
    """A batch like this one in which no rounding error can change a unit's side of ReLU's kink.

    There the gradient jumps: two correct computations may take either side.
    """
    groups, size = batch.items.shape
    for seed in range(20):
        if nearest_kink(parameters, batch, dropout) > 2e-6:
            return batch
        batch = batch_of(groups, size, seed + 1)
    raise AssertionError("20 batches in a row come too near to a kink")


def both(
    factors, layers, batch: Batch, rate: float, dtype="float32", *,
    streams: int = 2, chunk: int = 7, groups: int = 10**9, whole: bool = False,
):  # fmt: skip
    parameters, kind = parameters_of(factors, layers), tf.as_dtype(dtype)
    dropout = Dropout(layers[1:], rate)
    scale = tf.constant(1 / 50)
    if dtype == "float32":
        batch = clear_of_kinks(parameters, batch, dropout)
    fast = Fast(
        parameters,
        kind,
        dropout,
        streams=streams,
        chunk=chunk,
        size=batch.items.shape[1],
        groups=groups,
        whole=whole,
    )
    results = []
    for formulation in (Reference(parameters, kind, dropout, same_masks=True), fast):
        compute = tf.function(
            formulation.loss_and_gradients, jit_compile=whole or None, autograph=False
        )
        loss, gradients = compute(batch, KEY, scale)
        results.append((float(loss), [g.numpy() for g in gradients]))
    return parameters.names(), *results


def assert_equal(found, rtol: float = 1e-4) -> None:
    names, (loss, gradients), (fast_loss, fast_gradients) = found
    assert fast_loss == pytest.approx(loss, rel=rtol)
    for name, expected, gradient in zip(names, gradients, fast_gradients, strict=True):
        assert gradient.dtype == np.float32
        assert gradient.shape == expected.shape
        # Elements near 0 are sums that cancel: their error is that of the terms.
        near_zero = rtol * np.abs(expected).max()
        np.testing.assert_allclose(gradient, expected, rtol, near_zero, err_msg=name)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        (PUBLISHED, 0.5),
        *((SHAPES[1], rate) for rate in (0.0, 0.2, 0.5)),
        *((s, 0.5) for s in SHAPES[2:]),
    ],
)
def test_loss_and_every_gradient_equal_the_reference(shape, rate: float) -> None:
    assert_equal(both(*shape, batch_of(45, 5), rate))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_every_shape_rate_and_group_size_equals_the_reference(shape, rate: float, size) -> None:
    assert_equal(both(*shape, batch_of(45, size), rate))


@pytest.mark.parametrize("negatives", [0, 1, 4, 10])
def test_any_number_of_negatives_makes_the_same_gradients(negatives: int) -> None:
    assert_equal(both(8, (64, 32, 16, 8), batch_of(29, 1 + negatives), 0.5))


@pytest.mark.parametrize(
    ("groups", "streams"),
    [(1, 2), (3, 2), (14, 2), (29, 1), (29, 3)]
    + [pytest.param(n, streams, marks=SLOW) for n in (2, 13, 15, 28, 99) for streams in (1, 2, 3)],
)
def test_any_cut_of_the_batch_makes_the_same_gradients(groups: int, streams: int) -> None:
    assert_equal(both(8, (12, 10, 6), batch_of(groups, 5), 0.2, streams=streams))


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[4]])
def test_few_samples_and_many_items_take_the_rows_instead_of_the_table(shape) -> None:
    assert_equal(both(*shape, batch_of(5, 5), 0.5, groups=5))


@pytest.mark.parametrize("groups", [5, 10**9])
@pytest.mark.parametrize("chunk", [7, 1000])
@pytest.mark.parametrize(("factors", "layers"), [SHAPES[1], pytest.param(4, (6,), marks=SLOW)])
def test_the_form_for_a_gpu_compiles_whole_and_computes_the_same(
    factors, layers, chunk: int, groups: int
) -> None:
    found = both(factors, layers, batch_of(45, 5), 0.5, chunk=chunk, groups=groups, whole=True)
    assert_equal(found)


@pytest.mark.parametrize(("dtype", "bound"), [("bfloat16", 0.1), ("float16", 0.05)])
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=SLOW)])
def test_mixed_precision_is_as_close_to_float32_as_the_references(dtype, bound, whole) -> None:
    # The bounds are wider than the types' rounding: some units change sides of ReLU's kink.
    shape = (16, (64, 64, 32))
    batch = clear_of_kinks(parameters_of(*shape), batch_of(40, 5), Dropout(shape[1][1:], 0.5))
    exact = both(*shape, batch, 0.5)[1]
    _, reference, fast = both(*shape, batch, 0.5, dtype, whole=whole)
    assert fast[0] == pytest.approx(exact[0], rel=5e-3)
    for a, b, c in zip(exact[1], reference[1], fast[1], strict=True):
        assert c.dtype == np.float32
        error = np.linalg.norm(c - a) / np.linalg.norm(a)
        assert error <= max(bound, 2 * np.linalg.norm(b - a) / np.linalg.norm(a))


def test_the_same_batch_gives_the_same_bits() -> None:
    first, again = (both(8, (32, 16), batch_of(300, 5), 0.5)[2] for _ in range(2))
    assert first[0] == again[0]
    assert all(np.array_equal(a, b) for a, b in zip(first[1], again[1], strict=True))


def test_a_second_step_starts_from_clear_sums() -> None:
    parameters = parameters_of(8, (12, 10, 6))
    dropout = Dropout((10, 6), 0.5)
    fast = Fast(parameters, tf.float32, dropout, streams=2, chunk=7, size=5, groups=45, whole=False)
    compute = tf.function(fast.loss_and_gradients, autograph=False)
    first, again = (compute(batch_of(45, 5), KEY, tf.constant(0.02)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first[1], again[1], strict=True))
