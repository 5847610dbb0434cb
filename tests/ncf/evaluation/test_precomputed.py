"""Precomputed tables give the reference's scores, whatever the sizes and the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from random_weights import ITEMS, USERS, parameters
from toy import import_tensorflow

tf = import_tensorflow()
from ncf.evaluation import precomputed
from ncf.evaluation.precomputed import Scorer
from ncf.model import neumf as model
from ncf.model.reference import gather_rows, logits

pytestmark = pytest.mark.tf
SHAPES = [(8, (12, 10, 6)), (3, (7, 5)), (4, (6,)), (64, (256, 256, 128, 64))]


def pairs(n: int, seed: int = 2) -> tuple:
    rng = np.random.default_rng(seed)
    return tuple(tf.constant(rng.integers(0, most, n), tf.int32) for most in (USERS, ITEMS))


def reference(made: model.Parameters, users, items, dtype=tf.float32) -> np.ndarray:
    return logits(gather_rows(made, users, items), made, dtype).numpy()


@pytest.mark.parametrize(("factors", "layers"), SHAPES)
def test_precomputed_scores_are_the_references_in_float32(factors, layers) -> None:
    made, (users, items) = parameters(factors, layers), pairs(200)
    expected = reference(made, users, items)
    found = precomputed.scores(precomputed.precompute(made, tf.float32), users, items).numpy()
    assert np.std(expected) > 0.02
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("factors", "layers"), SHAPES)
def test_precomputed_bfloat16_scores_are_as_exact_as_the_reference(factors, layers) -> None:
    made, (users, items) = parameters(factors, layers), pairs(2000)
    truth = reference(made, users, items)
    theirs = reference(made, users, items, tf.bfloat16) - truth
    ours = (
        precomputed.scores(precomputed.precompute(made, tf.bfloat16), users, items).numpy() - truth
    )
    assert np.abs(ours).mean() <= 1.5 * np.abs(theirs).mean()
    assert np.abs(ours).mean() < 0.02 * np.std(truth)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 47, 48, 100])
def test_chunks_and_remainder_score_every_pair_in_order(n, dtype) -> None:
    made, (users, items) = parameters(8, (12, 10, 6)), pairs(n)
    scorer = Scorer(made, dtype, "fast", streams=2, chunk=16)
    at_once = precomputed.scores(precomputed.precompute(made, dtype), users, items).numpy()
    tolerance = 1e-5 if dtype == tf.float32 else 0.02
    np.testing.assert_allclose(scorer(users, items).numpy(), at_once, atol=tolerance)


def test_the_reference_of_the_scorer_is_the_trainings_own_forward_pass() -> None:
    made, (users, items) = parameters(8, (12, 10, 6)), pairs(50)
    scorer = Scorer(made, tf.float32, "reference")
    np.testing.assert_array_equal(
        scorer(users, items).numpy(),
        tf.function(lambda: logits(gather_rows(made, users, items), made, tf.float32))().numpy(),
    )


def test_any_batch_size_runs_without_another_compilation() -> None:
    made = parameters(8, (12, 10, 6))
    scorer = Scorer(made, tf.float32, "fast", chunk=16)
    for n in (1, 5, 16, 40, 41, 63):
        scorer(*pairs(n))
    traces = [f.experimental_get_tracing_count() for f in (scorer._small, scorer._large)]
    assert traces == [1, 1]
