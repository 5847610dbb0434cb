"""How an epoch is divided into steps, and a step into ranks. Pure arithmetic on integers.

The unit is a group: a positive with its negatives, or a single sample where samples are shuffled
(`ncf.sampling.sampler`). A global batch is rounded down to a multiple of the group size.

Everything is computed from global numbers, so all ranks take the same number of steps with the
same shapes; a rank whose share is short pads with samples of weight 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Share:
    """One rank's part of one step: groups [first, first + valid) of the epoch's order.

    `padded` is the shape that every rank uses for this step; `total` is the number of groups in
    the whole step, from which the denominator of the mean loss follows.
    """

    first: int
    valid: int
    padded: int
    total: int


def groups_per_step(batch_size: int, group_size: int) -> int:
    """Groups of a global batch of `batch_size` samples; 0 where none fits."""
    return batch_size // group_size


def steps_per_epoch(groups: int, per_step: int) -> int:
    """Steps that visit every group once; the last may be short."""
    return -(-groups // per_step)


def share(step: int, groups: int, per_step: int, rank: int, world_size: int) -> Share:
    """The part of `step` (counted from 0) that `rank` of `world_size` computes."""
    begin = step * per_step
    total = min(per_step, groups - begin)
    padded = -(-total // world_size)
    first = min(rank * padded, total)
    valid = max(0, min(padded, total - first))
    return Share(begin + first, valid, padded, total)


def user_slice(users: int, rank: int, world_size: int) -> slice:
    """The test users that `rank` evaluates; sizes differ by at most one, and may be 0."""
    return slice(users * rank // world_size, users * (rank + 1) // world_size)


def own_shares(groups: Sequence[int], per_step: int, rank: int) -> list[Share]:
    """The parts of all steps of `rank` where every rank has groups of its own.

    Every step takes the same fraction of each rank's groups, so all finish together, and a step
    has `per_step` groups of all ranks together (give or take one per rank).

    Args:
        groups: of each rank.
        per_step: of all ranks together.
        rank: whose shares.
    """
    counts = np.asarray(groups, np.int64)[:, None]
    total = int(counts.sum())
    steps = steps_per_epoch(total, per_step)
    ends = np.minimum(np.arange(steps + 1, dtype=np.int64) * per_step, total)
    begins = counts * ends // total  # [ranks, steps + 1]
    sizes = np.diff(begins, axis=1)
    widest = sizes.max(axis=0)
    full = int(widest[:-1].max(initial=0))
    padded = [full] * (steps - 1) + [int(widest[-1])]
    totals = sizes.sum(axis=0)
    return [
        Share(int(begins[rank, step]), int(sizes[rank, step]), padded[step], int(totals[step]))
        for step in range(steps)
    ]
