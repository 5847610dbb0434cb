"""Leave one out: each user's latest interaction is held out for the test, the rest is training.

The order of the steps is part of the result: repeats of a (user, item) pair are removed first
(the latest is kept), then users below the minimum go, then the last interaction by (time, place
in the file) is held out. Ties in time are real (415 of ml-100k's 943 users end in one), so the
tie rule is fixed: file order. Only the order of a user's own rows can matter.

Rows are grouped by user (files that are sorted by user already are not sorted again), then pieces
of whole users are sorted by (item, place), each small enough for the cache and independent of the
others. The latest of each user is found by segment maxima, so nothing is ever sorted by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf.data.candidates import History
from ncf.runtime.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Ints = npt.NDArray[np.int64]

RULE: Final = "leave-one-out, latest"
TIE_RULE: Final = "file order, stable"
REPEAT_RULE: Final = "latest kept, removed before the minimum count"

_CHUNK_ROWS: Final = 1 << 18  # sorted at a time; a few such arrays stay in the CPU's cache


class NothingLeftError(ValueError):
    """No user has enough interactions; `largest` is the most that any user has."""

    def __init__(self, min_interactions: int, largest: int) -> None:
        super().__init__(f"no user has {min_interactions} interactions; the most is {largest}")
        self.largest = largest


@dataclass(frozen=True)
class Split:
    """Training rows by (user, item) and one held-out item per user, in new dense numbers.

    `kept_users` and `kept_items` [n_users], [n_items] give, ascending, the number that each had
    before. Sizes come from training and test together. `test_users` ascend; only a split that
    came with the data (`given_split`) may leave users without a test row, says what was dropped in
    `given`, and may bring `candidates` [n_test, n].
    """

    train_offsets: Ints
    train_items: npt.NDArray[np.int32]
    test_users: npt.NDArray[np.int32]
    test_items: npt.NDArray[np.int32]
    kept_users: Ints
    kept_items: Ints
    min_interactions: int
    rows: int
    dropped_repeats: int
    short_users: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    dropped_short_rows: int = 0
    single_users: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    tied_last_time_share: float | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    candidates: npt.NDArray[np.int32] | None = None

    @property
    def n_users(self) -> int:
        """Users kept; each has training rows and a test row."""
        return len(self.kept_users)

    @property
    def n_items(self) -> int:
        """Items of the kept users' rows, training and test."""
        return len(self.kept_items)

    @property
    def history(self) -> History:
        """The items that candidates must avoid."""
        return History(
            self.train_offsets, self.train_items, self.test_users, self.test_items, self.n_items
        )


def leave_one_out(
    users: npt.NDArray[np.integer[Any]],
    items: npt.NDArray[np.integer[Any]],
    times: npt.NDArray[Any] | None,
    n_users: int,
    n_items: int,
    min_interactions: int,
    *,
    threads: int = 1,
    chunk_rows: int = _CHUNK_ROWS,
) -> Split:
    """Split interactions.

    Args:
        users: [n] dense user numbers in [0, n_users), in file order.
        items: [n] dense item numbers in [0, n_items).
        times: [n] finite numbers, or None where file order is all there is.
        n_users: number of users.
        n_items: number of items.
        min_interactions: users with fewer distinct items are dropped. A user with a single one
            cannot have both a training and a test row and is dropped whatever the minimum.
        threads: how many pieces are worked on at a time; changes the time, never the result.
        chunk_rows: size of a piece; changes time and memory, never the result.

    Raises:
        NothingLeftError: no user is left.
    """
    if min_interactions < 1:
        raise ValueError(f"min_interactions is {min_interactions}, not at least 1")
    order, bounds = _by_user(users, n_users)

    def piece(span: tuple[int, int]) -> _Piece:
        first, last = span
        place = slice(int(bounds[first]), int(bounds[last]))
        rows = place if order is None else order[place]
        return _split_piece(
            np.diff(bounds[first : last + 1]),
            items[rows],
            None if times is None else times[rows],
            n_items,
            max(2, min_interactions),
        )

    pieces = list(in_order(piece, _spans(bounds, chunk_rows), threads))
    lengths = np.concatenate([part.lengths for part in pieces])
    stay = lengths >= max(2, min_interactions)
    if not stay.any():
        raise NothingLeftError(min_interactions, int(lengths.max(initial=0)))
    single = (lengths == 1) & (min_interactions == 1)
    short = (lengths > 0) & ~stay & ~single
    train = np.concatenate([part.train_items for part in pieces])
    test = np.concatenate([part.test_items for part in pieces])
    tied = np.concatenate([part.tied for part in pieces])
    del pieces
    kept_items = _present(n_items, train, test)
    if len(kept_items) < n_items:
        renumber = np.zeros(n_items, np.int32)
        renumber[kept_items] = np.arange(len(kept_items), dtype=np.int32)
        train, test = renumber[train], renumber[test]
    offsets = np.zeros(len(test) + 1, np.int64)
    np.cumsum(lengths[stay] - 1, out=offsets[1:])
    return Split(
        train_offsets=offsets,
        train_items=train,
        test_users=np.arange(len(test), dtype=np.int32),
        test_items=test,
        kept_users=np.flatnonzero(stay),
        kept_items=kept_items,
        min_interactions=min_interactions,
        rows=len(users),
        dropped_repeats=len(users) - int(lengths.sum()),
        short_users=np.flatnonzero(short),
        dropped_short_rows=int(lengths[short].sum()),
        single_users=np.flatnonzero(single),
        tied_last_time_share=None if times is None else float(np.mean(tied > 1)),
    )


def _by_user(
    users: npt.NDArray[np.integer[Any]], n_users: int
) -> tuple[npt.NDArray[Any] | None, Ints]:
    """Places of the rows user by user, in file order within each, and where each user's begin.

    None instead of the places where the file has this order already. Otherwise user and place
    share a 64-bit word: sorting plain words is several times faster than an indirect sort.
    """
    edges = np.arange(n_users + 1, dtype=users.dtype)
    if bool((users[1:] >= users[:-1]).all()):
        return None, np.searchsorted(users, edges).astype(np.int64)
    bits = len(users).bit_length()
    if int(n_users).bit_length() + bits > 63:
        order = np.argsort(users, kind="stable")
        return order, np.searchsorted(users[order], edges).astype(np.int64)
    words = users.astype(np.int64)
    words <<= bits
    words |= np.arange(len(users), dtype=np.int64)
    words.sort()
    bounds = np.searchsorted(words, edges.astype(np.int64) << bits).astype(np.int64)
    words &= (1 << bits) - 1
    return words, bounds


def _spans(bounds: Ints, chunk_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges [first, last) of users with about `chunk_rows` rows, at least one user each."""
    first, n_users = 0, len(bounds) - 1
    while first < n_users:
        last = int(np.searchsorted(bounds, bounds[first] + chunk_rows, side="right")) - 1
        last = min(max(last, first + 1), n_users)
        yield first, last
        first = last


@dataclass(frozen=True)
class _Piece:
    """Of a range of users: distinct items of each, and the rows of those who stay."""

    lengths: Ints
    train_items: npt.NDArray[np.int32]
    test_items: npt.NDArray[np.int32]
    tied: Ints


def _split_piece(
    lengths: Ints,
    items: npt.NDArray[np.integer[Any]],
    times: npt.NDArray[Any] | None,
    n_items: int,
    least: int,
) -> _Piece:
    """Split the rows of some users, ordered by user and by file within each user."""
    n_users = len(lengths)
    users = np.repeat(np.arange(n_users, dtype=np.int64), lengths)
    keys, places = _sorted_by_pair(users, items, n_users, n_items)
    keep = _latest_of_repeats(keys, places, times)
    if keep is not None:
        keys, places = keys[keep], places[keep]
    bounds = np.searchsorted(keys, np.arange(n_users + 1, dtype=np.int64) * n_items)
    lengths = np.diff(bounds)
    stay = lengths >= least
    base = np.arange(n_users, dtype=np.int64) * n_items
    distinct = (keys - np.repeat(base, lengths)).astype(np.int32)
    if not stay.all():
        mask = np.repeat(stay, lengths)
        distinct, places = distinct[mask], places[mask]
    if not len(distinct):
        return _Piece(lengths, distinct, distinct, np.zeros(0, np.int64))
    last, tied = _last_of_each(lengths[stay], places, times)
    return _Piece(lengths, np.delete(distinct, last), distinct[last], tied)


def _present(n_items: int, *parts: npt.NDArray[np.int32]) -> Ints:
    """The item numbers that occur, ascending."""
    there = np.zeros(n_items, np.bool_)
    for part in parts:
        there[part] = True
    return np.flatnonzero(there)


def _sorted_by_pair(
    users: npt.NDArray[np.integer[Any]],
    items: npt.NDArray[np.integer[Any]],
    n_users: int,
    n_items: int,
) -> tuple[Ints, Ints]:
    """Keys user * n_items + item in ascending order, and the place of each in the file.

    Key and place share one 64-bit word wherever they fit (2**63 pairs x rows). Files that are
    sorted by user and item, as MovieLens' are, need no sort at all.
    """
    place_bits = len(users).bit_length()
    keys = users.astype(np.int64)
    keys *= n_items
    keys += items
    if bool((keys[1:] >= keys[:-1]).all()):
        return keys, np.arange(len(users), dtype=np.int64)
    if (int(n_users) * int(n_items)).bit_length() + place_bits > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    keys <<= place_bits
    keys |= np.arange(len(users), dtype=np.int64)
    keys.sort()
    places = keys & ((1 << place_bits) - 1)
    keys >>= place_bits
    return keys, places


def _latest_of_repeats(
    keys: Ints, places: Ints, times: npt.NDArray[Any] | None
) -> npt.NDArray[np.bool_] | None:
    """False for all but the latest row of each repeated pair; None if nothing repeats."""
    same = keys[1:] == keys[:-1]
    if not same.any():
        return None
    repeated = np.zeros(len(keys), np.bool_)
    repeated[1:] = same
    repeated[:-1] |= same
    rows = np.flatnonzero(repeated)
    if times is not None:  # places ascend within a pair and lexsort is stable: ties keep file order
        rows = rows[np.lexsort((times[places[rows]], keys[rows]))]
    keep = ~repeated
    pair = keys[rows]
    is_last = np.append(pair[1:] != pair[:-1], True)
    keep[rows[is_last]] = True
    return keep


def _last_of_each(lengths: Ints, places: Ints, times: npt.NDArray[Any] | None) -> tuple[Ints, Ints]:
    """Index of each user's last row by (time, place), and how many rows share its time."""
    starts = np.cumsum(lengths) - lengths
    if times is None:
        rows, tied = np.arange(len(places)), lengths
    else:
        own_time = times[places]
        latest = np.maximum.reduceat(own_time, starts)
        rows = np.flatnonzero(own_time == np.repeat(latest, lengths))
        tied = np.bincount(np.searchsorted(starts, rows, side="right") - 1, minlength=len(starts))
    last_place = np.maximum.reduceat(places[rows], np.cumsum(tied) - tied)
    return rows[places[rows] == np.repeat(last_place, tied)], tied
