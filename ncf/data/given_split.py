"""A split that came with the data: kept as it is, apart from rows that cannot be evaluated.

What is dropped is counted and named, because a test user without training rows has no embedding
to be scored with, and a held-out item among the training rows would be a leak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ncf.data.split import Ints, Split

if TYPE_CHECKING:
    from ncf.readers.rows import Parts

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
    leaks = _places(keys, users * n_items + held_out)
    keys = np.delete(keys, leaks)
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
    in_training = 0
    if negatives is not None:  # they are kept as they came, and those seen in training are counted
        present[negatives] = True
        in_training = len(_places(keys, (users[:, None] * n_items + negatives).ravel()))
    kept_users, kept_items = np.flatnonzero(trained), np.flatnonzero(present)
    new_user, new_item = ((np.cumsum(kept) - 1).astype(np.int32) for kept in (trained, present))
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
        given={
            "test_users_without_training": len(lost),
            "test_users_without_training_named": parts.user_ids.examples(lost),
            "users_without_test": len(kept_users) - len(users),
            "training_rows_equal_to_test": len(leaks),
            "candidates_in_training": in_training,
        },
        candidates=None if negatives is None else new_item[negatives],
    )


def _places(keys: Ints, values: Ints) -> Ints:
    """Places in the ascending keys of those that are there."""
    place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.asarray(place[keys[place] == values], np.int64)
