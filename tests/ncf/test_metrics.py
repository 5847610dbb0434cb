from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ncf import metrics
from ncf.data import candidates


def all_count(scores: np.ndarray) -> np.ndarray:
    return np.ones(scores.shape, np.bool_)


@pytest.mark.parametrize("value", [0.0, -3.0, 7.5])
def test_a_constant_model_scores_zero_because_ties_lose(value: float) -> None:
    held_out, scores = np.full(3, value), np.full((3, 101), value)
    totals = metrics.Totals.of(metrics.ranks(held_out, scores, all_count(scores)), 10)
    assert totals.hr == 0.0
    assert totals.ndcg == 0.0


def test_one_tie_costs_one_rank() -> None:
    scores = np.array([[1.0, 2.0, 3.0, 2.0]])
    assert metrics.ranks(np.array([2.0]), scores, all_count(scores)).tolist() == [3]


def test_the_best_score_has_rank_zero_and_gain_one() -> None:
    scores = np.array([[1.0, 2.0, 3.0]])
    ranks = metrics.ranks(np.array([9.0]), scores, all_count(scores))
    assert ranks.tolist() == [0]
    hits, gains = metrics.hits_and_gains(ranks, 10)
    assert (hits.tolist(), gains.tolist()) == ([1.0], [1.0])


def test_gains_are_one_over_log2_of_the_rank_from_one_plus_one() -> None:
    hits, gains = metrics.hits_and_gains(np.array([0, 1, 2, 9, 10]), 10)
    assert hits.tolist() == [1, 1, 1, 1, 0]
    np.testing.assert_allclose(gains, [1.0, 0.63093, 0.5, 0.28906, 0.0], atol=1e-5)


def test_masked_duplicates_do_not_push_the_held_out_item_out_of_the_list() -> None:
    held_out, scores = np.array([2.0, 5.0]), np.array([[3.0, 3.0], [4.0, 4.0]])
    table, items = np.array([[20, 20], [40, 40]]), np.array([10, 30])
    counts = candidates.duplicate_mask(table, items)
    assert metrics.Totals.of(metrics.ranks(held_out, scores, counts), 2).hr == 1.0
    assert metrics.Totals.of(metrics.ranks(held_out, scores, all_count(scores)), 2).hr == 0.5


def test_sums_are_merged_and_divided_once() -> None:
    # 2 of 2 hit on one process, 0 of 1 on the other: 2/3, not the 0.5 of averaged averages.
    first, second = metrics.Totals.of(np.array([0, 1]), 10), metrics.Totals.of(np.array([99]), 10)
    assert first.merge(second).hr == pytest.approx(2 / 3)
    assert metrics.Totals().merge(first).merge(metrics.Totals()) == first


def test_a_rate_without_users_is_an_error() -> None:
    with pytest.raises(ValueError, match="no users"):
        _ = metrics.Totals().hr
    with pytest.raises(ValueError, match="no users"):
        metrics.chance_hr(np.array([], np.int64), 10)


@pytest.mark.parametrize("row", [[np.nan, 1, 2, 3], [1, 2, 3, np.nan], [1, np.inf, 2, 3]])
def test_non_finite_scores_are_an_error_not_a_rate(row: list[float]) -> None:
    scores = np.array([row])
    with pytest.raises(metrics.NonFiniteScores, match="1 of 4"):
        metrics.ranks(scores[:, 0], scores[:, 1:], all_count(scores[:, 1:]))


def test_non_finite_scores_count_even_where_masked() -> None:
    scores = np.array([[np.nan, 2.0]])
    with pytest.raises(metrics.NonFiniteScores):
        metrics.ranks(np.array([1.0]), scores, np.array([[False, True]]))


def test_shapes_that_do_not_fit_are_an_error() -> None:
    scores = np.zeros((2, 3))
    with pytest.raises(ValueError, match="does not fit"):
        metrics.ranks(np.zeros(3), scores, all_count(scores))
    with pytest.raises(ValueError, match="differ in shape"):
        metrics.ranks(np.zeros(2), scores, np.ones((2, 2), np.bool_))
    with pytest.raises(ValueError, match="k is 0"):
        metrics.hits_and_gains(np.array([1]), 0)


@settings(max_examples=30, deadline=None)
@given(
    scores=hnp.arrays(np.float32, (13, 8), elements=st.floats(-2, 2, width=16)),
    chunk=st.sampled_from([1, 5, 7, 13]),
)
def test_chunks_of_users_add_up_to_the_same_totals(scores: np.ndarray, chunk: int) -> None:
    held_out, others = scores[:, 0], scores[:, 1:]
    whole = metrics.Totals.of(metrics.ranks(held_out, others, all_count(others)), 3)
    parts = metrics.Totals()
    for start in range(0, 13, chunk):
        rows = slice(start, start + chunk)
        ranks = metrics.ranks(held_out[rows], others[rows], all_count(others[rows]))
        parts = parts.merge(metrics.Totals.of(ranks, 3))
    assert (parts.hits, parts.users) == (whole.hits, whole.users)
    assert parts.gains == pytest.approx(whole.gains)


def test_chance_level_averages_over_users_with_different_candidate_counts() -> None:
    assert metrics.chance_hr(np.array([100]), 10) == pytest.approx(10 / 101)
    assert metrics.chance_hr(np.array([99, 4]), 10) == pytest.approx((0.1 + 1.0) / 2)
    assert metrics.chance_hr(np.array([0]), 10) == 1.0


def test_popularity_loses_its_ties_too(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([5, 3, 3, 1])
    held_out, table = np.array([1, 0]), np.array([[2, 3], [1, 2]])
    mask = np.ones((2, 2), np.bool_)
    for size in (1, 2, 100):
        monkeypatch.setattr(metrics, "_CHUNK_SCORES", size)
        totals = metrics.item_score_totals(counts, held_out, table, mask, 1)
        assert totals == metrics.Totals(hits=1.0, gains=1.0, users=2.0)
