"""Evaluation candidates: sampled negatives of each test user, drawn without rejection.

To draw an item that a user has not seen, draw r uniform in [0, n_items - d) and take the r-th
element of the sorted complement of the user's d sorted items p. The number of these that lie
before it is #{j : p_j - j <= r}, so the answer is r plus that count: one binary search in an
array that never decreases, no users x items table, no loop that may not end.

Draws depend on (protocol, seed) and on the place in the output only, through PCG64's raw stream,
which numpy promises to keep: not on chunks, threads, processes or the numpy version.

Candidates that came with the data are kept as they are; their protocol is `given-N`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ncf.runtime.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

Ints = npt.NDArray[np.integer[Any]]

PROTOCOLS: Final = {"nvidia": 100, "unique": 100, "mlperf": 999}
"""Known protocols and their usual number of candidates.

nvidia: with replacement from the items not in training; later repeats and copies of the held-out
item stay in the table and are masked when ranks are counted. unique: distinct items, neither in
training nor held out. mlperf: the rule of nvidia with MLPerf's 999.
"""

GIVEN: Final = "given"
"""In `Drawing` and on the command line: the candidates that came with the data."""

_STREAMS: Final = {"nvidia": 0x6E76, "unique": 0x756E, "mlperf": 0x6D6C}
"""First word of each protocol's seed, so that protocols share no stream."""

_CHUNK_SLOTS: Final = 1 << 17
"""Candidate slots worked on at a time; the searched slice then stays in the CPU's cache."""


@dataclass(frozen=True)
class History:
    """The items of test users, which candidates must avoid.

    `train_offsets` [n_users + 1] give where each user's training items begin in `train_items`
    [n_train], strictly ascending within each user; `test_users` [n_test] ascend; `test_items`
    [n_test] is the held-out item of each, not one of the user's training items. `n_items` is the
    size of the catalogue.
    """

    train_offsets: npt.NDArray[np.int64]
    train_items: Ints
    test_users: Ints
    test_items: Ints
    n_items: int


@dataclass(frozen=True)
class Drawing:
    """How candidates are made: drawn by a protocol, or kept as they came (`GIVEN`, without seed).

    `pad` fills what a user's catalogue cannot offer with the held-out item, which `duplicate_mask`
    never counts, instead of an error. `threads` changes the time, never the result.
    """

    protocol: str
    per_user: int
    seed: int | None
    pad: bool = False
    threads: int = 1

    @property
    def name(self) -> str:
        """The protocol as data and records name it; n is part of what HR@k means where given."""
        return f"given-{self.per_user}" if self.protocol == GIVEN else self.protocol


class ShortOfItemsError(ValueError):
    """Test users with too few items left to sample from, and the largest number that works."""

    def __init__(self, rows: Ints, of: int, least: int, n: int) -> None:
        who = f"{len(rows):,} of {of:,} test users have"
        super().__init__(
            f"{who} fewer than {n} items left to sample; {least} is the most that works for all"
            if least
            else f"{who} every item, so nothing is left to sample"
        )
        self.rows, self.least = rows, least


def is_given(protocol: str) -> bool:
    """Whether the candidates came with the data, so that they cannot be drawn again."""
    return protocol.startswith("given-")


def draw(
    history: History, drawing: Drawing, *, first_row: int = 0, chunk_slots: int = _CHUNK_SLOTS
) -> npt.NDArray[np.int32]:
    """Draw candidates for every test user.

    Args:
        history: the items to avoid.
        drawing: protocol (a key of `PROTOCOLS`), candidates per user (at least 1) and seed (not
            negative).
        first_row: place of the first of these test users among all, where they are a part.
        chunk_slots: how much is drawn at a time; changes memory, never the result.

    Returns:
        [n_test, n] items; the held-out item has no column of its own.

    Raises:
        ShortOfItemsError: a user whose catalogue is too small (see `admissible`).
        ValueError: unknown protocol.
    """
    protocol, n, seed, n_items = drawing.protocol, drawing.per_user, drawing.seed, history.n_items
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r} is none of {', '.join(PROTOCOLS)}")
    if n < 1 or seed is None or seed < 0:
        raise ValueError(f"n is {n} and seed {seed}; they must be at least 1 and 0")
    short = short_rows(history, drawing)
    if short.size and not drawing.pad:
        room = admissible(history)
        raise ShortOfItemsError(short, len(room), int(room.min()), n)
    table = np.empty((history.test_users.shape[0], n), np.int32)
    sequence = np.random.SeedSequence([_STREAMS[protocol], seed])

    def fill(rows: slice) -> None:
        steps = (first_row + rows.start) * n  # one for each slot before
        stream = np.random.PCG64(sequence).advance(steps)
        users, held_out = history.test_users[rows], history.test_items[rows]
        raw = stream.random_raw(users.shape[0] * n).reshape(users.shape[0], n)
        seen, offsets = _rows_of(history.train_offsets, history.train_items, users)
        if protocol == "unique":
            seen, offsets = _with_one_more(seen, offsets, held_out, n_items)
            left = n_items - np.diff(offsets)
            r = _distinct(raw, left)
            beyond = r >= left[:, None]  # only where padding was asked for
            unseen = nth_unseen(np.where(beyond, 0, r), offsets, seen, n_items)
            table[rows] = np.where(beyond, held_out[:, None], unseen)
        else:
            r = _scaled(raw, (n_items - np.diff(offsets))[:, None])
            table[rows] = nth_unseen(r, offsets, seen, n_items)

    for _ in in_order(fill, _chunks(len(table), n, chunk_slots), drawing.threads):
        pass
    return table


def _chunks(n_rows: int, n: int, slots: int = _CHUNK_SLOTS) -> Iterator[slice]:
    step = max(1, slots // max(1, n))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def admissible(history: History) -> npt.NDArray[np.int64]:
    """[n_test] items that are neither in the user's training rows nor held out."""
    lengths = np.diff(history.train_offsets)[history.test_users]
    return np.asarray(history.n_items - lengths - 1, np.int64)


def short_rows(history: History, drawing: Drawing) -> npt.NDArray[np.int64]:
    """Test rows whose catalogue has fewer admissible items than the protocol needs."""
    needed = {GIVEN: 0, "unique": drawing.per_user}.get(drawing.protocol, 1)
    return np.flatnonzero(admissible(history) < needed)


def nth_unseen(
    r: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], seen: Ints, n_items: int
) -> npt.NDArray[np.int64]:
    """The r-th item, from 0, of each row's unseen items in ascending order.

    Args:
        r: [n_rows, n] with 0 <= r < n_items - (items seen in the row).
        offsets: [n_rows + 1] where each row's seen items begin.
        seen: [offsets[-1]] seen items, strictly ascending within each row.
        n_items: size of the catalogue.
    """
    n_rows = offsets.shape[0] - 1
    row_base = np.arange(n_rows, dtype=np.int64) * (n_items + 1)
    lengths = np.diff(offsets)
    # Within row j: p_j - j, which never decreases and never exceeds n_items - length. Adding the
    # row's base makes one ascending array of all rows, so one search serves them all.
    keys = seen - np.arange(seen.shape[0], dtype=np.int64)
    keys += np.repeat(row_base + offsets[:-1], lengths)
    before = np.searchsorted(keys, r + row_base[:, None], side="right")
    return np.asarray(r + before - offsets[:-1, None], np.int64)


def duplicate_mask(candidates: Ints, held_out: Ints, *, threads: int = 1) -> npt.NDArray[np.bool_]:
    """True where a slot counts: no copy of the held-out item, no repeat of an earlier slot.

    Args:
        candidates: [n_test, n].
        held_out: [n_test].
        threads: how many chunks are worked on at a time.
    """
    mask = np.empty(candidates.shape, np.bool_)

    def fill(rows: slice) -> None:
        part = candidates[rows]
        mask[rows] = ~_repeats(part) & (part != held_out[rows, None])

    for _ in in_order(fill, _chunks(*candidates.shape), threads):
        pass
    return mask


def _rows_of(
    offsets: npt.NDArray[np.int64], items: Ints, users: Ints
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Items of the given users one after another, and where each user's begin."""
    starts = offsets[users]
    lengths = offsets[users.astype(np.int64) + 1] - starts
    new = np.zeros(users.shape[0] + 1, np.int64)
    np.cumsum(lengths, out=new[1:])
    if users.shape[0] and new[-1] == offsets[users[-1] + 1] - starts[0]:
        return items[starts[0] : starts[0] + new[-1]], new  # neighbours: no copy
    source = np.arange(new[-1]) + np.repeat(starts - new[:-1], lengths)
    return items[source], new


def _with_one_more(
    items: Ints, offsets: npt.NDArray[np.int64], extra: Ints, n_items: int
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Each row's ascending items with one more item merged in."""
    n_rows = extra.shape[0]
    base = np.arange(n_rows, dtype=np.int64) * n_items
    keys = items + np.repeat(base, np.diff(offsets))
    merged = np.insert(keys, np.searchsorted(keys, extra + base), extra + base)
    offsets = offsets + np.arange(n_rows + 1)
    merged -= np.repeat(base, np.diff(offsets))
    return merged, offsets


def _scaled(raw: npt.NDArray[np.uint64], bound: Ints) -> npt.NDArray[np.int64]:
    """Uniform integers in [0, bound) from 64 random bits each; the bias is below bound / 2**53."""
    unit = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    # Below bound even after rounding, as unit is at most 1 - 2**-53.
    return np.asarray(unit * bound, np.int64)


def _distinct(raw: npt.NDArray[np.uint64], room: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Distinct integers in [0, room) per row, each ordered selection equally likely.

    Rows with ample room redraw what repeats an earlier slot: every redraw succeeds with a chance
    of at least one half, and the rule treats all values alike, so no selection is favoured. Rows
    with little room take the first n of a random order of everything. Both read nothing but the
    row's own bits, so the result does not depend on its neighbours.
    """
    n = raw.shape[1]
    out = np.empty(raw.shape, np.int64)
    tight = room < 2 * n
    if tight.any():
        keys = np.concatenate([raw[tight], _next_bits(raw[tight])], axis=1)  # [rows, 2n]
        keys >>= np.uint64(1)
        keys[np.arange(2 * n) >= room[tight, None]] = np.uint64(2**64 - 1)
        out[tight] = np.argsort(keys, axis=1, kind="stable")[:, :n]
    rows = np.flatnonzero(~tight)
    bits = raw[rows]
    values = _scaled(bits, room[rows, None])
    todo = np.arange(rows.shape[0])
    while todo.size:
        repeated = _repeats(values[todo])
        again = repeated.any(axis=1)
        todo, repeated = todo[again], repeated[again]
        row, slot = np.nonzero(repeated)
        row = todo[row]
        bits[row, slot] = _next_bits(bits[row, slot])
        values[row, slot] = _scaled(bits[row, slot], room[rows[row]])
    out[rows] = values
    return out


def _repeats(values: Ints) -> npt.NDArray[np.bool_]:
    """True where a value has occurred in an earlier slot of its row; [rows, n], values >= 0."""
    n = values.shape[1]
    slot_bits = max(1, (n - 1).bit_length())
    highest = int(values.max(initial=0))
    dtype = np.int32 if (highest + 1) << slot_bits <= 2**31 else np.int64
    keys = values.astype(dtype) << dtype(slot_bits)
    keys |= np.arange(n, dtype=dtype)
    keys.sort(axis=1)
    equal = (keys[:, 1:] >> dtype(slot_bits)) == (keys[:, :-1] >> dtype(slot_bits))
    repeated = np.zeros(values.shape, np.bool_)
    row, place = np.nonzero(equal)
    repeated[row, keys[row, place + 1] & dtype((1 << slot_bits) - 1)] = True
    return repeated


def _next_bits(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """64 further random bits of each slot: one step of SplitMix64 (Steele et al., 2014)."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)
