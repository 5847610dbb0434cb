"""One rank of a job whose other ranks are made up."""

from __future__ import annotations

import numpy as np

from ncf.ranks.horovod import Place, Ranks


class FakeRanks(Ranks):
    """Rank `rank` of a job whose other ranks contributed `others` to every sum."""

    def __init__(self, rank: int, size: int, others: list[float]) -> None:
        super().__init__(Place())
        self.rank, self.size, self._others = rank, size, others

    def sum(self, values):
        return np.asarray(values, np.float64) + self._others
