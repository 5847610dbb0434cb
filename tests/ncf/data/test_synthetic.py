from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ncf import metrics
from ncf.data import candidates, synthetic
from ncf.data.split import Split, leave_one_out
from ncf.data.synthetic import PRESETS, Generated, Shape

TINY_ITEMS = [71, 8, 285, 75, 141, 263, 161, 264]
TINY_COUNTS = [31, 42, 91, 26, 23, 20, 31, 43]


def split_of(made: Generated, shape: Shape) -> Split:
    return leave_one_out(made.users, made.items, None, shape.users, shape.items, 20)


@pytest.fixture(scope="module")
def hundred_k() -> tuple[Generated, Split]:
    made = synthetic.generate(PRESETS["100k"], 1)
    return made, split_of(made, PRESETS["100k"])


@pytest.mark.parametrize("preset", ["tiny", "100k"])
def test_sizes_are_exact_and_no_pair_repeats(preset: str) -> None:
    shape = PRESETS[preset]
    made = synthetic.generate(shape, 3)
    assert len(made.users) == len(made.items) == shape.interactions
    assert np.bincount(made.users).size == shape.users
    assert np.bincount(made.items).size == shape.items
    assert np.bincount(made.items).min() >= 1
    assert np.bincount(made.users).min() >= synthetic.MIN_PER_USER
    pairs = made.users.astype(np.int64) * shape.items + made.items
    assert np.unique(pairs).size == shape.interactions


def test_large_presets_have_the_published_sizes() -> None:
    sizes = {
        name: dataclasses.astuple(shape)[:3] for name, shape in PRESETS.items() if name != "tiny"
    }
    assert sizes == {
        "100k": (943, 1682, 100_000),
        "1m": (6040, 3706, 1_000_209),
        "20m": (138_493, 26_744, 20_000_263),
        "20m-2m": (138_493, 26_744, 2_138_493),
        "20m-500k": (138_493, 26_744, 638_493),
    }


def test_speed_preset_has_two_million_training_positives() -> None:
    shape = PRESETS["20m-2m"]
    made = synthetic.generate(shape, 1)
    done = leave_one_out(made.users, made.items, None, shape.users, shape.items, shape.least)
    assert (done.n_users, done.n_items) == (shape.users, shape.items)
    assert len(done.train_items) == 2_000_000
    assert np.bincount(made.users, minlength=shape.users).min() == 2


def test_the_same_seed_makes_the_same_data_and_another_does_not() -> None:
    first, again = (synthetic.generate(PRESETS["tiny"], 5) for _ in range(2))
    np.testing.assert_array_equal(first.items, again.items)
    np.testing.assert_array_equal(first.users, again.users)
    assert (synthetic.generate(PRESETS["tiny"], 6).items != first.items).mean() > 0.9


def test_tiny_is_what_the_first_version_made() -> None:
    """Published smoke results rest on these data; a change needs another preset name."""
    made = synthetic.generate(PRESETS["tiny"], 1)
    assert made.items[:8].tolist() == TINY_ITEMS
    assert np.bincount(made.users)[:8].tolist() == TINY_COUNTS


def test_activity_and_popularity_have_long_tails(hundred_k: tuple[Generated, Split]) -> None:
    made, _ = hundred_k
    for counts in (np.bincount(made.users), np.bincount(made.items)):
        low, median, high = np.quantile(counts, [0.05, 0.5, 0.99])
        assert high > 4 * median
        assert counts.mean() > 1.2 * median
        assert low < 0.5 * median


def test_the_order_within_a_user_is_random(hundred_k: tuple[Generated, Split]) -> None:
    made, done = hundred_k
    counts = np.bincount(made.users)
    # Held-out items are like the rest of their user's, in popularity and in number.
    for value in (np.bincount(made.items), np.arange(1_682)):
        own_mean = np.bincount(made.users, value[made.items]) / counts
        assert value[done.test_items].mean() == pytest.approx(own_mean.mean(), rel=0.06)


def test_the_oracle_beats_popularity_and_that_beats_chance(
    hundred_k: tuple[Generated, Split],
) -> None:
    made, done = hundred_k
    drawn = candidates.draw(done.history, candidates.Drawing("nvidia", 100, 1))
    counts = candidates.duplicate_mask(drawn, done.test_items)
    chance = metrics.chance_hr(counts.sum(axis=1), 10)
    popularity = metrics.item_score_totals(
        np.bincount(done.train_items, minlength=done.n_items), done.test_items, drawn, counts, 10
    ).hr
    oracle = metrics.candidate_totals(
        lambda rows, items: made.structure.scores(done.test_users[rows], items),
        done.test_items,
        drawn,
        counts,
        10,
    ).hr
    assert 0.09 < chance < 0.11
    assert 0.30 < popularity < 0.45
    assert oracle > 0.75


def test_finishing_by_a_race_has_the_distribution_of_redrawing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One taste, 12 items, 4 drawn by each of many users: inclusion rates must agree."""
    users, weights = 40_000, np.arange(1, 13) / 78
    arguments = (np.full(users, 4), np.ones((users, 1)), weights[None, :], np.zeros(0, np.int64))
    rates = []
    for rounds in (50, 1):
        monkeypatch.setattr(synthetic, "_ROUNDS", rounds)
        keys = synthetic._draw(np.random.default_rng(rounds), *arguments)
        assert np.unique(keys).size == 4 * users
        assert (np.bincount(keys // 12) == 4).all()
        rates.append(np.bincount(keys % 12, minlength=12) / users)
    np.testing.assert_allclose(rates[0], rates[1], atol=0.012)


def test_progress_is_told_after_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "_CHUNK_ROWS", 2_000)
    told: list[int] = []
    made = synthetic.generate(PRESETS["tiny"], 1, told.append)
    assert len(told) >= 3
    assert told == sorted(told)
    assert told[-1] == len(made.users) == 6_000


@pytest.mark.parametrize(
    "shape", [Shape(10, 100, 150, 2), Shape(10, 100, 900, 2), Shape(10, 2_000, 300, 2)]
)
def test_sizes_that_cannot_be_met_are_refused(shape: Shape) -> None:
    with pytest.raises(ValueError, match=r"leaves no user|too many"):
        synthetic.generate(shape, 1)


@pytest.mark.slow
def test_twenty_million_interactions_are_generated_exactly() -> None:
    shape = PRESETS["20m"]
    made = synthetic.generate(shape, 1)
    assert np.bincount(made.items, minlength=shape.items).min() >= 1
    assert np.bincount(made.users, minlength=shape.users).sum() == shape.interactions
