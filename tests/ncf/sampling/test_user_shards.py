"""Ranks that own their users make the same model as ranks that hold everything."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from toy import import_tensorflow, toy_folder

from ncf.errors import UserError
from ncf.sampling import user_shards as sharing
from ncf.sampling.batching import own_shares, steps_per_epoch


def long_tailed(users: int, seed: int = 0):
    return np.minimum(20 + (np.random.default_rng(seed).pareto(1.0, users) * 40).astype(int), 9000)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 16])
def test_users_are_balanced_by_interactions_and_by_number(ranks: int) -> None:
    counts = long_tailed(20_000)
    owner = sharing.assign(counts, ranks)
    loads = np.bincount(owner, weights=counts, minlength=ranks)
    assert loads.max() <= 1.01 * loads.mean()
    users = np.bincount(owner, minlength=ranks)
    assert users.max() - users.min() <= 1


def test_the_users_of_ml_100k_are_balanced_within_one_percent_too() -> None:
    counts = np.minimum(long_tailed(943, seed=3), 737)
    for ranks in (2, 4, 8):
        loads = np.bincount(sharing.assign(counts, ranks), weights=counts)
        assert loads.max() <= 1.01 * loads.mean()


def test_every_user_has_one_rank_and_the_order_can_be_restored(tmp_path) -> None:
    data = toy_folder(tmp_path / "toy", users=61)
    shards = [sharing.Shard(data, rank, 3) for rank in range(3)]
    users = np.concatenate([shard.users for shard in shards])
    assert sorted(users) == list(range(61))
    assert (shards[0].in_order(users[:, None])[:, 0] == np.arange(61)).all()


def test_a_shard_holds_the_rows_of_its_users_under_new_numbers(tmp_path) -> None:
    data = toy_folder(tmp_path / "toy", users=61)
    for rank in range(3):
        shard = sharing.Shard(data, rank, 3)
        own = shard.data
        assert own.n_users == len(shard.users)
        assert own.n_items == data.n_items
        for local, user in enumerate(shard.users):
            ends, whole = own.train_offsets[local : local + 2], data.train_offsets[user : user + 2]
            assert (own.train_items[slice(*ends)] == data.train_items[slice(*whole)]).all()
        assert (shard.users[own.test_users] == data.test_users[shard.test_rows]).all()
        assert (own.candidates == data.candidates[shard.test_rows]).all()


def test_fewer_users_than_ranks_is_one_line_with_a_way_out() -> None:
    with pytest.raises(UserError, match=r"3 users are too few for 4 ranks.*--parallel replicated"):
        sharing.split(np.array([0, 2, 4, 6]), 4)


@pytest.mark.parametrize("world_size", range(1, 9))
def test_own_shares_visit_every_group_once_in_equal_steps_of_equal_shapes(world_size: int) -> None:
    rng = np.random.default_rng(world_size)
    for total in range(world_size, 51):
        groups = np.bincount(rng.integers(0, world_size, total), minlength=world_size).tolist()
        for per_step in (1, 2, 7, 64):
            parts = [own_shares(groups, per_step, rank) for rank in range(world_size)]
            assert {len(part) for part in parts} == {steps_per_epoch(total, per_step)}
            for together in zip(*parts, strict=True):
                assert len({(part.padded, part.total) for part in together}) == 1
                assert sum(part.valid for part in together) == together[0].total
                assert all(part.valid <= part.padded for part in together)
            for rank, part in enumerate(parts):
                seen = [g for p in part for g in range(p.first, p.first + p.valid)]
                assert seen == list(range(groups[rank]))


def test_full_steps_come_first_and_the_last_is_short() -> None:
    parts = own_shares([5000, 5000], 3000, 0)
    assert [part.total for part in parts] == [3000, 3000, 3000, 1000]


def given_batches(users: int, items: int, steps: int, groups: int, size: int):
    rng = np.random.default_rng(4)
    for step in range(steps):
        yield (
            rng.integers(0, users, groups).astype(np.int32),
            rng.integers(0, items, (groups, size)).astype(np.int32),
            np.tile(np.eye(1, size, dtype=np.float32), (groups, 1)),
            np.arange(step * groups * size, (step + 1) * groups * size, dtype=np.uint32),
        )


def train_five_steps(world_size: int, *, sharded: bool, formulation: str):
    """Parameters after 5 steps on the same samples, the ranks played one after the other."""
    tf = import_tensorflow()
    from ncf.model import neumf as model
    from ncf.model.dropout import Dropout
    from ncf.model.fast import Fast
    from ncf.model.optimizer import Adam
    from ncf.model.reference import Reference
    from ncf.sampling.sampler import Batch

    users, items, groups, size, layers = 23, 31, 24, 5, (12, 10, 6)
    owner = sharing.assign(np.arange(users) + 1, world_size)
    dropout, key, ranks = Dropout(layers[1:], 0.5), tf.constant([5, 6], tf.uint32), []
    for rank in range(world_size):
        own = np.flatnonzero(owner == rank) if sharded else np.arange(users)
        parameters = model.create(users, items, 8, layers, 3, own)
        adam = Adam(parameters.flat(), 0.01, 0.25, 0.5, 1e-8)
        form = Reference(parameters, tf.float32, dropout, same_masks=True)
        if formulation == "fast":
            form = Fast(
                parameters, tf.float32, dropout, streams=2, chunk=5, size=size, groups=groups,
                whole=False,
            )  # fmt: skip
        ranks.append(SimpleNamespace(own=own, parameters=parameters, adam=adam, form=form))
    local = [name.endswith("_user") and sharded for name in ranks[0].parameters.names()]
    for drawn, listed, labels, places in given_batches(users, items, 5, groups, size):
        found = []
        for number, rank in enumerate(ranks):
            mine = owner[drawn] == number if sharded else np.arange(groups) % world_size == number
            order = np.argsort(~mine, kind="stable")  # own groups first, then padding of weight 0
            numbers = np.minimum(np.searchsorted(rank.own, drawn), len(rank.own) - 1)
            parts = (
                numbers[order].astype(np.int32), listed[order], labels[order],
                mine[order].astype(np.float32), places.reshape(groups, size)[order],
            )  # fmt: skip
            batch = Batch(*(tf.constant(part) for part in parts))
            found.append(rank.form.loss_and_gradients(batch, key, tf.constant(1 / 120))[1])
        for number, rank in enumerate(ranks):
            sums = [
                found[number][i] if is_local else tf.add_n([g[i] for g in found])
                for i, is_local in enumerate(local)
            ]
            rank.adam.apply(sums)
    order = np.argsort(np.concatenate([rank.own for rank in ranks]))
    values = []
    for i, is_local in enumerate(local):
        each = [rank.parameters.flat()[i].numpy() for rank in ranks]
        values.append(np.concatenate(each)[order] if is_local else each[0])
    return ranks[0].parameters.names(), values


@pytest.mark.tf
@pytest.mark.parametrize("formulation", ["reference", "fast"])
def test_any_number_of_ranks_and_either_mode_make_the_same_parameters(formulation: str) -> None:
    names, expected = train_five_steps(1, sharded=False, formulation="reference")
    for world_size, sharded in ((2, False), (2, True), (3, True)):
        _, found = train_five_steps(world_size, sharded=sharded, formulation=formulation)
        for name, a, b in zip(names, expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-5, err_msg=name)
