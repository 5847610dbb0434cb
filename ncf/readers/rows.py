"""Rows as numbers: what every reader returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ncf.readers.ids import Ids

Codes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Parts:
    """Numbered rows as they were given.

    `train_users`, `train_items` [n_train]; `test_users`, `test_items` [n_test]; `negatives`
    [n_test, n] items, or None. All are numbers of `user_ids` and `item_ids`.
    """

    train_users: Codes
    train_items: Codes
    test_users: Codes
    test_items: Codes
    negatives: Codes | None
    user_ids: Ids
    item_ids: Ids


@dataclass(frozen=True)
class Ratings:
    """Interactions in file order.

    `users` and `items` [n] number `user_ids` and `item_ids`; `times` [n] is int64 or float64, or
    None where the table has no such column.
    """

    users: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    times: npt.NDArray[Any] | None
    user_ids: Ids
    item_ids: Ids
