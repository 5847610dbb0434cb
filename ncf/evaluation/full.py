"""Leave-one-out evaluation against the whole catalogue: the protocol `full`.

The rank of a held-out item is the number of items with a score at least as high that are not in
the user's training rows; ties lose. Users are ranked in blocks, so memory does not grow with their
number. Why sampled candidates are no substitute: Krichene and Rendle, KDD 2020 (docs/serving.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import metrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncf.data.dataset import Data
    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Alone

PROTOCOL = "full"
_CHUNK_USERS = 4096


class FullEvaluator:
    """Ranks this rank's share of the test users; same interface as `evaluate.Evaluator`.

    Args:
        parameters: the variables to score with, as they are at each `run`.
        compute_dtype: type of the matmuls.
        data: training rows to mask, test users and their held-out items.
        ranks: shares the users out and adds the results up.
        formulation: "reference" or "fast".
        streams: blocks of items scored side by side.
    """

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        data: Data,
        ranks: Ranks | Alone,
        *,
        formulation: str,
        streams: int,
    ) -> None:
        from ncf.sampling.batching import user_slice

        mine = user_slice(data.n_test, ranks.rank, ranks.size)
        self._users = np.asarray(data.test_users[mine])
        self._held_out = np.asarray(data.test_items[mine])
        self._offsets, self._items = np.asarray(data.train_offsets), data.train_items
        self._parameters, self._dtype, self._ranks = parameters, compute_dtype, ranks
        self._formulation, self._streams = formulation, streams
        self._catalogue: Any = None
        self._tables: Any = None

    def run(self, k: int) -> metrics.Totals:
        """HR@k and NDCG@k sums over the users of all ranks.

        Raises:
            metrics.NonFiniteScores: on every rank, when any rank met a weight or score that is no
                number.
        """
        from ncf.evaluation.catalogue import seen_pairs, users_per_block
        from ncf.model.neumf import not_finite

        catalogue = self._current()
        step = users_per_block(catalogue.items)
        totals, broken = metrics.Totals(), float(bool(not_finite(self._parameters)))
        for start in range(0, len(self._users), step):
            part = slice(start, start + step)
            users, held_out = self._users[part], self._held_out[part]
            masked = seen_pairs(self._offsets, self._items, users)
            try:
                places = catalogue.beaten_by(users, masked, held_out)
            except metrics.NonFiniteScores:
                broken = 1.0
                break
            totals = totals.merge(metrics.Totals.of(places, k))
        # A rank that met a NaN must still join the reduction, or the others would wait for ever.
        hits, gains, users_, bad = self._ranks.sum(
            [totals.hits, totals.gains, totals.users, broken]
        )
        if bad:
            what = "weights or scores that are not finite"
            raise metrics.NonFiniteScores(f"{int(bad)} ranks met {what}")
        return metrics.Totals(float(hits), float(gains), float(users_))

    def _current(self) -> Any:
        """The catalogue with the weights as they are now; compiled once."""
        from ncf.evaluation import folded
        from ncf.evaluation.catalogue import Catalogue

        if self._formulation == "fast":
            tables = folded.fold(self._parameters, self._dtype)
            if self._tables is not None:
                folded.renew(self._tables, tables)
            else:
                self._tables = folded.kept(tables)
        if self._catalogue is None:
            self._catalogue = Catalogue(
                self._parameters,
                self._dtype,
                self._formulation,
                streams=self._streams,
                tables=self._tables,
            )
        return self._catalogue


def left(data: Data) -> NDArray[np.int64]:
    """[n_test] items that compete with each test user's held-out one."""
    trained = np.diff(data.train_offsets)[data.test_users]
    return np.asarray(data.n_items - trained - 1, np.int64)


def popularity_places(data: Data) -> NDArray[np.int64]:
    """[n_test] rank of each held-out item by training popularity; ties lose."""
    from ncf.evaluation.catalogue import seen_pairs

    counts = metrics.popularity(np.asarray(data.train_items), data.n_items)
    own = counts[data.test_items]
    places = data.n_items - np.searchsorted(np.sort(counts), own, side="left") - 1
    offsets = np.asarray(data.train_offsets)
    for start in range(0, data.n_test, _CHUNK_USERS):
        part = slice(start, start + _CHUNK_USERS)
        rows, items = seen_pairs(offsets, data.train_items, data.test_users[part]).T
        masked = counts[items] >= own[part][rows]
        places[part] -= np.bincount(rows[masked], minlength=len(own[part]))
    return np.asarray(places, np.int64)
