"""How a batch is cut into chunks."""

from __future__ import annotations

import pytest
from toy import import_tensorflow

import_tensorflow()

from ncf.model.fast_chunk import chunks_like, split_into_chunks

pytestmark = pytest.mark.tf


@pytest.mark.parametrize("groups", [1, 7, 100, 1000, 209_715])
@pytest.mark.parametrize("streams", [1, 2, 5])
def test_chunks_are_equal_and_hold_every_group_with_little_padding(
    groups: int, streams: int
) -> None:
    found = split_into_chunks(groups, streams, 819)
    assert found.chunk <= 819
    assert 0 <= found.groups - groups < found.rounds * found.streams


@pytest.mark.parametrize("groups", [1, 819, 1638, 1639, 161_140, 209_715])
def test_a_short_step_is_walked_in_chunks_of_the_full_one(groups: int) -> None:
    full = split_into_chunks(209_715, 2, 819)
    found = chunks_like(full, groups)
    assert (found.streams, found.chunk) == (full.streams, full.chunk)
    assert 0 <= found.groups - groups < full.streams * full.chunk
    assert chunks_like(full, 209_715) == full
