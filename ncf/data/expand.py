"""Larger data from smaller: a randomised Kronecker product with a small picture of themselves.

In the spirit of MLPerf's fractal expansion (Belletti et al., "Scalable Realistic Recommendation
Datasets through Fractal Expansions", 2019).

User (a, u) and item (b, i) copy user u and item i of the base. An interaction of u with i is
copied into block (a, b) with probability w[a, b], where w is the base's own density between
groups of users by activity and groups of items by popularity: the tails of the large data
resemble those of the small. In each user's densest block everything is kept, so that nobody falls
below the base's smallest history.

Work goes by ranges of new users; a range needs only the base and its own numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncf.data.split import Split

Ints = npt.NDArray[np.int64]

_CHUNK_ROWS: Final = 1 << 15  # base rows copied at a time; part of what a seed means
_STREAM: Final = 0x6672


@dataclass(frozen=True)
class Block:
    """Some neighbouring new users: training items [sum(lengths)] by user, one held out each."""

    first_user: int
    lengths: Ints
    items: npt.NDArray[np.int32]
    held_out: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Range:
    """Copy number `copy` of base users [first, last)."""

    copy: int
    first: int
    last: int


def weights(base: Split, users: int, items: int) -> npt.NDArray[np.float64]:
    """Probability of each block [users, items]; the largest of each row is 1.

    Raises:
        ValueError: more groups than users or items, or item numbers beyond 2**31.
    """
    if not (1 <= users <= base.n_users and 1 <= items <= base.n_items):
        raise ValueError(
            f"the data have {base.n_users:,} users and {base.n_items:,} items, too few to be "
            f"pictured as {users} x {items}"
        )
    if items * base.n_items >= 2**31 or users * base.n_users >= 2**31:
        raise ValueError(f"{users} x {items} copies would have more ids than 2**31")
    activity = np.diff(base.train_offsets)
    popularity = np.bincount(base.train_items, minlength=base.n_items)
    user_group = _groups(activity, users)[np.repeat(np.arange(base.n_users), activity)]
    item_group = _groups(popularity, items)[base.train_items]
    counts = np.bincount(user_group * items + item_group, minlength=users * items)
    sizes = np.outer(
        np.bincount(_groups(activity, users), minlength=users),
        np.bincount(_groups(popularity, items), minlength=items),
    )
    picture = counts.reshape(users, items) / sizes
    picture /= picture.max()
    picture[np.arange(users), picture.argmax(axis=1)] = 1.0
    return np.asarray(picture, np.float64)


def ranges(base: Split, users: int, chunk_rows: int = _CHUNK_ROWS) -> Iterator[Range]:
    """All ranges of new users, in order."""
    for copy in range(users):
        first = 0
        while first < base.n_users:
            end = base.train_offsets[first] + chunk_rows
            last = int(np.searchsorted(base.train_offsets, end, side="right")) - 1
            last = min(max(last, first + 1), base.n_users)
            yield Range(copy, first, last)
            first = last


def block(base: Split, picture: npt.NDArray[np.float64], seed: int, part: Range) -> Block:
    """Copy a range of users. The same base, picture, seed and range always give the same block.

    Args:
        base: a split in which every user has a test row.
        picture: from `weights`.
        seed: not negative.
        part: one of `ranges`.
    """
    words = [_STREAM, seed, part.copy, part.first]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
    bounds = base.train_offsets[part.first : part.last + 1]
    own = np.asarray(base.train_items[bounds[0] : bounds[-1]], np.int64)
    n_users, n_blocks = part.last - part.first, picture.shape[1]
    width = base.n_items * n_blocks
    base_keys = np.repeat(np.arange(n_users, dtype=np.int64) * width, np.diff(bounds)) + own
    kept = []
    for number, chance in enumerate(picture[part.copy]):
        keys = base_keys
        if chance < 1.0:
            keys = base_keys[rng.random(len(own), np.float32) < np.float32(chance)]
        kept.append(keys + number * base.n_items)
    keys = np.concatenate(kept)
    keys.sort()
    edges = np.searchsorted(keys, np.arange(n_users + 1, dtype=np.int64) * width)
    lengths = np.diff(edges)
    items = (keys - np.repeat(np.arange(n_users, dtype=np.int64) * width, lengths)).astype(np.int32)
    chances = np.cumsum(picture[part.copy])
    drawn = np.searchsorted(chances, rng.random(n_users) * chances[-1], side="right")
    blocks = np.minimum(drawn, n_blocks - 1)
    held_out = blocks * base.n_items + base.test_items[part.first : part.last]
    first_user = part.copy * base.n_users + part.first
    return Block(first_user, lengths, items, held_out.astype(np.int32))


def _groups(counts: npt.NDArray[Any], n: int) -> Ints:
    """Group of each, 0 the busiest; sizes differ by at most one."""
    place = np.empty(len(counts), np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.asarray(place * n // len(counts), np.int64)
