"""Ranking metrics on sampled candidates: HR@k, NDCG@k, and the levels that need no model.

Every test user has one held-out item and n sampled candidates. The rank of the held-out item is
the number of counted candidates whose score is at least its own: ties lose, so a constant model
scores 0 instead of a number that depends on the column of the held-out item. Sums are kept apart
from the division, so that chunks and processes add up to exactly the same rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK_SCORES = 1 << 20
"""Scores gathered at a time where a baseline is computed: 8 MB."""


class NonFiniteScores(ValueError):  # noqa: N818 - the name says what the scores are
    """Scores with not-a-number or infinity in them: a rate made of them would mean nothing."""


def ranks(
    held_out_scores: npt.NDArray[Any], scores: npt.NDArray[Any], counts: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Rank of each held-out item among its counted candidates, 0 being the best.

    Args:
        held_out_scores: [n] score of the held-out item.
        scores: [n, m] scores of the candidates.
        counts: [n, m] True where the candidate counts (see `candidates.duplicate_mask`).

    Returns:
        [n] number of counted candidates with a score >= the held-out item's.

    Raises:
        NonFiniteScores: any score, counted or not, is not finite; says how many.
        ValueError: the shapes do not fit together.
    """
    n = held_out_scores.shape[0]
    if held_out_scores.ndim != 1 or scores.ndim != 2 or scores.shape[0] != n:
        raise ValueError(f"held-out {held_out_scores.shape} does not fit scores {scores.shape}")
    if counts.shape != scores.shape:
        raise ValueError(f"scores {scores.shape} and counts {counts.shape} differ in shape")
    bad = held_out_scores.size - np.count_nonzero(np.isfinite(held_out_scores))
    bad += scores.size - np.count_nonzero(np.isfinite(scores))
    if bad:
        total = held_out_scores.size + scores.size
        raise NonFiniteScores(f"{bad} of {total} evaluation scores are not finite")
    beaten = (scores >= held_out_scores[:, None]) & counts
    return np.asarray(np.count_nonzero(beaten, axis=1), np.int64)


def hits_and_gains(
    ranks: npt.NDArray[np.integer[Any]], k: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Hit (0 or 1) and discounted gain 1/log2(rank + 2) of each user, both 0 below the top k."""
    if k < 1:
        raise ValueError(f"k is {k}, not at least 1")
    hits = (ranks < k).astype(np.float64)
    gains = hits / np.log2(ranks + 2.0)  # the best rank is 0 here, 1 in the usual formula
    return hits, gains


@dataclass(frozen=True)
class Totals:
    """Sums over users, divided only once at the end; `Totals()` is the empty one.

    Averages of averages weigh users by the size of the chunk or process they happened to be in;
    sums do not. An empty part (a process without test users) adds nothing.
    """

    hits: float = 0.0
    gains: float = 0.0
    users: float = 0.0

    @classmethod
    def of(cls, ranks: npt.NDArray[np.integer[Any]], k: int) -> Totals:
        """Totals of users whose held-out items have these ranks."""
        hits, gains = hits_and_gains(ranks, k)
        return cls(float(hits.sum()), float(gains.sum()), float(hits.size))

    def merge(self, other: Totals) -> Totals:
        """Totals of both parts together."""
        return Totals(self.hits + other.hits, self.gains + other.gains, self.users + other.users)

    @property
    def hr(self) -> float:
        """HR@k: share of users whose held-out item is in the top k. ValueError without users."""
        return self._mean(self.hits)

    @property
    def ndcg(self) -> float:
        """NDCG@k: mean discounted gain. ValueError without users."""
        return self._mean(self.gains)

    def _mean(self, total: float) -> float:
        if self.users <= 0:
            raise ValueError("no users were evaluated, so there is no rate")
        return total / self.users


def chance_hr(effective: npt.NDArray[np.integer[Any]], k: int) -> float:
    """Expected HR@k of random scores without ties.

    Args:
        effective: [n] counted candidates of each user, the held-out item not among them.
        k: length of the list.
    """
    if effective.size == 0:
        raise ValueError("no users were evaluated, so there is no rate")
    listed = effective.astype(np.float64) + 1.0
    return float(np.mean(np.minimum(k, listed) / listed))


def popularity(items: npt.NDArray[np.integer[Any]], n_items: int) -> npt.NDArray[np.int64]:
    """How often each item occurs, counted in parts: `bincount` would copy all of them as int64."""
    counts = np.zeros(n_items, np.int64)
    for start in range(0, len(items), _CHUNK_SCORES):
        counts += np.bincount(items[start : start + _CHUNK_SCORES], minlength=n_items)
    return counts


def candidate_totals(
    score: Callable[[slice, npt.NDArray[Any]], npt.NDArray[Any]],
    held_out: npt.NDArray[np.integer[Any]],
    candidates: npt.NDArray[np.integer[Any]],
    counts: npt.NDArray[np.bool_],
    k: int,
) -> Totals:
    """Totals of a scoring rule, computed over chunks of test users.

    Args:
        score: gets the test rows of a chunk [c] and their items [c, m + 1], the held-out item
            first, and returns their scores.
        held_out: [n] held-out item of each test row.
        candidates: [n, m] sampled items.
        counts: [n, m] True where the candidate counts.
        k: length of the list.
    """
    total = Totals()
    step = max(1, _CHUNK_SCORES // (candidates.shape[1] + 1))
    for start in range(0, len(held_out), step):
        rows = slice(start, start + step)
        items = np.concatenate([held_out[rows, None], candidates[rows]], axis=1)
        scores = score(rows, items)
        total = total.merge(Totals.of(ranks(scores[:, 0], scores[:, 1:], counts[rows]), k))
    return total


def item_score_totals(
    item_scores: npt.NDArray[Any],
    held_out: npt.NDArray[np.integer[Any]],
    candidates: npt.NDArray[np.integer[Any]],
    counts: npt.NDArray[np.bool_],
    k: int,
) -> Totals:
    """Totals of a model that scores items the same for every user; ties lose as everywhere.

    With `item_scores` [n_items] = training interactions of each item this is the popularity
    baseline. The other arguments are those of `candidate_totals`.
    """
    return candidate_totals(
        lambda _rows, items: np.asarray(item_scores[items]), held_out, candidates, counts, k
    )
