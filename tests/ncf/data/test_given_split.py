"""Splits that came with the data are kept; what no evaluation could use is dropped and told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from ncf.data import given_split as given
from ncf.readers import rows
from ncf.readers.ids import Ids

Pair = tuple[int, int]


def parts(train: list[Pair], test: list[Pair], negatives: list[list[int]] | None = None):
    def column(rows: list[Pair], place: int) -> np.ndarray:
        return np.array([row[place] for row in rows], np.int32)

    drawn = None if negatives is None else np.array(negatives, np.int32)
    users = 1 + max([user for user, _ in [*train, *test]], default=0)
    every = [item for _, item in [*train, *test]] + [i for row in negatives or [] for i in row]
    columns = [column(rows, place) for rows in (train, test) for place in (0, 1)]
    return rows.Parts(*columns, drawn, Ids.numbered(users), Ids.numbered(1 + max(every, default=0)))


def test_the_rows_are_kept_as_given() -> None:
    done = given.split(parts([(0, 5), (0, 2), (1, 2)], [(1, 5), (0, 7)], [[2, 7], [5, 2]]))
    assert done.train_offsets.tolist() == [0, 2, 3]
    assert done.kept_items[done.train_items].tolist() == [2, 5, 2]
    assert done.test_users.tolist() == [0, 1]
    assert done.kept_items[done.test_items].tolist() == [7, 5]
    assert done.candidates is not None
    assert done.kept_items[done.candidates].tolist() == [[5, 2], [2, 7]]
    assert done.given["candidates_in_training"] == 3


def test_users_without_training_rows_are_counted_named_and_dropped() -> None:
    rows = [(user, 10) for user in range(1, 9)]
    done = given.split(parts([(0, 10)], [(0, 11), *rows], [[3]] * 9))
    assert done.given["test_users_without_training"] == 8
    assert done.given["test_users_without_training_named"] == ["2", "3", "4", "5", "6"]
    assert (done.n_users, len(done.test_users)) == (1, 1)
    assert done.candidates is not None
    assert done.candidates.shape == (1, 1)


def test_the_trap_of_disjoint_users_is_an_error_and_not_an_empty_data_set() -> None:
    with pytest.raises(given.GivenSplitError, match="no test user has training rows"):
        given.split(parts([(1, 10)], [(2, 10)]))


def test_users_without_a_test_row_stay_in_training_and_are_counted() -> None:
    done = given.split(parts([(0, 1), (1, 2), (2, 1)], [(1, 1)]))
    assert done.n_users == 3
    assert done.test_users.tolist() == [1]
    assert done.given["users_without_test"] == 2


def test_training_row_equal_to_the_test_row_is_dropped() -> None:
    done = given.split(parts([(0, 1), (0, 2), (0, 2)], [(0, 2)]))
    assert done.given["training_rows_equal_to_test"] == 1
    assert done.dropped_repeats == 1
    assert done.kept_items[done.train_items].tolist() == [1]


def test_two_test_rows_of_one_user_are_an_error_that_names_the_row() -> None:
    with pytest.raises(given.GivenSplitError, match="user 2 has several test rows") as caught:
        given.split(parts([(0, 1), (1, 1)], [(1, 2), (0, 2), (1, 3)]))
    assert caught.value.test_row == 2


@pytest.mark.parametrize(("train", "test"), [([], [(0, 1)]), ([(0, 1)], [])])
def test_an_empty_half_is_an_error(train: list[Pair], test: list[Pair]) -> None:
    with pytest.raises(given.GivenSplitError, match=r"no (test|training) rows"):
        given.split(parts(train, test))


pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=40)


@settings(max_examples=200)
@examples(pairs, pairs)
def test_a_given_split_is_a_partition_and_its_sizes_add_up(
    train: list[Pair], test: list[Pair]
) -> None:
    held_out = dict(test)  # one row a user
    try:
        done = given.split(parts(train, list(held_out.items())))
    except given.GivenSplitError:
        assert not {user for user, item in train if held_out.get(user) != item} & set(held_out)
        return
    found = set()
    for new, old in enumerate(done.kept_users.tolist()):
        own = done.train_items[done.train_offsets[new] : done.train_offsets[new + 1]]
        assert (np.diff(own) > 0).all()
        found |= {(old, int(done.kept_items[item])) for item in own}
    tested = {
        (int(done.kept_users[u]), int(done.kept_items[i]))
        for u, i in zip(done.test_users, done.test_items, strict=True)
    }
    assert found == set(train) - set(held_out.items())
    assert tested == {(u, i) for u, i in held_out.items() if any(u == o for o, _ in found)}
    assert not found & tested
    dropped = done.dropped_repeats + done.given["training_rows_equal_to_test"]
    dropped += done.given["test_users_without_training"]
    assert done.rows == len(found) + len(tested) + dropped
