"""Rankings of the whole catalogue: complete, masked, with the declared tie rule."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow

tf = import_tensorflow()
from random_weights import ITEMS, USERS, parameters

from ncf.evaluation.catalogue import Catalogue, best_of, seen_pairs, users_per_block
from ncf.metrics import NonFiniteScores
from ncf.model.reference import gather_rows, logits

pytestmark = pytest.mark.tf
FORMULATIONS = ["reference", "fast"]
NOTHING = np.zeros((0, 2), np.int32)


def brute_force(made, users) -> np.ndarray:
    everyone = tf.repeat(tf.constant(users), ITEMS)
    items = tf.tile(tf.range(ITEMS), [len(users)])
    return logits(gather_rows(made, everyone, items), made, tf.float32).numpy().reshape(-1, ITEMS)


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Higher score first, then the lower item number."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("chunk", [7, 20, 53, 1000])
def test_every_item_gets_its_score_whatever_the_blocks(formulation, chunk) -> None:
    made, users = parameters(8, (12, 10, 6)), np.array([3, 0, 36, 3], np.int32)
    found = Catalogue(made, tf.float32, formulation, streams=2, chunk=chunk).scores(users).numpy()
    np.testing.assert_allclose(found, brute_force(made, users), atol=1e-5)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_best_items_equal_brute_force_without_masked_items(formulation) -> None:
    made, users = parameters(8, (12, 10, 6)), np.arange(USERS, dtype=np.int32)
    rng = np.random.default_rng(1)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 30, USERS))]).astype(np.int64)
    items = np.concatenate([np.sort(rng.permutation(ITEMS)[:n]) for n in np.diff(offsets)]).astype(
        np.int32
    )
    scores = brute_force(made, users)
    for user in users:
        scores[user, items[offsets[user] : offsets[user + 1]]] = -np.inf
    catalogue = Catalogue(made, tf.float32, formulation, chunk=20)
    (best,) = best_of(catalogue, users, offsets, items, 10)
    np.testing.assert_array_equal(best.items, top(scores, 10))


def test_equal_scores_go_by_the_lower_item_number() -> None:
    made = parameters(8, (12, 10, 6))
    for table in (made.gmf_item, made.mlp_item):
        table.assign(tf.repeat(table[:1], ITEMS, axis=0))
    masked = np.array([[0, 0], [0, 2], [0, 3]], np.int32)
    best = Catalogue(made, tf.float32, "fast", chunk=20).best(np.zeros(1, np.int32), masked, 4)
    assert best.items.tolist() == [[1, 4, 5, 6]]


def test_what_is_masked_scores_minus_infinity_where_nothing_else_is_left() -> None:
    made = parameters(8, (12, 10, 6))
    masked = np.stack([np.zeros(ITEMS - 2, np.int32), np.arange(ITEMS - 2)], 1).astype(np.int32)
    best = Catalogue(made, tf.float32, "fast").best(np.zeros(1, np.int32), masked, 4)
    assert set(best.items[0, :2]) == {ITEMS - 1, ITEMS - 2}
    assert np.isinf(best.scores[0, 2:]).all()


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_held_out_item_is_beaten_by_what_scores_at_least_as_high(formulation) -> None:
    made, users = parameters(8, (12, 10, 6)), np.array([5, 9], np.int32)
    held_out, masked = np.array([11, 40], np.int32), np.array([[0, 1], [0, 2], [1, 3]], np.int32)
    scores = brute_force(made, users)
    expected = []
    for row, item in enumerate(held_out):
        others = [i for i in range(ITEMS) if i != item and [row, i] not in masked.tolist()]
        expected.append(int((scores[row, others] >= scores[row, item]).sum()))
    catalogue = Catalogue(made, tf.float32, formulation, chunk=20)
    assert catalogue.beaten_by(users, masked, held_out).tolist() == expected


def test_a_constant_model_puts_the_held_out_item_last() -> None:
    made = parameters(8, (12, 10, 6))
    for variable in made.flat():
        variable.assign(tf.zeros_like(variable))
    catalogue = Catalogue(made, tf.float32, "fast")
    places = catalogue.beaten_by(np.zeros(1, np.int32), NOTHING, np.array([0], np.int32))
    assert places.tolist() == [ITEMS - 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_no_ranking(bad) -> None:
    made = parameters(8, (12, 10, 6))
    made.output_bias.assign([bad])
    catalogue, user = Catalogue(made, tf.float32, "fast"), np.zeros(1, np.int32)
    with pytest.raises(NonFiniteScores):
        catalogue.best(user, NOTHING, 3)
    with pytest.raises(NonFiniteScores):
        catalogue.beaten_by(user, NOTHING, np.array([0], np.int32))


def test_seen_pairs_are_the_training_items_of_the_users_in_their_rows() -> None:
    offsets, items = np.array([0, 2, 2, 5], np.int64), np.array([4, 7, 1, 2, 3], np.int32)
    found = seen_pairs(offsets, items, np.array([2, 1, 0, 2], np.int32))
    expected = [[0, 1], [0, 2], [0, 3], [2, 4], [2, 7], [3, 1], [3, 2], [3, 3]]
    assert found.tolist() == expected
    assert seen_pairs(offsets, items, np.array([1], np.int32)).shape == (0, 2)


def test_blocks_of_users_bound_memory_by_the_catalogue() -> None:
    assert users_per_block(26_744) * 26_744 * 4 <= 16 << 20
    assert users_per_block(1 << 30) == 1
