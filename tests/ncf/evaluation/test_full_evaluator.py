"""Evaluation against the whole catalogue: exact, masked, and never mixed with sampled protocols."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow, toy_folder

from ncf import metrics
from ncf.training import checkpoint

tf = import_tensorflow()
from fake_ranks import FakeRanks
from small_training import run

from ncf.evaluation import evaluators, protocol
from ncf.model import neumf as model
from ncf.model.reference import gather_rows, logits
from ncf.ranks.horovod import Place, Ranks

pytestmark = pytest.mark.tf


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy_folder(tmp_path_factory.mktemp("full") / "toy")


def parameters(data, seed: int = 3) -> model.Parameters:
    made = model.create(data.n_users, data.n_items, 8, (32, 16, 8), 1)
    rng = np.random.default_rng(seed)
    for variable in made.flat():
        variable.assign(rng.normal(scale=0.4, size=variable.shape).astype(np.float32))
    return made


def evaluator(data, made, formulation="fast", ranks=None) -> evaluators.FullEvaluator:
    alone = ranks or Ranks(Place())
    return evaluators.FullEvaluator(
        made, tf.float32, data, alone, formulation=formulation, streams=2
    )


def brute_force(data, made, k: int) -> metrics.Totals:
    places = []
    for user, held_out in zip(data.test_users, data.test_items, strict=True):
        users, items = tf.fill([data.n_items], user), tf.range(data.n_items)
        scores = logits(gather_rows(made, users, items), made, tf.float32).numpy()
        seen = data.train_items[data.train_offsets[user] : data.train_offsets[user + 1]]
        others = np.setdiff1d(np.arange(data.n_items), [*seen, held_out])
        places.append(int((scores[others] >= scores[held_out]).sum()))
    return metrics.Totals.of(np.array(places), k)


@pytest.mark.parametrize("formulation", ["reference", "fast"])
def test_the_rate_is_that_of_brute_force(data, formulation) -> None:
    made = parameters(data)
    found, expected = evaluator(data, made, formulation).run(5), brute_force(data, made, 5)
    assert (found.hits, found.users) == (expected.hits, expected.users)
    assert found.gains == pytest.approx(expected.gains)
    assert 0 < found.hr < 1


def test_blocks_of_any_size_give_the_same_rate(data, monkeypatch) -> None:
    made = parameters(data)
    whole = evaluator(data, made).run(5)
    for scores in (1, 3 * data.n_items, 7 * data.n_items):
        monkeypatch.setattr("ncf.evaluation.catalogue.BLOCK_SCORES", scores)
        assert evaluator(data, made).run(5).hits == whole.hits


def test_weights_that_changed_since_the_last_evaluation_show(data) -> None:
    made, other = parameters(data), parameters(data, seed=9)
    kept = evaluator(data, made)
    first = kept.run(5)
    for variable, value in zip(made.flat(), other.flat(), strict=True):
        variable.assign(value)
    assert kept.run(5).hits == brute_force(data, other, 5).hits
    assert kept.run(5).hits != first.hits


def test_ranks_share_the_users_and_add_up(data) -> None:
    made = parameters(data)
    alone = evaluator(data, made).run(5)
    parts = [evaluator(data, made, ranks=FakeRanks(r, 3, [0] * 4)).run(5) for r in range(3)]
    assert sum(part.hits for part in parts) == alone.hits
    assert sum(part.users for part in parts) == alone.users


def test_a_constant_model_scores_zero(data) -> None:
    made = parameters(data)
    for variable in made.flat():
        variable.assign(tf.zeros_like(variable))
    assert evaluator(data, made).run(10).hr == 0


def test_a_rank_that_meets_a_nan_still_joins_and_the_evaluation_fails(data) -> None:
    made = parameters(data)
    made.mlp_item.assign(tf.fill(made.mlp_item.shape, np.float32(np.nan)))
    with pytest.raises(metrics.NonFiniteScores, match="1 ranks"):
        evaluator(data, made).run(5)
    with pytest.raises(metrics.NonFiniteScores):
        evaluator(data, parameters(data), ranks=FakeRanks(0, 2, [0, 0, 0, 1])).run(5)


def test_popularity_of_the_whole_catalogue_is_ranked_as_models_are(data) -> None:
    counts = np.bincount(data.train_items, minlength=data.n_items)
    expected = []
    for user, held_out in zip(data.test_users, data.test_items, strict=True):
        seen = data.train_items[data.train_offsets[user] : data.train_offsets[user + 1]]
        others = np.setdiff1d(np.arange(data.n_items), [*seen, held_out])
        expected.append(int((counts[others] >= counts[held_out]).sum()))
    assert evaluators.popularity_places(data).tolist() == expected
    assert evaluators.competitors(data).tolist() == [data.n_items - 11 - 1] * data.n_test


def test_each_protocol_has_its_own_identity_chance_and_candidates(data) -> None:
    def about(name):
        options = protocol.EvaluationOptions(name, None, 10, 64)
        made = parameters(data)
        return protocol.build(options, data, made, tf.float32, Ranks(Place())).dataset

    sampled, full = about(None), about("full")
    assert (sampled.protocol, full.protocol) == ("nvidia", "full")
    assert full.candidates_per_user == data.n_items - 1
    assert full.effective_candidates_mean == data.n_items - 12
    assert full.chance_hr_at_k == pytest.approx(10 / (data.n_items - 11))
    assert len({sampled.candidates_hash, full.candidates_hash}) == 2


def test_training_on_the_full_protocol_says_so_in_its_record(data, tmp_path) -> None:
    folder = str(tmp_path / "ck")
    words = ["--epochs", "2", "--protocol", "full", "--checkpoint_dir", folder]
    result = run(str(data.folder), tmp_path, *words)[1]
    assert result.dataset.protocol == result.config["protocol"] == "full"
    # the last epoch's rate is that of the weights that were written after it
    made = checkpoint.restore(tmp_path / "ck" / "last.npz", "--checkpoint", data).parameters
    assert result.epochs[-1].hr_at_k == brute_force(data, made, 5).hr
