from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncf.data import split
from ncf.data.split import NothingLeftError, Split, leave_one_out

Row = tuple[int, int, int]


def split_rows(rows: list[Row], least: int = 1, *, timed: bool = True) -> Split:
    """Split (user, item, time) rows whose numbers are dense enough as they are."""
    users, items, times = (np.array(column) for column in zip(*rows, strict=True))
    return leave_one_out(
        users, items, times if timed else None, users.max() + 1, items.max() + 1, least
    )


def as_sets(done: Split) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Training items and held-out item of each user, in the numbers before the split."""
    train, test = {}, {}
    for new, old in enumerate(done.kept_users.tolist()):
        own = done.train_items[done.train_offsets[new] : done.train_offsets[new + 1]]
        assert (np.diff(own) > 0).all()
        train[old] = done.kept_items[own].tolist()
    for user, item in zip(done.test_users, done.test_items, strict=True):
        test[int(done.kept_users[user])] = int(done.kept_items[item])
    return train, test


def plain(rows: list[Row], least: int, *, timed: bool) -> tuple[dict, dict]:
    """The same rule, written down with dictionaries."""
    latest: dict[tuple[int, int], tuple[int, int]] = {}
    for place, (user, item, time) in enumerate(rows):
        key = (time if timed else 0, place)
        latest[user, item] = max(latest.get((user, item), key), key)
    train, test = {}, {}
    for user in {user for user, _ in latest}:
        own = sorted((key, item) for (u, item), key in latest.items() if u == user)
        if len(own) >= max(2, least):
            test[user] = own[-1][1]
            train[user] = sorted(item for _, item in own[:-1])
    return train, test


interactions = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=60
)


@settings(max_examples=300, deadline=None)
@given(interactions, st.integers(1, 4), st.booleans())
def test_the_split_is_the_one_of_the_plain_rule(rows: list[Row], least: int, timed: bool) -> None:
    expected = plain(rows, least, timed=timed)
    if not expected[1]:
        with pytest.raises(NothingLeftError):
            split_rows(rows, least, timed=timed)
        return
    done = split_rows(rows, least, timed=timed)
    assert as_sets(done) == expected
    kept = sum(map(len, expected[0].values())) + len(expected[1])
    dropped = done.dropped_repeats + done.dropped_short_rows + len(done.single_users)
    assert done.rows == len(rows) == kept + dropped
    assert done.train_items.dtype == done.test_items.dtype == np.int32


@settings(max_examples=100, deadline=None)
@given(interactions, st.randoms(use_true_random=False))
def test_only_the_order_of_a_users_own_rows_matters(rows: list[Row], random: object) -> None:
    owners = [user for user, _, _ in rows]
    random.shuffle(owners)
    own = {user: iter([row for row in rows if row[0] == user]) for user in owners}
    shuffled = [next(own[user]) for user in owners]
    try:
        first = split_rows(rows, 2)
    except NothingLeftError:
        return
    second = split_rows(shuffled, 2)
    for name in ("train_offsets", "train_items", "test_users", "test_items", "kept_items"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@settings(max_examples=150, deadline=None)
@given(interactions, st.integers(1, 70), st.integers(1, 4), st.booleans())
def test_the_size_of_pieces_and_the_number_of_threads_change_nothing(
    rows: list[Row], chunk: int, threads: int, timed: bool
) -> None:
    users, items, times = (np.array(column) for column in zip(*rows, strict=True))
    arguments = (users, items, times if timed else None, users.max() + 1, items.max() + 1, 2)
    try:
        whole = leave_one_out(*arguments)
    except NothingLeftError:
        return
    parts = leave_one_out(*arguments, threads=threads, chunk_rows=chunk)
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(getattr(parts, name), value)


def test_files_sorted_by_user_are_left_in_their_order() -> None:
    users = np.array([0, 0, 2, 2, 5], np.int32)
    order, bounds = split._by_user(users, 6)
    assert order is None
    assert bounds.tolist() == [0, 2, 2, 4, 4, 4, 5]
    order, bounds = split._by_user(users[::-1].copy(), 6)
    assert bounds.tolist() == [0, 2, 2, 4, 4, 4, 5]
    assert order is not None
    assert order.tolist() == [3, 4, 1, 2, 0]


@settings(max_examples=50, deadline=None)
@given(interactions)
def test_packed_and_indirect_sorting_agree(rows: list[Row]) -> None:
    users, items, _ = (np.array(column) for column in zip(*rows, strict=True))
    packed = split._sorted_by_pair(users, items, 6, 8)
    # So many users that key and place no longer fit one word.
    indirect = split._sorted_by_pair(users, items, 2**58, 8)
    for one, other in zip(packed, indirect, strict=True):
        np.testing.assert_array_equal(one, other)


def test_tied_last_timestamps_are_broken_by_file_order_and_counted() -> None:
    done = split_rows([(0, 3, 100), (0, 9, 200), (0, 1, 200), (1, 1, 5), (1, 2, 4)])
    assert as_sets(done)[1] == {0: 1, 1: 1}
    assert done.tied_last_time_share == 0.5
    assert split.TIE_RULE == "file order, stable"


def test_the_latest_repeat_is_kept_so_a_repeated_item_can_be_held_out() -> None:
    done = split_rows([(1, 10, 100), (1, 10, 300), (1, 11, 200)])
    assert as_sets(done) == ({1: [11]}, {1: 10})
    assert done.dropped_repeats == 1


def test_of_repeats_with_one_timestamp_the_last_in_the_file_is_kept() -> None:
    done = split_rows([(0, 5, 100), (0, 6, 100), (0, 5, 100)])
    assert as_sets(done)[1] == {0: 5}


def test_the_minimum_count_comes_after_repeats_are_removed() -> None:
    rows = [(0, 1, 1), (0, 1, 2), (0, 2, 3), (1, 1, 1), (1, 2, 2), (1, 3, 3)]
    done = split_rows(rows, 3)
    assert as_sets(done)[1] == {1: 3}
    assert done.short_users.tolist() == [0]
    assert done.dropped_repeats == 1
    assert done.dropped_short_rows == 2


def test_exactly_the_minimum_is_enough() -> None:
    rows = [(0, item, item) for item in range(20)] + [(1, item, item) for item in range(19)]
    assert split_rows(rows, 20).kept_users.tolist() == [0]


def test_users_with_one_interaction_cannot_be_tested_and_are_named() -> None:
    done = split_rows([(0, 1, 1), (1, 1, 1), (1, 2, 2)], 1)
    assert as_sets(done) == ({1: [1]}, {1: 2})
    assert done.single_users.tolist() == [0]


def test_sizes_come_from_training_and_test_together() -> None:
    done = split_rows([(0, 0, 1), (0, 7, 2), (1, 0, 1), (1, 3, 2)])
    assert done.kept_items.tolist() == [0, 3, 7]
    assert done.n_items == 3
    assert done.test_items.tolist() == [2, 1]


def test_without_timestamps_file_order_decides_and_ties_are_unknown() -> None:
    done = split_rows([(0, 5, 9), (0, 2, 1), (1, 4, 9), (1, 3, 1)], timed=False)
    assert as_sets(done)[1] == {0: 2, 1: 3}
    assert done.tied_last_time_share is None


def test_negative_fractional_and_huge_times_are_compared_as_numbers() -> None:
    for times in ([-5, -7, -6], [0.5, 0.25, 0.3], [2**62, 2**62 - 1, 0]):
        done = leave_one_out(np.zeros(3, int), np.arange(3), np.array(times), 1, 3, 2)
        assert done.test_items.tolist() == [0]


def test_when_nobody_is_left_the_largest_count_is_told() -> None:
    with pytest.raises(NothingLeftError, match="the most is 3") as caught:
        split_rows([(0, 1, 1), (0, 2, 2), (0, 3, 3), (1, 1, 1)], 20)
    assert caught.value.largest == 3


def test_a_senseless_minimum_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        split_rows([(0, 1, 1)], 0)
