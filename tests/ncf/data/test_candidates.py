from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ncf.data import candidates

NVIDIA_GOLDEN = [[4, 4, 8, 9, 8, 9], [6, 9, 8, 3, 4, 7]]
UNIQUE_GOLDEN = [[4, 9, 7, 8, 6, 1], [6, 7, 8, 4, 5, 9]]
MLPERF_GOLDEN = [[1, 8, 1, 6, 8, 1], [8, 6, 9, 9, 5, 5]]


class History:
    """Small split data: each user's training items, and one held-out item of each."""

    def __init__(self, seen: list[list[int]], held_out: list[int], n_items: int) -> None:
        self.seen, self.n_items = [sorted(row) for row in seen], n_items
        self.test_users = np.arange(len(seen), dtype=np.int32)
        self.held_out = np.array(held_out, np.int32)
        self.history = candidates.History(
            np.cumsum([0, *map(len, seen)]).astype(np.int64),
            np.array(list(itertools.chain(*self.seen)), np.int32),
            self.test_users,
            self.held_out,
            n_items,
        )

    def draw(self, protocol: str, n: int, seed: int = 1, chunk: int = 1 << 17, **options: int):
        drawing = candidates.Drawing(protocol, n, seed, **options)
        return candidates.draw(self.history, drawing, chunk_slots=chunk)


@st.composite
def histories(draw: st.DrawFn) -> History:
    n_items = draw(st.integers(3, 40))
    seen, held_out = [], []
    for _ in range(draw(st.integers(1, 12))):
        known = draw(st.permutations(range(n_items)))[: draw(st.integers(2, n_items - 1))]
        seen.append(list(known[1:]))
        held_out.append(known[0])
    return History(seen, held_out, n_items)


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from(["nvidia", "mlperf"]), st.integers(1, 60), st.integers(0, 9))
def test_candidates_are_never_training_items(
    history: History, protocol: str, n: int, seed: int
) -> None:
    table = history.draw(protocol, n, seed)
    assert table.shape == (len(history.seen), n)
    assert table.dtype == np.int32
    for row, seen in zip(table, history.seen, strict=True):
        assert not set(row.tolist()) & set(seen)
        assert row.min() >= 0
        assert row.max() < history.n_items


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 9), st.data())
def test_unique_candidates_are_distinct_and_spare_the_held_out_item(
    history: History, seed: int, data: st.DataObject
) -> None:
    room = candidates.admissible(history.history)
    n = data.draw(st.integers(1, int(room.min()))) if room.min() > 0 else 0
    if n == 0:
        with pytest.raises(candidates.ShortOfItemsError, match="test users have"):
            history.draw("unique", 1, seed)
        return
    table = history.draw("unique", n, seed)
    for row, seen, held_out in zip(table, history.seen, history.held_out, strict=True):
        assert not set(row.tolist()) & {*seen, int(held_out)}
        assert len(set(row.tolist())) == n
    assert candidates.duplicate_mask(table, history.held_out).all()


@settings(max_examples=40, deadline=None)
@given(histories(), st.sampled_from(list(candidates.PROTOCOLS)), st.integers(1, 100))
def test_candidates_do_not_depend_on_the_chunk_size(
    history: History, protocol: str, chunk: int
) -> None:
    n = 1 if protocol == "unique" else 7
    room = candidates.admissible(history.history)
    if room.min() < 1:
        return
    whole = history.draw(protocol, n)
    np.testing.assert_array_equal(history.draw(protocol, n, chunk=chunk), whole)


@settings(max_examples=30, deadline=None)
@given(histories(), st.sampled_from(list(candidates.PROTOCOLS)), st.integers(1, 4))
def test_candidates_do_not_depend_on_the_number_of_threads(
    history: History, protocol: str, threads: int
) -> None:
    alone = history.draw(protocol, 30, pad=True)
    shared = history.draw(protocol, 30, pad=True, threads=threads, chunk=40)
    np.testing.assert_array_equal(shared, alone)
    mask = candidates.duplicate_mask(alone, history.held_out, threads=threads)
    np.testing.assert_array_equal(mask, candidates.duplicate_mask(alone, history.held_out))


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from(list(candidates.PROTOCOLS)), st.integers(1, 60))
def test_padded_slots_hold_the_held_out_item_and_never_count(
    history: History, protocol: str, n: int
) -> None:
    table = history.draw(protocol, n, pad=True)
    counted = candidates.duplicate_mask(table, history.held_out)
    room = candidates.admissible(history.history)
    for row, mask, seen, held_out, free in zip(
        table, counted, history.seen, history.held_out, room, strict=True
    ):
        real = row[mask].tolist()
        assert len(set(real)) == len(real) <= free
        assert not set(real) & {*seen, int(held_out)}
        if protocol == "unique":
            assert len(real) == min(n, free)
            assert set(row[~mask].tolist()) <= {int(held_out)}


def test_padding_changes_nothing_for_users_with_enough_room() -> None:
    history = History([[0, 1], [5], [0, 1, 2, 3, 4]], [2, 0, 5], 9)
    padded = history.draw("unique", 6, pad=True)
    roomy = History([[0, 1], [5]], [2, 0], 9)
    np.testing.assert_array_equal(padded[:2], roomy.draw("unique", 6))
    assert sorted(padded[2].tolist()) == [5, 5, 5, 6, 7, 8]


def test_candidates_depend_on_seed_and_protocol_only() -> None:
    history = History([[0, 1]] * 20, [2] * 20, 1000)
    first = history.draw("nvidia", 50, seed=3)
    np.testing.assert_array_equal(history.draw("nvidia", 50, seed=3), first)
    assert (history.draw("nvidia", 50, seed=4) != first).mean() > 0.9
    assert (history.draw("mlperf", 50, seed=3) != first).mean() > 0.9


def test_candidates_are_the_ones_drawn_by_the_first_version() -> None:
    """Stored data sets and published results rest on these; a change needs a new protocol name."""
    history = History([[0, 2, 5], [1]], [3, 0], 10)
    assert history.draw("nvidia", 6).tolist() == NVIDIA_GOLDEN
    assert history.draw("unique", 6).tolist() == UNIQUE_GOLDEN
    assert history.draw("mlperf", 6).tolist() == MLPERF_GOLDEN


def test_held_out_item_may_be_negative_in_training_not_in_candidates() -> None:
    history = History([[0]], [1], 3)
    drawn = history.draw("nvidia", 10_000)[0]
    assert 0.48 < (drawn == 1).mean() < 0.52
    assert set(drawn.tolist()) == {1, 2}
    for seed in range(50):
        assert history.draw("unique", 1, seed).tolist() == [[2]]


@pytest.mark.parametrize("protocol", ["nvidia", "mlperf"])
def test_draws_are_uniform_over_unseen_items(protocol: str) -> None:
    history = History([[0, 3, 4, 9], [7]], [1, 2], 12)
    table = history.draw(protocol, 40_000)
    for row, seen in zip(table, history.seen, strict=True):
        counts = np.delete(np.bincount(row, minlength=12), seen)
        assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("n_items", [8, 14])  # little room: one permutation; ample room: redraws
def test_unique_selections_are_uniform_in_every_slot_and_pair(n_items: int) -> None:
    users = 30_000
    history = History([[1, 4]] * users, [0] * users, n_items)
    table = history.draw("unique", 4)
    allowed = [i for i in range(n_items) if i not in (0, 1, 4)]
    for slot in range(4):
        counts = np.bincount(table[:, slot], minlength=n_items)[allowed]
        assert stats.chisquare(counts).pvalue > 1e-3
    pairs = np.bincount(table[:, 0] * n_items + table[:, 3], minlength=n_items**2)
    pairs = pairs[[a * n_items + b for a in allowed for b in allowed if a != b]]
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_a_user_with_exactly_enough_room_gets_all_of_it() -> None:
    history = History([[0, 1], [5]], [2, 0], 6)
    table = history.draw("unique", 3)
    assert sorted(table[0].tolist()) == [3, 4, 5]


def test_users_without_admissible_negatives_are_found_before_sampling() -> None:
    # 4 items: user 0 has all of them, user 1 only two.
    history = History([[0, 1, 2], [0]], [3, 1], 4)
    room = candidates.admissible(history.history)
    assert room.tolist() == [0, 2]
    for protocol in candidates.PROTOCOLS:
        with pytest.raises(ValueError, match="1 of 2 test users"):
            history.draw(protocol, 2)


def test_the_nth_unseen_item_is_the_nth_of_the_sorted_complement() -> None:
    n_items = 6
    for size in range(n_items):
        for seen in itertools.combinations(range(n_items), size):
            rest = [i for i in range(n_items) if i not in seen]
            offsets = np.array([0, size, size + 1], np.int64)
            items = np.array([*seen, 2], np.int32)
            r = np.array([[j, min(j, 4)] for j in range(len(rest))], np.int64).T
            two_rows = candidates.nth_unseen(r, offsets, items, n_items)
            assert two_rows[0].tolist() == rest
            assert two_rows[1].tolist() == [[0, 1, 3, 4, 5][min(j, 4)] for j in range(len(rest))]


def test_users_need_not_be_neighbours_in_the_training_rows() -> None:
    offsets = np.array([0, 3, 4, 6], np.int64)
    items = np.array([0, 1, 2, 9, 3, 4], np.int32)
    history = candidates.History(offsets, items, np.array([0, 2]), np.array([5, 6]), 10)
    table = candidates.draw(history, candidates.Drawing("nvidia", 500, 1))
    assert set(table[0].tolist()) == {3, 4, 5, 6, 7, 8, 9}
    assert set(table[1].tolist()) == {0, 1, 2, 5, 6, 7, 8, 9}


def test_the_mask_drops_later_repeats_and_copies_of_the_held_out_item() -> None:
    table = np.array([[5, 3, 5, 7, 3, 5], [1, 1, 1, 1, 1, 2]])
    mask = candidates.duplicate_mask(table, np.array([7, 0]))
    assert mask.tolist() == [
        [True, True, False, False, False, False],
        [True, False, False, False, False, True],
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=4, max_size=4), max_size=5))
def test_the_mask_holds_for_any_item_numbers(rows: list[list[int]]) -> None:
    table = np.array(rows, np.int32).reshape(len(rows), 4)
    mask = candidates.duplicate_mask(table, np.zeros(len(rows), np.int32))
    for row, counted in zip(rows, mask.tolist(), strict=True):
        expected = [item != 0 and item not in row[:place] for place, item in enumerate(row)]
        assert counted == expected


def test_unknown_protocols_and_senseless_numbers_are_refused() -> None:
    history = History([[0]], [1], 9)
    for protocol, n, seed in (("nvida", 1, 1), ("nvidia", 0, 1), ("nvidia", 1, -1)):
        with pytest.raises(ValueError, match=r"is none of|at least"):
            history.draw(protocol, n, seed)
