"""A split that came with the data: kept as it is, apart from rows that cannot be evaluated.

What is dropped is counted and named, because a test user without training rows has no embedding
to be scored with, and a held-out item among the training rows would be a leak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf.data.split import Split

if TYPE_CHECKING:
    from ncf.readers.rows import Codes, Parts

RULE: Final = "given with the data"
TIE_RULE: Final = "none needed: the split was given"
REPEAT_RULE: Final = "one kept"


class GivenSplitError(ValueError):
    """A split that cannot be evaluated; `test_row` is the row at fault, if it is one row."""

    def __init__(self, message: str, test_row: int | None = None) -> None:
        super().__init__(message)
        self.test_row = test_row


def split(parts: Parts) -> Split:
    """Bring a given split into the form of our own.

    Repeated training rows are kept once. Dropped are the training row that equals the held-out
    one of its user, and test rows of users who have no training rows.

    Raises:
        GivenSplitError: no training or test rows, or several test rows of one user.
    """
    n_users, n_items = len(parts.user_ids), len(parts.item_ids)
    if not len(parts.train_users) or not len(parts.test_users):
        kind = "test" if len(parts.train_users) else "training"
        raise GivenSplitError(f"the given split has no {kind} rows")
    order = np.argsort(parts.test_users, kind="stable")
    users = parts.test_users[order].astype(np.int64)
    again = np.flatnonzero(users[1:] == users[:-1])
    if again.size:
        row = int(order[1:][again].min())
        user = parts.user_ids.text_of(int(parts.test_users[row]))
        raise GivenSplitError(f"user {user} has several test rows; one can be held out", row)
    held_out = parts.test_items[order].astype(np.int64)
    keys = parts.train_users.astype(np.int64) * n_items + parts.train_items
    if not bool((keys[1:] > keys[:-1]).all()):
        keys.sort()
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    repeats = len(parts.train_users) - len(keys)
    keys, leaks = _without(keys, users * n_items + held_out)
    owners, items = np.divmod(keys, n_items)
    trained = np.zeros(n_users, np.bool_)
    trained[owners] = True
    usable = trained[users]
    lost = users[~usable]
    order, users, held_out = order[usable], users[usable], held_out[usable]
    if not len(users):
        raise GivenSplitError("no test user has training rows")
    negatives = None if parts.negatives is None else parts.negatives[order]
    present = np.zeros(n_items, np.bool_)
    present[items] = present[held_out] = True
    if negatives is not None:
        present[negatives] = True
    new_user, kept_users = _renumbering(trained)
    new_item, kept_items = _renumbering(present)
    offsets = np.zeros(len(kept_users) + 1, np.int64)
    np.cumsum(np.bincount(new_user[owners], minlength=len(kept_users)), out=offsets[1:])
    return Split(
        train_offsets=offsets,
        train_items=new_item[items],
        test_users=new_user[users],
        test_items=new_item[held_out],
        kept_users=kept_users,
        kept_items=kept_items,
        min_interactions=1,
        rows=len(parts.train_users) + len(parts.test_users),
        dropped_repeats=repeats,
        short_users=np.zeros(0, np.int64),
        dropped_short_rows=0,
        single_users=np.zeros(0, np.int64),
        tied_last_time_share=None,
        given={
            "test_users_without_training": len(lost),
            "test_users_without_training_named": parts.user_ids.examples(lost),
            "users_without_test": len(kept_users) - len(users),
            "training_rows_equal_to_test": leaks,
            "candidates_in_training": 0
            if negatives is None
            else _hits(keys, users, negatives, n_items),
        },
        candidates=None if negatives is None else new_item[negatives],
    )


def _without(keys: npt.NDArray[np.int64], remove: npt.NDArray[np.int64]) -> Any:
    """Ascending keys without those to remove, and how many were removed."""
    place = np.minimum(np.searchsorted(keys, remove), len(keys) - 1)
    places = place[keys[place] == remove]
    return np.delete(keys, places), len(places)


def _renumbering(
    keep: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """New number of every old one that is kept, and the kept ones."""
    return (np.cumsum(keep) - 1).astype(np.int32), np.flatnonzero(keep)


def _hits(
    keys: npt.NDArray[np.int64], users: npt.NDArray[np.int64], negatives: Codes, n_items: int
) -> int:
    """How many given negatives are training items of their user: they are kept and reported."""
    negative_keys = (users[:, None] * n_items + negatives).ravel()
    place = np.minimum(np.searchsorted(keys, negative_keys), len(keys) - 1)
    return int(np.count_nonzero(keys[place] == negative_keys))
