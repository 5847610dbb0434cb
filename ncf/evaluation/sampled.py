"""Leave-one-out evaluation: each test user's held-out item among its candidates.

Scores are computed in chunks of users, so memory is bounded and no user is split; ranks and
metrics are pure NumPy (`ncf.metrics`), reduced over ranks as sums and divided once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ncf import metrics
from ncf.evaluation import folded
from ncf.model.neumf import not_finite
from ncf.model.reference import gather_rows, logits
from ncf.sampling.batching import user_slice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Alone


PAIRS = 8192
"""Pairs scored at once by the fast form, so that their hidden layers stay in a core's cache."""


class Evaluator:
    """Scores this rank's test users.

    Args:
        parameters: the variables to score with.
        compute_dtype: type of the matmuls.
        test_users: int32 [n].
        candidates: int32 [n, m + 1], the held-out item in column 0.
        counted: bool [n, m], False for sampled slots that repeat an earlier item.
        chunk: most users scored at once.
        ranks: shares the users out and adds the results up.
        fast: project every item and every user once per evaluation (`ncf.folded`) instead of
            scoring every pair from its embeddings.
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
        mine = user_slice(len(test_users), ranks.rank, ranks.size)
        self._users, self._candidates = test_users[mine], candidates[mine]
        self._counted = counted[mine]
        self._ranks, self._parameters, self._dtype = ranks, parameters, compute_dtype
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

        def fast_form(tables: folded.Folded, users: Any, items: Any) -> Any:
            own = (tf.gather(parameters.mlp_user, users), tf.gather(parameters.gmf_user, users))
            rows = folded.fold_users(parameters, *own, compute_dtype)
            return folded.score_lists(tables, *rows, items)

        self._folded = tf.function(fast_form, reduce_retracing=True, autograph=False)

    def run(self, k: int) -> metrics.Totals:
        """HR@k and NDCG@k sums over the users of all ranks.

        Raises:
            metrics.NonFiniteScores: on every rank, when any rank met a weight or score that is no
                number.
        """
        totals, broken = metrics.Totals(0.0, 0.0, 0), float(bool(not_finite(self._parameters)))
        if self._fast:
            self._tables = folded.fold(self._parameters, self._dtype, users=False)
        begins = range(0, len(self._users), self._chunk)
        try:
            with ThreadPoolExecutor(self._streams) as streams:
                for part in streams.map(lambda begin: self._part(begin, k), begins):
                    totals = totals.merge(part)
        except metrics.NonFiniteScores:
            broken = 1.0
        self._tables = None
        # A rank that met a NaN must still join the reduction, or the others would wait for ever.
        hit_sum, gain_sum, users, bad = self._ranks.sum(
            [totals.hits, totals.gains, totals.users, broken]
        )
        if bad:
            what = "weights or scores that are not finite"
            raise metrics.NonFiniteScores(f"{int(bad)} ranks met {what}")
        return metrics.Totals(float(hit_sum), float(gain_sum), int(users))

    def _part(self, begin: int, k: int) -> metrics.Totals:
        part = slice(begin, begin + self._chunk)
        scores = self._scores(self._users[part], self._candidates[part])
        places = metrics.ranks(scores[:, 0], scores[:, 1:], self._counted[part])
        hits, gains = metrics.hits_and_gains(places, k)
        return metrics.Totals(float(hits.sum()), float(gains.sum()), len(hits))

    def _scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
        if not self._fast:
            return self._reference(users, items).numpy()
        count = len(users)
        if count < min(self._chunk, len(self._users)):  # one shape, one compilation
            fill = ((0, self._chunk - count),)
            users, items = np.pad(users, fill), np.pad(items, (*fill, (0, 0)))
        return self._folded(self._tables, users, items).numpy()[:count]
