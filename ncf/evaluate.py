"""Leave-one-out evaluation: each test user's held-out item among its candidates.

Scores are computed in chunks of users, so memory is bounded and no user is split; ranks and
metrics are pure NumPy (`ncf.metrics`), reduced over ranks as sums and divided once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ncf import metrics
from ncf.batching import user_slice
from ncf.model import not_finite
from ncf.step import gather_rows, logits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ncf.distributed import Ranks
    from ncf.model import Parameters


class Evaluator:
    """Scores this rank's test users.

    Args:
        parameters: the variables to score with.
        compute_dtype: type of the matmuls.
        test_users: int32 [n].
        candidates: int32 [n, m + 1], the held-out item in column 0.
        counted: bool [n, m], False for sampled slots that repeat an earlier item.
        chunk: users scored at once.
        ranks: shares the users out and adds the results up.
    """

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        test_users: NDArray[np.int32],
        candidates: NDArray[np.int32],
        counted: NDArray[np.bool_],
        chunk: int,
        ranks: Ranks,
    ) -> None:
        mine = user_slice(len(test_users), ranks.rank, ranks.size)
        self._users, self._candidates = test_users[mine], candidates[mine]
        self._counted = counted[mine]
        self._chunk, self._ranks, self._parameters = chunk, ranks, parameters

        def score(users: Any, items: Any) -> Any:  # [c], [c, m + 1] -> float32 [c, m + 1]
            width = candidates.shape[1]
            flat_users = tf.repeat(users, width)
            rows = gather_rows(parameters, flat_users, tf.reshape(items, [-1]))
            return tf.reshape(logits(rows, parameters, compute_dtype), [-1, width])

        shapes = [
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None, candidates.shape[1]], tf.int32),
        ]
        self._score = tf.function(score, input_signature=shapes)

    def run(self, k: int) -> metrics.Totals:
        """HR@k and NDCG@k sums over the users of all ranks.

        Raises:
            metrics.NonFiniteScores: on every rank, when any rank met a weight or score that is no
                number.
        """
        totals, broken = metrics.Totals(0.0, 0.0, 0), float(bool(not_finite(self._parameters)))
        for begin in range(0, len(self._users), self._chunk):
            part = slice(begin, begin + self._chunk)
            scores = self._score(self._users[part], self._candidates[part]).numpy()
            try:
                places = metrics.ranks(scores[:, 0], scores[:, 1:], self._counted[part])
            except metrics.NonFiniteScores:
                broken = 1.0
                break
            hits, gains = metrics.hits_and_gains(places, k)
            totals = totals.merge(metrics.Totals(float(hits.sum()), float(gains.sum()), len(hits)))
        # A rank that met a NaN must still join the reduction, or the others would wait for ever.
        hit_sum, gain_sum, users, bad = self._ranks.sum(
            [totals.hits, totals.gains, totals.users, broken]
        )
        if bad:
            what = "weights or scores that are not finite"
            raise metrics.NonFiniteScores(f"{int(bad)} ranks met {what}")
        return metrics.Totals(float(hit_sum), float(gain_sum), int(users))
