"""Training samples as a pure function of (seed, epoch, place in the epoch's order).

An epoch visits every positive once, each with K fresh negatives, in random order. Samples come in
groups of one user: a positive with its negatives (`grouped`), so that the user's side of the model
is computed once for all of them, or each sample alone (`shuffled`, as published). Neither the
order nor the negatives are stored: place -> sample number is a keyed permutation computed on the
fly, and a negative is a hash of its sample number. So memory does not grow with the epoch, and a
rank can compute any slice of the global batch: the samples of a step do not depend on how many
ranks share it, only its slices do.

The permutation is a generalised Feistel network on a x b cells (Black & Rogaway, "Ciphers with
Arbitrary Finite Domains", CT-RSA 2002, section 5, repeated for places beyond the end); the
mixing function is the finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA 2014), shortened.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROUNDS = 6
_MASK = (1 << 64) - 1
_MULTIPLY_1 = 0xBF58476D1CE4E5B9
_MULTIPLY_2 = 0x94D049BB133111EB
_GOLDEN = 0x9E3779B97F4A7C15


class Batch(NamedTuple):
    """One rank's share of a step, in groups of samples that share a user.

    Shapes: int32 users [groups] and items [groups, size], float32 labels [groups, size] and
    weights [groups] (0 for padding), uint32 places [groups, size]: each sample's own number
    within the epoch's order, from which its dropout masks are drawn.
    """

    users: Any
    items: Any
    labels: Any
    weights: Any
    places: Any


def derive_key(*parts: int) -> int:
    """A 64-bit key from a seed and the purpose it serves, each part stirred in in turn."""
    state = 0
    for part in parts:
        state = (state + _GOLDEN + (part & _MASK)) & _MASK
        state = ((state ^ (state >> 30)) * _MULTIPLY_1) & _MASK
        state = ((state ^ (state >> 27)) * _MULTIPLY_2) & _MASK
        state ^= state >> 31
    return state


def epoch_keys(seed: int, epoch: int) -> NDArray[np.uint64]:
    """Keys of one epoch, uint64 [ROUNDS + 1]: the permutation's rounds, then the negatives."""
    return np.array([derive_key(seed, epoch, i) for i in range(ROUNDS + 1)], np.uint64)


def grid_for(count: int) -> tuple[int, int]:
    """Sides (a, b), a * b >= count, near the square root and with as little excess as is near it.

    Places in the excess are permuted again, a second pass over a whole batch; a small search
    makes them rare or absent.
    """
    root = max(1, math.isqrt(count))
    sides = range(max(1, root - min(root // 2, 2000)), root + 1)
    best = min(sides, key=lambda a: (a * -(-count // a) - count, -a))
    return best, -(-count // best)


def _mix(value: Any, key: Any) -> Any:
    """uint64 -> uint64, every input bit reaching the upper half."""
    value = (value + key) * tf.constant(_MULTIPLY_1, tf.uint64)
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u64(32)))
    return value * tf.constant(_MULTIPLY_2, tf.uint64)


def _u64(value: int) -> Any:
    return tf.constant(value, tf.uint64)


def _below(hashed: Any, bound: Any) -> Any:
    """Map a hash to [0, bound) by its upper 32 bits; bias below bound / 2**32."""
    return tf.bitwise.right_shift(tf.bitwise.right_shift(hashed, _u64(32)) * bound, _u64(32))


def permute(places: Any, count: int, keys: Any) -> Any:
    """Keyed permutation of range(count).

    Args:
        places: int64 [n], each in range(count).
        count: length of the permuted range, at most 2**62.
        keys: uint64 [ROUNDS or more].

    Returns:
        int64 [n].
    """
    a, b = grid_for(count)
    side_a, side_b = _u64(a), _u64(b)

    def rounds(cell: Any) -> Any:
        high, low = cell // side_b, cell % side_b
        for i in range(0, ROUNDS, 2):
            high = high + _below(_mix(low, keys[i]), side_a)
            high = tf.where(high >= side_a, high - side_a, high)
            low = low + _below(_mix(high, keys[i + 1]), side_b)
            low = tf.where(low >= side_b, low - side_b, low)
        return high * side_b + low

    cell = rounds(tf.cast(places, tf.uint64))
    if a * b > count:
        limit = _u64(count)
        (cell,) = tf.while_loop(
            lambda cell: tf.reduce_any(cell >= limit),
            lambda cell: (tf.where(cell >= limit, rounds(cell), cell),),
            (cell,),
        )
    return tf.cast(cell, tf.int64)


class Sampler:
    """Draws batches from the training positives of one data set.

    Args:
        offsets: int64 [n_users + 1], where each user's training items begin.
        items: int32 [n_train], ascending within a user.
        n_items: number of items.
        negatives: K, negatives per positive.
        grouped: True orders positives, each followed by its negatives; False orders samples.
        exact: True excludes the user's training items (and only these: the held-out item may be
            drawn, as in deployment); False is the published short cut, uniform and unverified.

    Raises:
        UserError: exact, and some user has seen every item.
    """

    def __init__(
        self,
        offsets: NDArray[np.int64],
        items: NDArray[np.int32],
        n_items: int,
        negatives: int,
        *,
        exact: bool,
        grouped: bool = False,
    ) -> None:
        counts = np.diff(offsets)
        self.n_positives = len(items)
        self.samples = self.n_positives * (1 + negatives)
        self._per_positive = 1 + negatives
        self.group_size = self._per_positive if grouped else 1
        self.groups = self.samples // self.group_size
        self._n_items = n_items
        users = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        self._users = tf.constant(users)
        self._items = tf.constant(np.ascontiguousarray(items))
        self._exact = exact
        if exact:
            full = np.flatnonzero(counts >= n_items)
            if len(full):
                raise UserError(
                    f"--no_neg_trick: {len(full)} users have all {n_items} items in training and "
                    f"no admissible negative (first: {full[:5].tolist()}); drop them from the data"
                )
        # Places among the positives take half the memory traffic wherever they fit 32 bits.
        self._place = tf.int32 if self.n_positives < 2**31 - 1 else tf.int64
        self._offsets = tf.constant(offsets, self._place)
        self._halvings = int(counts.max(initial=0)).bit_length()
        # Integer arithmetic on whole batches: one compiled loop instead of fifty passes.
        self._draw = tf.function(self._draw_numbers, jit_compile=True, autograph=False)

    def batch(self, keys: Any, first: Any, valid: Any, padded: int) -> Batch:
        """Groups [first, first + valid) of the order given by keys, padded with weight 0.

        Args:
            keys: uint64 [ROUNDS + 1] from `epoch_keys`.
            first: int64 scalar, this share's first place in the order of the groups.
            valid: int64 scalar, how many of the groups count.
            padded: static number of groups to return, at least `valid`.
        """
        slots = tf.range(padded, dtype=tf.int64)
        places = tf.minimum(first + slots, self.groups - 1)
        members = tf.range(self.group_size, dtype=tf.int64)
        numbers, hashed = self._draw(places, members, keys)
        positives = numbers[:, 0] // self._per_positive
        is_positive = tf.equal(numbers % self._per_positive, 0)
        users = tf.gather(self._users, positives)
        own = tf.gather(self._items, positives)[:, None]
        drawn = self._unseen(users[:, None], hashed) if self._exact else self._any(hashed)
        return Batch(
            users,
            tf.where(is_positive, own, drawn),
            tf.cast(is_positive, tf.float32),
            tf.cast(slots < valid, tf.float32),
            tf.cast(places[:, None] * self.group_size + members, tf.uint32),
        )

    def _draw_numbers(self, places: Any, members: Any, keys: Any) -> tuple[Any, Any]:
        """Sample numbers, int64 [groups, size], and a hash of each, uint64 of the same shape."""
        numbers = permute(places, self.groups, keys)[:, None] * self.group_size + members
        hashed = _mix(tf.cast(numbers, tf.uint64), keys[ROUNDS])
        return numbers, _mix(hashed, keys[0])

    def _any(self, hashed: Any) -> Any:
        """An item for each hash, uniform over all; int32 of the same shape."""
        return tf.cast(_below(hashed, _u64(self._n_items)), tf.int32)

    def _unseen(self, users: Any, hashed: Any) -> Any:
        """The r-th item that the user has not seen, r uniform: no rejection, a fixed shape.

        With the user's items p_0 < p_1 < ..., there are p_j - j unseen items before p_j, so the
        r-th unseen one is r + #{j: p_j - j <= r}, a binary search in a non-decreasing array that
        need not be stored.
        """
        begin, end = tf.gather(self._offsets, users), tf.gather(self._offsets, users + 1)
        unseen = tf.cast(self._n_items - tf.cast(end - begin, tf.int64), tf.uint64)
        rank = tf.cast(_below(hashed, unseen), tf.int32)
        return rank + self._count(
            begin, end, lambda item, place: item - tf.cast(place - begin, tf.int32) <= rank
        )

    def seen(self, users: Any, items: Any) -> Any:
        """Whether each item is one of the user's training items; bool, shaped like both."""
        begin, end = tf.gather(self._offsets, users), tf.gather(self._offsets, users + 1)
        upto = self._count(begin, end, lambda item, _: item <= items)
        last = tf.maximum(begin + tf.cast(upto, self._place) - 1, 0)
        return (upto > 0) & tf.equal(tf.gather(self._items, last), items)

    def _count(self, begin: Any, end: Any, before: Callable[[Any, Any], Any]) -> Any:
        """How many of the items at [begin, end) lie before a bound; they are the first ones."""
        last = tf.constant(max(0, self.n_positives - 1), self._place)
        low, high = begin, end
        for _ in range(self._halvings):
            middle = low + (high - low) // 2
            item = tf.gather(self._items, tf.minimum(middle, last))
            right = before(item, middle) & (low < high)
            low, high = tf.where(right, middle + 1, low), tf.where(right, high, middle)
        return tf.cast(low - begin, tf.int32)

    def false_negatives(self, keys: Any, most: int = 1 << 18) -> tuple[int, int]:
        """Count negatives that are training items of their user, in the beginning of an epoch.

        Args:
            keys: of the epoch.
            most: samples to look at; their order is random, so they speak for the epoch.

        Returns:
            The number of such negatives, and the number of negatives checked.
        """
        count = max(1, min(most // self.group_size, self.groups))

        def look(keys: Any) -> Any:
            batch = self.batch(keys, tf.constant(0, tf.int64), tf.constant(count, tf.int64), count)
            negative = tf.equal(batch.labels, 0.0)
            users = tf.broadcast_to(batch.users[:, None], batch.items.shape)
            false = negative & self.seen(users, batch.items)
            return [tf.math.count_nonzero(false), tf.math.count_nonzero(negative)]

        false, negatives = tf.function(look)(keys)
        return int(false), int(negatives)
