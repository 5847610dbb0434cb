"""How an epoch is cut into steps, and a step into ranks. Pure arithmetic on integers.

Everything is computed from global numbers, so all ranks take the same number of steps with the
same shapes; a rank whose share is short pads with samples of weight 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """One rank's part of one step: samples [first, first + valid) of the epoch's order.

    `padded` is the shape that every rank uses for this step; `total` is the number of samples in
    the whole step, the denominator of the mean loss.
    """

    first: int
    valid: int
    padded: int
    total: int


def steps_per_epoch(samples: int, global_batch: int) -> int:
    """Steps that visit every sample once; the last may be short."""
    return -(-samples // global_batch)


def share(step: int, samples: int, global_batch: int, rank: int, world_size: int) -> Share:
    """The part of `step` (counted from 0) that `rank` of `world_size` computes."""
    begin = step * global_batch
    total = min(global_batch, samples - begin)
    padded = -(-total // world_size)
    first = min(rank * padded, total)
    valid = max(0, min(padded, total - first))
    return Share(begin + first, valid, padded, total)


def user_slice(users: int, rank: int, world_size: int) -> slice:
    """The test users that `rank` evaluates; sizes differ by at most one, and may be 0."""
    return slice(users * rank // world_size, users * (rank + 1) // world_size)
