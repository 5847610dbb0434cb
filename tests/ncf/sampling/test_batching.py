"""Steps and shares: equal on all ranks, every sample exactly once."""

from __future__ import annotations

import pytest

from ncf.sampling.batching import share, steps_per_epoch, user_slice


@pytest.mark.parametrize("world_size", range(1, 9))
def test_all_ranks_take_equal_steps_of_equal_shapes_for_every_size(world_size: int) -> None:
    for samples in range(1, 51):
        for batch in (1, 2, 6, 7, 64):
            seen: list[int] = []
            for step in range(steps_per_epoch(samples, batch)):
                parts = [share(step, samples, batch, r, world_size) for r in range(world_size)]
                assert len({part.padded for part in parts}) == 1
                assert len({part.total for part in parts}) == 1
                assert sum(part.valid for part in parts) == parts[0].total
                for part in parts:
                    seen.extend(range(part.first, part.first + part.valid))
            assert seen == list(range(samples))


def test_ten_samples_on_three_ranks_pad_the_last_rank() -> None:
    parts = [share(0, 10, 10, rank, 3) for rank in range(3)]
    assert [(p.first, p.valid, p.padded) for p in parts] == [(0, 4, 4), (4, 4, 4), (8, 2, 4)]


def test_users_are_divided_completely_among_more_ranks() -> None:
    for users in (0, 1, 3, 10):
        for world_size in range(1, 9):
            shared = [
                u for r in range(world_size) for u in range(users)[user_slice(users, r, world_size)]
            ]
            assert shared == list(range(users))
