"""Generated interactions with the shape of MovieLens: long tails and a planted preference.

Each user has a mixture over a few tastes, each taste a distribution over items (popularity times
exp(affinity)); a user's items are drawn from the mixture without replacement. The mixture is a
matrix of low rank, which is what a factor model can learn, and because it is known the best
possible ranking is too: `Structure.scores` is the oracle to measure a model against.

Memory follows interactions and tastes x items; there is no users x items table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


MIN_PER_USER: Final = 20


@dataclass(frozen=True)
class Shape:
    """Sizes of a generated data set; every user has at least `least` items, one to be held out."""

    users: int
    items: int
    interactions: int
    tastes: int
    least: int = MIN_PER_USER


PRESETS: Final = {
    "tiny": Shape(200, 300, 6_000, 6),
    "100k": Shape(943, 1_682, 100_000, 12),
    "1m": Shape(6_040, 3_706, 1_000_209, 16),
    "20m": Shape(138_493, 26_744, 20_000_263, 24),
    "20m-2m": Shape(138_493, 26_744, 2_138_493, 24, least=2),
    "20m-500k": Shape(138_493, 26_744, 638_493, 24, least=2),
}
"""`100k`, `1m` and `20m` have exactly the users, items and interactions of the MovieLens sets.

`20m-2m` has the tables of 20m and a tenth of its work: 2,000,000 training positives and one
held-out item per user. It measures speed, not accuracy: half of its users have 9 items or fewer.
`20m-500k` is the same with 500,000 positives, for slow machines and methods.
"""

_ACTIVITY_SPREAD: Final = 1.1  # log-normal sigma; median / mean of ml-20m's users is 68 / 144
_POPULARITY_SPREAD: Final = 0.5  # of log popularity, shared by all tastes
_AFFINITY_SPREAD: Final = 2.8  # of log affinity; with it popularity scores ~0.4, the oracle ~0.8
_MIXTURE: Final = 0.05  # Dirichlet parameter: most users have one or two tastes
_LARGEST_SHARE: Final = 0.4  # of the catalogue that one user may have seen
_CHUNK_ROWS: Final = 1 << 21  # interactions drawn at a time; part of what a seed means
_RACE_CELLS: Final = 1 << 21  # users x items looked at together while finishing a chunk
_ROUNDS: Final = 12  # of redrawing before the few users left are finished exactly


@dataclass(frozen=True)
class Structure:
    """Planted preferences: `mixtures` [users, tastes], `tastes` [tastes, items]; rows sum to 1."""

    mixtures: Floats
    tastes: Floats

    def scores(self, users: npt.NDArray[Any], items: npt.NDArray[Any]) -> Floats:
        """Probability that a user's next draw is this item; `users` [n], `items` [n, m]."""
        by_item = np.ascontiguousarray(self.tastes.T)  # [items, tastes]: gathers whole rows
        return np.asarray(np.einsum("nt,nmt->nm", self.mixtures[users], by_item[items]))


@dataclass(frozen=True)
class Generated:
    """Interactions in file order: by user, within a user in random order of time."""

    users: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    structure: Structure


def generate(shape: Shape, seed: int, progress: Callable[[int], None] | None = None) -> Generated:
    """Draw a data set; the same shape and seed always give the same one.

    Every user has at least `shape.least` distinct items, every item at least one user, and the
    number of interactions is exact.

    Args:
        shape: sizes, usually one of `PRESETS`.
        seed: not negative.
        progress: called with the number of interactions so far, after every chunk.

    Raises:
        ValueError: sizes that cannot be met.
    """
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([0x7379, seed])))
    counts = _activity(rng, shape)
    structure = _structure(rng, shape)
    # Every item is given to one user first, so that the catalogue is complete.
    first_owner = rng.permutation(np.arange(shape.items) % shape.users)
    given = np.sort(first_owner * shape.items + np.arange(shape.items))
    if np.any(np.bincount(first_owner, minlength=shape.users) > counts):
        raise ValueError(f"{shape.items} items are too many for {shape.interactions} interactions")
    ends = np.cumsum(counts)
    out = Generated(
        np.empty(shape.interactions, np.int32), np.empty(shape.interactions, np.int32), structure
    )
    user = 0
    while user < shape.users:
        done = int(ends[user - 1]) if user else 0
        last = max(user + 1, int(np.searchsorted(ends, done + _CHUNK_ROWS, side="right")))
        bounds = np.array([user, last]) * shape.items
        mine = given[slice(*np.searchsorted(given, bounds))] - bounds[0]
        keys = _draw(rng, counts[user:last], structure.mixtures[user:last], structure.tastes, mine)
        end = int(ends[last - 1])
        _write(rng, keys, user, shape.items, out.users[done:end], out.items[done:end])
        user = last
        if progress:
            progress(end)
    return out


def _activity(rng: np.random.Generator, shape: Shape) -> Ints:
    """Interactions of each user: the minimum plus a log-normal tail, summing to the total."""
    most = int(_LARGEST_SHARE * shape.items)
    spare = shape.interactions - shape.least * shape.users
    if spare < 0 or shape.interactions > most * shape.users:
        raise ValueError(f"{shape} leaves no user between {shape.least} and {most} interactions")
    tail = np.exp(_ACTIVITY_SPREAD * rng.standard_normal(shape.users))

    def counts(scale: float) -> Ints:
        return np.minimum((scale * tail).astype(np.int64), most - shape.least)

    low, high = 0.0, 1.0
    while counts(high).sum() < spare:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if counts(middle).sum() <= spare else (low, middle)
    extra = counts(low)
    # The rounding's remainder goes, one each, to the users with room.
    room = np.flatnonzero(extra < most - shape.least)
    extra[room[: spare - int(extra.sum())]] += 1
    return extra + shape.least


def _structure(rng: np.random.Generator, shape: Shape) -> Structure:
    popularity = _POPULARITY_SPREAD * rng.standard_normal(shape.items)
    affinity = _AFFINITY_SPREAD * rng.standard_normal((shape.tastes, shape.items))
    tastes = np.exp(popularity + affinity)
    mixtures = rng.standard_gamma(_MIXTURE, (shape.users, shape.tastes)) + 1e-6
    return Structure(
        mixtures / mixtures.sum(axis=1, keepdims=True), tastes / tastes.sum(axis=1, keepdims=True)
    )


def _draw(
    rng: np.random.Generator, counts: Ints, mixtures: Floats, tastes: Floats, given: Ints
) -> Ints:
    """Distinct items of each user, as keys user * items + item in no particular order.

    Drawing from the mixture and rejecting items that the user already has is drawing without
    replacement; a round draws exactly the number that is missing, so nothing is dropped again. A
    user who has most of what their tastes offer would take many rounds: those few are finished
    by an exponential race over the whole catalogue, which has the same distribution.
    """
    n_items = tastes.shape[1]
    mixture_sums, taste_sums = _row_sums(mixtures), _row_sums(tastes)
    keys, lack, finished = given, counts - np.bincount(given // n_items, minlength=len(counts)), []
    for _ in range(_ROUNDS):
        users = np.repeat(np.arange(len(counts)), lack)
        taste = _pick(rng, mixture_sums, users, mixtures.shape[1])
        item = _pick(rng, taste_sums, taste, n_items)
        keys = np.concatenate([keys, users * n_items + item])
        keys.sort()
        keys = keys[np.diff(keys, prepend=-1) > 0]
        owner = keys // n_items
        lack = np.where(lack > 0, counts - np.bincount(owner, minlength=len(counts)), 0)
        open_ = lack[owner] > 0
        finished.append(keys[~open_])
        keys = keys[open_]
    finished.append(keys)
    users = np.flatnonzero(lack)
    step = max(1, _RACE_CELLS // n_items)
    for some in (users[start : start + step] for start in range(0, len(users), step)):
        race = rng.standard_exponential((len(some), n_items)) / (mixtures[some] @ tastes)
        place = np.full(len(counts), -1)
        place[some] = np.arange(len(some))
        taken = keys[place[keys // n_items] >= 0]
        race[place[taken // n_items], taken % n_items] = np.inf
        slowest = np.sort(race, axis=1)[np.arange(len(some)), lack[some] - 1]
        row, item = np.nonzero(race <= slowest[:, None])
        finished.append(some[row] * n_items + item)
    return np.concatenate(finished)


def _row_sums(weights: Floats) -> Floats:
    """Cumulative sums of all rows in one ascending array: row r covers (r, r + 1]."""
    sums = np.cumsum(weights, axis=1)
    sums /= sums[:, -1:]
    sums += np.arange(len(weights))[:, None]
    return sums.ravel()


def _pick(rng: np.random.Generator, sums: Floats, rows: Ints, width: int) -> Ints:
    """One column of each given row, drawn by the weights that `sums` accumulates."""
    place = np.searchsorted(sums, rows + rng.random(len(rows)), side="right")
    # The clip is for a sum that rounds up to the next row's first.
    return np.asarray(np.minimum(place - rows * width, width - 1), np.int64)


def _write(
    rng: np.random.Generator,
    keys: Ints,
    first_user: int,
    n_items: int,
    users: npt.NDArray[np.int32],
    items: npt.NDArray[np.int32],
) -> None:
    """Put keys in order of user, in random order within each, through one sort of packed words."""
    owner, item = np.divmod(keys, n_items)
    item_bits, user_bits = n_items.bit_length(), int(owner.max()).bit_length()
    random_bits = 63 - item_bits - user_bits
    packed = owner << (random_bits + item_bits) | item
    packed |= rng.integers(0, 1 << random_bits, len(keys), np.int64) << item_bits
    packed.sort()
    users[:] = first_user + (packed >> (random_bits + item_bits))
    items[:] = packed & ((1 << item_bits) - 1)
