"""Evaluation counts users, whatever the chunk, and joins ranks by sums."""

from __future__ import annotations

import numpy as np
import pytest
from fake_ranks import FakeRanks
from toy import import_tensorflow

from ncf import metrics
from ncf.data import candidates

tf = import_tensorflow()
from ncf.evaluation.evaluators import SampledEvaluator
from ncf.model import neumf as model
from ncf.ranks.horovod import Place, Ranks

pytestmark = pytest.mark.tf


def evaluator(chunk: int, ranks: Ranks | None = None, users: int = 23, **how) -> SampledEvaluator:
    rng = np.random.default_rng(5)
    parameters = model.create(users, 60, 8, (16, 8), seed=1)
    for variable in parameters.flat()[:4]:
        variable.assign(rng.normal(size=variable.shape).astype(np.float32))
    held_out = rng.integers(0, 60, users).astype(np.int32)
    drawn = rng.integers(0, 60, (users, 30)).astype(np.int32)
    counted = candidates.duplicate_mask(drawn, held_out)
    listed = np.concatenate([held_out[:, None], drawn], axis=1)
    test_users = np.arange(users, dtype=np.int32)
    alone = ranks or Ranks(Place())
    return SampledEvaluator(
        parameters, tf.float32, test_users, listed, counted, chunk, alone, **how
    )


def test_chunks_of_one_seven_and_all_users_give_the_same_totals() -> None:
    results = [evaluator(chunk).run(10) for chunk in (1, 7, 23, 1000)]
    assert results[0].users == 23
    assert 0 < results[0].hits < 23
    for result in results[1:]:
        assert (result.hits, result.users) == (results[0].hits, results[0].users)
        assert result.gains == pytest.approx(results[0].gains)


@pytest.mark.parametrize("streams", [1, 2])
def test_the_fast_form_finds_the_same_ranks_from_projected_tables(streams: int) -> None:
    expected = evaluator(1000).run(10)
    for chunk in (1, 7, 23, 1000):
        found = evaluator(chunk, fast=True, streams=streams).run(10)
        assert (found.hits, found.users) == (expected.hits, expected.users)
        assert found.gains == pytest.approx(expected.gains)


def test_the_fast_form_sees_weights_that_have_changed_since() -> None:
    fast = evaluator(7, fast=True)
    before = fast.run(10)
    for variable in fast._parameters.flat()[:4]:
        variable.assign(-2 * variable[::-1])
    assert fast.run(10).gains != before.gains


def test_scores_do_not_depend_on_the_ranks_that_share_the_users() -> None:
    alone = evaluator(7).run(10)
    parts = [evaluator(7, FakeRanks(rank, 3, [0, 0, 0, 0])).run(10) for rank in range(3)]
    assert sum(part.hits for part in parts) == alone.hits
    assert sum(part.users for part in parts) == alone.users


def test_rates_are_sums_divided_once_so_a_rank_without_users_works() -> None:
    # 2 of 2 users hit here, 0 of 1 there: 0.667, not the mean of 1.0 and 0.0.
    empty = evaluator(7, FakeRanks(0, 3, [2, 2.0, 3, 0]), users=2).run(10)
    assert empty.users == 3
    assert empty.hr == pytest.approx(2 / 3)


def test_scores_that_are_no_number_end_the_evaluation_on_every_rank() -> None:
    broken = evaluator(7)
    broken._scores = lambda _users, items: np.full(items.shape, np.nan)
    with pytest.raises(metrics.NonFiniteScores):
        broken.run(10)
    with pytest.raises(metrics.NonFiniteScores):  # another rank met the NaN
        evaluator(7, FakeRanks(0, 2, [1, 1.0, 5, 1])).run(10)


def test_a_constant_model_hits_nobody() -> None:
    constant = evaluator(7)
    constant._scores = lambda _users, items: np.zeros(items.shape)
    assert constant.run(10).hr == 0.0


@pytest.mark.parametrize("name", ["mlp_item", "kernel_0", "bias_0", "gmf_user", "output_bias"])
def test_weights_that_are_no_numbers_are_no_rate_though_relu_hides_them(name) -> None:
    parameters = model.create(23, 60, 8, (16, 8), seed=1)
    broken = dict(zip(parameters.names(), parameters.flat(), strict=True))[name]
    values = broken.numpy()
    values.flat[0] = np.nan
    broken.assign(values)
    users, listed = np.arange(23, dtype=np.int32), np.zeros((23, 31), np.int32)
    counted = np.ones((23, 30), bool)
    found = SampledEvaluator(parameters, tf.float32, users, listed, counted, 7, Ranks(Place()))
    with pytest.raises(metrics.NonFiniteScores):
        found.run(10)
