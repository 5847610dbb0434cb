"""Which user belongs to which rank, and what a rank sees of the data then.

Most of NeuMF's parameters belong to users (five sixths on ml-20m), and every sample has one user.
A rank that owns its users' rows, samples and test rows need not send them: only item tables and
MLP are added up over ranks. The update stays that of one synchronous global batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncf.data.dataset import Data
    from ncf.ranks.horovod import Ranks


def assign(interactions: NDArray[np.integer[Any]], ranks: int) -> NDArray[np.int32]:
    """The rank of every user, int32 [users]; equal numbers of users (within 1) and interactions.

    From the busiest user on, each run of `ranks` users goes to ranks in the order of their loads,
    the busiest to the rank with the least: Graham's longest-processing-time rule (SIAM J. Appl.
    Math. 17, 1969), one user a rank and round. Deterministic.
    """
    users = len(interactions)
    order = np.argsort(-np.asarray(interactions, np.int64), kind="stable")
    owner = np.empty(users, np.int32)
    loads = np.zeros(ranks, np.int64)
    for begin in range(0, users, ranks):
        block = order[begin : begin + ranks]
        takers = np.argsort(loads, kind="stable")[: len(block)]
        owner[block] = takers
        loads[takers] += interactions[block]
    return owner


def split(offsets: NDArray[np.int64], ranks: int) -> list[NDArray[np.int64]]:
    """The users of every rank, ascending.

    Raises:
        UserError: a rank would have nothing to train on.
    """
    interactions = np.diff(offsets)
    owner = assign(interactions, ranks)
    users_of_ranks = [np.flatnonzero(owner == rank) for rank in range(ranks)]
    if any(interactions[users].sum() == 0 for users in users_of_ranks):
        raise UserError(
            f"--parallel user-sharded: {len(interactions)} users are too few for {ranks} ranks; "
            "start fewer ranks, or give --parallel replicated"
        )
    return users_of_ranks


@dataclass(frozen=True)
class Alone:
    """Replaces the ranks where each evaluates all of its own users, so that nothing is sliced."""

    ranks: Ranks
    rank: int = 0
    size: int = 1

    def sum(self, values: Any) -> Any:
        """As `Ranks.sum`: over all ranks."""
        return self.ranks.sum(values)


class Shard:
    """One rank's users, and its data with users renumbered 0, 1, ... in their order.

    Args:
        data: of all users.
        rank: this one.
        ranks: how many.
    """

    def __init__(self, data: Data, rank: int, ranks: int) -> None:
        offsets = np.asarray(data.train_offsets)
        everyone = split(offsets, ranks)
        self.users = everyone[rank]
        self.positives = [int(np.diff(offsets)[users].sum()) for users in everyone]
        self._order = np.argsort(np.concatenate(everyone), kind="stable")
        self.test_rows = np.flatnonzero(np.isin(data.test_users, self.users))
        counts = np.diff(offsets)[self.users]
        own_offsets = np.concatenate([[0], np.cumsum(counts)])
        shift = np.repeat(offsets[self.users] - own_offsets[:-1], counts)
        places = np.arange(own_offsets[-1]) + shift
        self.data = replace(
            data,
            train_offsets=own_offsets,
            train_items=np.asarray(data.train_items)[places],
            test_users=self.renumbered(np.asarray(data.test_users)[self.test_rows]),
            test_items=np.asarray(data.test_items)[self.test_rows],
            candidates=np.asarray(data.candidates)[self.test_rows],
        )

    def renumbered(self, users: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """This rank's numbers of its own users."""
        return np.searchsorted(self.users, users).astype(np.int32)

    def in_order(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of all users, gathered rank after rank, in the data's order of users."""
        return rows[self._order]
