"""Leave one out: each user's latest interaction is held out for the test, the rest is training.

The order of the steps is part of the result: repeats of a (user, item) pair are removed first
(the latest is kept), then users below the minimum go, then the last interaction by (time, place
in the file) is held out. Ties in time are real (415 of ml-100k's 943 users end in one), so the
tie rule is fixed: file order. Only the order of a user's own rows can matter.

Everything is done in one sort by (user, item, place); the latest of each user is then found by
segment maxima, so nothing is ever sorted by time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

RULE: Final = "leave-one-out, latest"
TIE_RULE: Final = "file order, stable"
REPEAT_RULE: Final = "latest kept, removed before the minimum count"


class NothingLeftError(ValueError):
    """No user has enough interactions; `largest` is the most that any user has."""

    def __init__(self, min_interactions: int, largest: int) -> None:
        super().__init__(f"no user has {min_interactions} interactions; the most is {largest}")
        self.largest = largest


@dataclass(frozen=True)
class Split:
    """Training rows by (user, item) and one held-out item per user, in new dense numbers.

    `kept_users` and `kept_items` [n_users], [n_items] give, ascending, the number that each had
    before. Sizes come from training and test together.
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
    short_users: Ints
    dropped_short_rows: int
    single_users: Ints
    tied_last_time_share: float | None

    @property
    def n_users(self) -> int:
        """Users kept; each has training rows and a test row."""
        return len(self.kept_users)

    @property
    def n_items(self) -> int:
        """Items of the kept users' rows, training and test."""
        return len(self.kept_items)


def leave_one_out(
    users: npt.NDArray[np.integer[Any]],
    items: npt.NDArray[np.integer[Any]],
    times: npt.NDArray[Any] | None,
    n_users: int,
    n_items: int,
    min_interactions: int,
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

    Raises:
        NothingLeftError: no user is left.
    """
    if min_interactions < 1:
        raise ValueError(f"min_interactions is {min_interactions}, not at least 1")
    keys, places = _sorted_by_pair(users, items, n_users, n_items)
    keep = _latest_of_repeats(keys, places, times)
    if keep is not None:
        keys, places = keys[keep], places[keep]
    bounds = np.searchsorted(keys, np.arange(n_users + 1, dtype=np.int64) * n_items)
    lengths = np.diff(bounds)  # interactions of each user
    rows_before = len(keys)
    short = (lengths < min_interactions) & (lengths > 0)
    single = (lengths == 1) & ~short
    stay = (lengths >= min_interactions) & ~single
    if not stay.any():
        raise NothingLeftError(min_interactions, int(lengths.max(initial=0)))
    own_item = keys - np.repeat(np.arange(n_users, dtype=np.int64) * n_items, lengths)
    if not stay.all():
        mask = np.repeat(stay, lengths)
        own_item, places = own_item[mask], places[mask]
    del keys
    lengths = lengths[stay]
    last, tied = _last_of_each(lengths, places, times)
    del places
    kept_items = np.flatnonzero(np.bincount(own_item, minlength=n_items))
    renumber = np.zeros(n_items, np.int32)
    renumber[kept_items] = np.arange(len(kept_items), dtype=np.int32)
    new_item = renumber[own_item]
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths - 1, out=offsets[1:])
    return Split(
        train_offsets=offsets,
        train_items=np.delete(new_item, last),
        test_users=np.arange(len(lengths), dtype=np.int32),
        test_items=new_item[last],
        kept_users=np.flatnonzero(stay),
        kept_items=kept_items,
        min_interactions=min_interactions,
        rows=len(users),
        dropped_repeats=len(users) - rows_before,
        short_users=np.flatnonzero(short),
        dropped_short_rows=rows_before - len(own_item) - int(np.count_nonzero(single)),
        single_users=np.flatnonzero(single),
        tied_last_time_share=None if times is None else float(np.mean(tied > 1)),
    )


def _sorted_by_pair(
    users: npt.NDArray[np.integer[Any]],
    items: npt.NDArray[np.integer[Any]],
    n_users: int,
    n_items: int,
) -> tuple[Ints, Ints]:
    """Keys user * n_items + item in ascending order, and the place of each in the file.

    Key and place share one 64-bit word wherever they fit (up to 2**63 pairs x rows; ml-32m needs
    59 bits): sorting plain words is several times faster than an indirect sort.
    """
    place_bits = len(users).bit_length()
    keys = users.astype(np.int64)
    keys *= n_items
    keys += items
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
