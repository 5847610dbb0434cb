"""Leave-one-out evaluation: each test user's held-out item among candidates or the whole catalogue.

Scores are computed for some users at a time, so memory is bounded and no user is split; ranks and
metrics are pure NumPy (`ncf.metrics`), reduced over ranks as sums and divided once.

In the protocol `full` the rank of a held-out item is the number of items with a score at least as
high that are not in the user's training rows; ties lose. Why sampled candidates are no substitute:
Krichene and Rendle, KDD 2020 (docs/serving.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ncf import metrics
from ncf.evaluation import precomputed
from ncf.evaluation.catalogue import Catalogue, seen_pairs, users_per_block
from ncf.model.neumf import not_finite
from ncf.model.reference import gather_rows, logits
from ncf.sampling.batching import user_slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ncf.data.dataset import Data
    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Alone

FULL = "full"
"""The protocol that ranks the whole catalogue."""

PAIRS = 8192
"""Pairs scored at once by the fast form, so that their hidden layers stay in a core's cache."""

_CHUNK_USERS = 4096


class Evaluator(ABC):
    """Ranks the held-out items of this rank's share of the test users."""

    def __init__(self, parameters: Parameters, compute_dtype: Any, ranks: Ranks | Alone) -> None:
        self._parameters, self._dtype, self._ranks = parameters, compute_dtype, ranks

    @abstractmethod
    def _places(self) -> Iterator[NDArray[np.int64]]:
        """Rank of the held-out item, 0 being the best, for some users at a time."""

    def run(self, k: int) -> metrics.Totals:
        """HR@k and NDCG@k sums over the users of all ranks, with the weights as they are now.

        Raises:
            metrics.NonFiniteScores: on every rank, when any rank has a weight or score that is
                not finite.
        """
        totals, broken = metrics.Totals(), float(bool(not_finite(self._parameters)))
        try:
            for places in self._places():
                totals = totals.merge(metrics.Totals.of(places, k))
        except metrics.NonFiniteScores:
            broken = 1.0
        # A rank that met a NaN must still join the reduction, or the others would wait for ever.
        hits, gains, users, bad = self._ranks.sum([totals.hits, totals.gains, totals.users, broken])
        if bad:
            what = "weights or scores that are not finite"
            raise metrics.NonFiniteScores(f"{int(bad)} ranks met {what}")
        return metrics.Totals(float(hits), float(gains), float(users))


class SampledEvaluator(Evaluator):
    """Ranks the held-out items among sampled candidates.

    Args:
        parameters: the variables to score with.
        compute_dtype: type of the matmuls.
        test_users: int32 [n].
        candidates: int32 [n, m + 1], the held-out item in column 0.
        counted: bool [n, m], False for sampled slots that repeat an earlier item.
        chunk: most users scored at once.
        ranks: shares the users out and adds the results up.
        fast: project every item and every user once per evaluation (`ncf.evaluation.precomputed`)
            instead of scoring every pair from its embeddings.
        streams: chunks scored side by side.
    """

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        test_users: NDArray[np.int32],
        candidates: NDArray[np.int32],
        counted: NDArray[np.bool_],
        chunk: int,
        ranks: Ranks | Alone,
        *,
        fast: bool = False,
        streams: int = 1,
    ) -> None:
        super().__init__(parameters, compute_dtype, ranks)
        mine = user_slice(len(test_users), ranks.rank, ranks.size)
        self._users, self._candidates = test_users[mine], candidates[mine]
        self._counted = counted[mine]
        self._fast, self._streams = fast, streams
        width = candidates.shape[1]
        self._chunk = min(chunk, max(1, PAIRS // width)) if fast else chunk
        self._tables: Any = None

        def reference(users: Any, items: Any) -> Any:  # [c], [c, m + 1] -> float32 [c, m + 1]
            flat_users = tf.repeat(users, width)
            rows = gather_rows(parameters, flat_users, tf.reshape(items, [-1]))
            return tf.reshape(logits(rows, parameters, compute_dtype), [-1, width])

        shapes = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, width], tf.int32)]
        self._reference = tf.function(reference, input_signature=shapes)

        def fast_form(tables: precomputed.Tables, users: Any, items: Any) -> Any:
            own = (tf.gather(parameters.mlp_user, users), tf.gather(parameters.gmf_user, users))
            rows = precomputed.precompute_users(parameters, *own, compute_dtype)
            return precomputed.score_lists(tables, *rows, items)

        self._fast_form = tf.function(fast_form, reduce_retracing=True, autograph=False)

    def _places(self) -> Iterator[NDArray[np.int64]]:
        if self._fast:
            self._tables = precomputed.precompute(self._parameters, self._dtype, users=False)
        try:
            with ThreadPoolExecutor(self._streams) as pool:
                yield from pool.map(self._rank, range(0, len(self._users), self._chunk))
        finally:
            self._tables = None

    def _rank(self, begin: int) -> NDArray[np.int64]:
        part = slice(begin, begin + self._chunk)
        scores = self._scores(self._users[part], self._candidates[part])
        return metrics.ranks(scores[:, 0], scores[:, 1:], self._counted[part])

    def _scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
        if not self._fast:
            return self._reference(users, items).numpy()
        count = len(users)
        if count < min(self._chunk, len(self._users)):  # one shape, one compilation
            fill = ((0, self._chunk - count),)
            users, items = np.pad(users, fill), np.pad(items, (*fill, (0, 0)))
        return self._fast_form(self._tables, users, items).numpy()[:count]


class FullEvaluator(Evaluator):
    """Ranks the held-out items against the whole catalogue.

    Args:
        parameters: the variables to score with.
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
        super().__init__(parameters, compute_dtype, ranks)
        mine = user_slice(data.n_test, ranks.rank, ranks.size)
        self._users = np.asarray(data.test_users[mine])
        self._held_out = np.asarray(data.test_items[mine])
        self._offsets, self._items = np.asarray(data.train_offsets), data.train_items
        self._formulation, self._streams = formulation, streams
        self._catalogue: Catalogue | None = None
        self._tables: precomputed.Tables | None = None

    def _places(self) -> Iterator[NDArray[np.int64]]:
        catalogue = self._current_catalogue()
        size = users_per_block(catalogue.items)
        for start in range(0, len(self._users), size):
            users = self._users[start : start + size]
            masked = seen_pairs(self._offsets, self._items, users)
            yield catalogue.beaten_by(users, masked, self._held_out[start : start + size])

    def _current_catalogue(self) -> Catalogue:
        """The catalogue with the weights as they are now; compiled once."""
        if self._formulation == "fast":
            tables = precomputed.precompute(self._parameters, self._dtype)
            if self._tables is not None:
                precomputed.assign(self._tables, tables)
            else:
                self._tables = precomputed.as_variables(tables)
        if self._catalogue is None:
            self._catalogue = Catalogue(
                self._parameters,
                self._dtype,
                self._formulation,
                streams=self._streams,
                tables=self._tables,
            )
        return self._catalogue


def competitors(data: Data) -> NDArray[np.int64]:
    """[n_test] items that compete with each test user's held-out one."""
    trained = np.diff(data.train_offsets)[data.test_users]
    return np.asarray(data.n_items - trained - 1, np.int64)


def popularity_places(data: Data) -> NDArray[np.int64]:
    """[n_test] rank of each held-out item by training popularity; ties lose."""
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
