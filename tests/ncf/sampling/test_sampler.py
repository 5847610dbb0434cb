"""The epoch's order is a permutation, negatives are uniform, and ranks only slice them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from toy import import_tensorflow

from ncf.errors import UserError

tf = import_tensorflow()
from ncf.sampling.batching import share
from ncf.sampling.sampler import Sampler, derive_key, epoch_keys, grid_for, permute

pytestmark = pytest.mark.tf


def toy_sampler(*, exact: bool = False, negatives: int = 4, grouped: bool = False) -> Sampler:
    offsets = np.array([0, 3, 4, 9], np.int64)
    items = np.array([0, 2, 5, 1, 0, 1, 2, 3, 4], np.int32)
    return Sampler(offsets, items, 7, negatives, exact=exact, grouped=grouped)


def draw(sampler: Sampler, seed: int, epoch: int, first: int, valid: int, padded: int):
    keys = tf.constant(epoch_keys(seed, epoch))
    batch = sampler.batch(keys, tf.constant(first, tf.int64), tf.constant(valid, tf.int64), padded)
    size = batch.items.shape[1]
    each = [np.repeat(batch.users, size), *(np.ravel(x) for x in batch[1:3])]
    return [*each, np.repeat(batch.weights, size)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 101, 1000, 4999, 65537])
def test_the_order_visits_every_sample_exactly_once(count: int) -> None:
    places = tf.range(count, dtype=tf.int64)
    order = permute(places, count, tf.constant(epoch_keys(1, 1))).numpy()
    assert sorted(order) == list(range(count))


def test_a_place_maps_to_the_same_sample_whatever_is_asked_with_it() -> None:
    keys = tf.constant(epoch_keys(3, 2))
    whole = permute(tf.range(5000, dtype=tf.int64), 5000, keys).numpy()
    part = permute(tf.constant([4321, 7, 7], tf.int64), 5000, keys).numpy()
    assert list(part) == [whole[4321], whole[7], whole[7]]


def test_the_order_looks_shuffled() -> None:
    count = 50_000
    order = permute(tf.range(count, dtype=tf.int64), count, tf.constant(epoch_keys(5, 1))).numpy()
    cells, _, _ = np.histogram2d(np.arange(count), order, bins=20)
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4
    steps = (np.diff(order) % count) * 20 // count
    assert stats.chisquare(np.bincount(steps, minlength=20)).pvalue > 1e-4


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    places = tf.range(1000, dtype=tf.int64)
    orders = [
        tuple(permute(places, 1000, tf.constant(epoch_keys(*key))).numpy())
        for key in ((1, 1), (1, 2), (2, 1), (2, 2))
    ]
    assert len(set(orders)) == 4


def test_the_grid_wastes_next_to_nothing() -> None:
    for count in (495_285, 99_309_500, 100_007, 6_123_456_789):
        a, b = grid_for(count)
        assert a * b >= count
        assert a * b - count < 1e-4 * count


def test_keys_of_different_purposes_differ() -> None:
    purposes = itertools.product(range(20), range(20), range(9))
    keys = {derive_key(*parts) for parts in purposes}
    assert len(keys) == 20 * 20 * 9


def test_epoch_has_every_positive_once_with_k_negatives() -> None:
    sampler = toy_sampler(negatives=4)
    users, items, labels, weights = draw(sampler, 1, 1, 0, 45, 45)
    positives = sorted(zip(users[labels == 1], items[labels == 1], strict=True))
    assert positives == [(0, 0), (0, 2), (0, 5), (1, 1), *((2, i) for i in range(5))]
    assert list(np.bincount(users[labels == 0])) == [12, 4, 20]
    assert weights.sum() == 45


def test_grouped_samples_are_a_positive_and_its_own_negatives() -> None:
    sampler = toy_sampler(grouped=True)
    assert (sampler.groups, sampler.group_size, sampler.samples) == (9, 5, 45)
    keys = tf.constant(epoch_keys(1, 1))
    batch = sampler.batch(keys, tf.constant(0, tf.int64), tf.constant(9, tf.int64), 9)
    assert (batch.labels.numpy() == [1, 0, 0, 0, 0]).all()
    pairs = zip(batch.users.numpy(), batch.items.numpy()[:, 0], strict=True)
    assert sorted(pairs) == [(0, 0), (0, 2), (0, 5), (1, 1), *((2, i) for i in range(5))]
    assert sorted(batch.places.numpy().ravel()) == list(range(45))


def test_grouping_changes_the_order_of_an_epoch_and_not_its_samples() -> None:
    drawn = [
        draw(toy_sampler(grouped=grouped), 1, 1, 0, n, n) for grouped, n in ((False, 45), (True, 9))
    ]
    shuffled, grouped = (sorted(zip(*x[:3], strict=True)) for x in drawn)
    assert shuffled == grouped


def test_four_ranks_draw_different_samples_and_each_repeats_exactly() -> None:
    offsets = np.arange(0, 2001, 2, dtype=np.int64)
    items = np.tile(np.array([3, 40_000], np.int32), 1000)
    sampler = Sampler(offsets, items, 50_000, 4, exact=False)
    streams = []
    for rank in range(4):
        part = share(0, sampler.samples, 4000, rank, 4)
        drawn = draw(sampler, 1, 1, part.first, part.valid, part.padded)
        again = draw(sampler, 1, 1, part.first, part.valid, part.padded)
        assert all((a == b).all() for a, b in zip(drawn, again, strict=True))
        streams.append(tuple(drawn[1]))
    assert len(set(streams)) == 4


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_the_samples_of_a_step_do_not_depend_on_the_number_of_ranks(world_size: int) -> None:
    sampler = toy_sampler()
    alone = np.array(draw(sampler, 9, 3, 0, 20, 20)[:3])
    parts = [share(0, 45, 20, rank, world_size) for rank in range(world_size)]
    drawn = [np.array(draw(sampler, 9, 3, p.first, p.valid, p.padded)) for p in parts]
    shared = [d[:3, : p.valid] for d, p in zip(drawn, parts, strict=True)]
    assert (np.concatenate(shared, axis=1) == alone).all()


def test_padding_has_weight_zero() -> None:
    weights = draw(toy_sampler(), 1, 1, 40, 5, 8)[3]
    assert list(weights) == [1, 1, 1, 1, 1, 0, 0, 0]


def negatives_of(sampler: Sampler, epochs: int, size: int):
    keys = [draw(sampler, 1, epoch, 0, size, size) for epoch in range(1, epochs + 1)]
    users = np.concatenate([k[0][k[2] == 0] for k in keys])
    return users, np.concatenate([k[1][k[2] == 0] for k in keys])


def test_short_cut_negatives_are_uniform_over_all_items() -> None:
    _, items = negatives_of(toy_sampler(negatives=40), 50, 369)
    assert stats.chisquare(np.bincount(items, minlength=7)).pvalue > 1e-4


def test_exact_negatives_are_uniform_over_the_unseen_items_and_only_these() -> None:
    users, items = negatives_of(toy_sampler(exact=True, negatives=40), 50, 369)
    for user, unseen in ((0, [1, 3, 4, 6]), (1, [0, 2, 3, 4, 5, 6]), (2, [5, 6])):
        counts = np.bincount(items[users == user], minlength=7)
        assert set(np.flatnonzero(counts)) == set(unseen)
        assert stats.chisquare(counts[unseen]).pvalue > 1e-4


def test_exact_negatives_exclude_training_items_only() -> None:
    # One user trained on item 0 of 3; item 1 is held out, which training does not know.
    sampler = Sampler(np.array([0, 1]), np.array([0], np.int32), 3, 10_000, exact=True)
    _, items = negatives_of(sampler, 1, 10_001)
    assert set(items) == {1, 2}
    assert abs((items == 1).mean() - 0.5) < 0.03


def test_every_r_maps_to_the_r_th_unseen_item() -> None:
    rng = np.random.default_rng(0)
    n_items = 23
    for size in range(n_items):
        seen = np.sort(rng.permutation(n_items)[:size]).astype(np.int32)
        if size == 0:
            continue
        sampler = Sampler(np.array([0, size]), seen, n_items, 1, exact=True)
        unseen = np.setdiff1d(np.arange(n_items), seen)
        # A hash whose upper 32 bits are r / n of the range maps to r exactly.
        hashes = [((r << 32) // len(unseen) + 1) << 32 for r in range(len(unseen))]
        users = tf.zeros(len(unseen), tf.int32)
        found = sampler._unseen(users, tf.constant(hashes, tf.uint64)).numpy()
        assert list(found) == list(unseen)


def test_a_user_who_has_seen_everything_is_found_before_sampling() -> None:
    offsets, items = np.array([0, 4, 5]), np.array([0, 1, 2, 3, 0], np.int32)
    with pytest.raises(UserError, match=r"1 users have all 4 items .*\[0\]"):
        Sampler(offsets, items, 4, 2, exact=True)


@pytest.mark.parametrize("exact", [False, True])
def test_false_negatives_are_counted_among_the_negatives_really_drawn(exact: bool) -> None:
    sampler = toy_sampler(exact=exact, negatives=40)
    history = {0: {0, 2, 5}, 1: {1}, 2: {0, 1, 2, 3, 4}}
    users, items, labels, _ = draw(sampler, 1, 1, 0, 369, 369)
    drawn = list(zip(users[labels == 0].tolist(), items[labels == 0].tolist(), strict=True))
    false = sum(item in history[user] for user, item in drawn)
    assert sampler.false_negatives(tf.constant(epoch_keys(1, 1))) == (false, 360)
    assert (false == 0) == exact
    part, looked_at = sampler.false_negatives(tf.constant(epoch_keys(1, 1)), most=100)
    assert looked_at < 100
    assert part <= false


def test_every_pair_is_told_apart_by_whether_the_user_has_seen_it() -> None:
    users, items = np.divmod(np.arange(21, dtype=np.int32), 7)
    seen = toy_sampler().seen(tf.constant(users), tf.constant(items)).numpy().reshape(3, 7)
    assert [np.flatnonzero(row).tolist() for row in seen] == [[0, 2, 5], [1], [0, 1, 2, 3, 4]]


def test_ids_of_the_largest_expansion_do_not_overflow() -> None:
    # 2.2 M users x 0.86 M items: users * items is far beyond 2**32, so any product of the two
    # in 32 bits would show as an item that the user has, or as one out of range.
    n_users, n_items, per_user = 2_215_888, 855_808, 3
    offsets = np.arange(n_users + 1, dtype=np.int64) * per_user
    rng = np.random.default_rng(0)
    items = np.sort(rng.integers(0, n_items // 3, (n_users, per_user)), axis=1)
    items = (items * 3 + np.arange(3)).astype(np.int32).ravel()  # ascending and distinct
    sampler = Sampler(offsets, items, n_items, 4, exact=True)
    assert sampler.samples == 5 * per_user * n_users
    users, drawn, labels, _ = draw(sampler, 1, 1, sampler.samples - 50_000, 50_000, 50_000)
    assert users.max() > n_users * 0.99
    assert 0 <= drawn.min() <= drawn.max() < n_items
    own = items.reshape(n_users, per_user)[users]
    assert ((own == drawn[:, None]).any(axis=1) == (labels == 1)).all()
    assert sampler.false_negatives(tf.constant(epoch_keys(1, 1)), most=50_000)[0] == 0


def test_places_beyond_32_bits_are_counted_in_64() -> None:
    sampler = toy_sampler(exact=True)
    sampler._place = tf.int64
    sampler._offsets = tf.cast(sampler._offsets, tf.int64)
    wide = draw(sampler, 1, 1, 0, 45, 45)
    narrow = draw(toy_sampler(exact=True), 1, 1, 0, 45, 45)
    assert all((one == other).all() for one, other in zip(wide, narrow, strict=True))
