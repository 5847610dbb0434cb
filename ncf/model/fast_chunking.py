"""How a batch is walked in chunks: the arithmetic and the small operations on its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from ncf.sampling.sampler import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray


def count_distinct(users: NDArray[np.int32], walk: Cut) -> int:
    """Distinct users of every chunk, added up: what a step projects of the user table."""
    ordered = np.sort(users)
    ordered = np.pad(ordered, (0, walk.groups - len(ordered)), mode="edge")
    chunks = ordered.reshape(-1, walk.chunk)
    return len(chunks) + int(np.count_nonzero(chunks[:, 1:] != chunks[:, :-1]))


class Cut(NamedTuple):
    """How a batch is walked: `rounds` times `lanes` chunks of `chunk` groups, side by side."""

    rounds: int
    lanes: int
    chunk: int

    @property
    def groups(self) -> int:
        """Groups walked, padding included."""
        return self.rounds * self.lanes * self.chunk


def cut(groups: int, lanes: int, at_most: int) -> Cut:
    """Equal chunks of at most `at_most` groups; the padding is below one group per chunk."""
    lanes = min(lanes, groups)
    rounds = -(-groups // (lanes * at_most))
    return Cut(rounds, lanes, -(-groups // (lanes * rounds)))


def again(full: Cut, groups: int) -> Cut:
    """A step of fewer groups in chunks of the same size, so that nothing is compiled for it."""
    return full._replace(rounds=-(-groups // (full.lanes * full.chunk)))


def sizes(count: int, parts: int) -> list[int]:
    """Sizes of `parts` parts of `count`, as equal as can be."""
    return [count * (i + 1) // parts - count * i // parts for i in range(parts)]


def padded(batch: Batch, groups: int) -> Batch:
    """Append groups of weight 0, equal to the last one."""
    missing = groups - batch.items.shape[0]
    if missing == 0:
        return batch
    last = Batch(*(tf.repeat(part[-1:], missing, axis=0) for part in batch))
    last = last._replace(weights=tf.zeros([missing]))
    return Batch(*(tf.concat(pair, axis=0) for pair in zip(batch, last, strict=True)))


def by_user(batch: Batch) -> Batch:
    """The groups in the order of their users; a sum does not mind the order of its terms."""
    order = tf.argsort(batch.users, stable=True)
    return Batch(*(tf.gather(part, order) for part in batch))


def piece(batch: Batch, begin: Any, count: int) -> Batch:
    """Groups [begin, begin + count), with a static shape."""
    parts = []
    for part in batch:
        begins = [begin, 0] if part.shape.rank == 2 else [begin]
        found = tf.slice(part, begins, [count, *part.shape[1:]])
        parts.append(tf.ensure_shape(found, [count, *part.shape[1:]]))
    return Batch(*parts)


def distinct(users: Any) -> tuple[Any, Any]:
    """The distinct ones of sorted users [C], int32 [D], and which of them each is, int32 [C]."""
    changes = tf.cast(users[1:] != users[:-1], tf.int32)
    segments = tf.concat([[0], tf.cumsum(changes)], axis=0)
    return tf.math.segment_max(users, segments), segments
