"""Expanded data: a randomised Kronecker product of a data set with a small picture of itself.

In the spirit of MLPerf's fractal expansion (Belletti et al., "Scalable Realistic Recommendation
Datasets through Fractal Expansions", 2019).

User (a, u) and item (b, i) copy user u and item i of the base. An interaction of u with i is
copied into block (a, b) with probability w[a, b], where w is the base's own density between
groups of users by activity and groups of items by popularity: the tails of the large data
resemble those of the small. In each user's densest block everything is kept, so that nobody falls
below the base's smallest history.

Work goes by ranges of new users; a range needs only the base and its own numbers. The result is
streamed to disk, so memory follows the base and not the expanded data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ncf import metrics
from ncf.data import candidates, dataset, manifest, writer
from ncf.readers.ids import Ids
from ncf.runtime.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ncf.data.candidates import Drawing
    from ncf.data.manifest import SplitData
    from ncf.data.progress import Stages
    from ncf.data.split import Split

Ints = npt.NDArray[np.int64]

_CHUNK_ROWS: Final = 1 << 15  # base rows copied at a time; part of what a seed means
_STREAM: Final = 0x6672
_TOPK: Final = 10


@dataclass(frozen=True)
class Block:
    """Some neighbouring new users: training items [sum(lengths)] by user, one held out each."""

    first_user: int
    lengths: Ints
    items: npt.NDArray[np.int32]
    held_out: npt.NDArray[np.int32]


class Range(NamedTuple):
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
    items_of_range = np.asarray(base.train_items[bounds[0] : bounds[-1]], np.int64)
    n_users, n_blocks = part.last - part.first, picture.shape[1]
    width = base.n_items * n_blocks
    base_keys = np.repeat(np.arange(n_users, dtype=np.int64) * width, np.diff(bounds))
    base_keys += items_of_range
    kept = []
    for number, chance in enumerate(picture[part.copy]):
        keys = base_keys
        if chance < 1.0:
            keys = base_keys[rng.random(len(base_keys), np.float32) < np.float32(chance)]
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


def write(
    folder: Path,
    data: SplitData,
    copies: tuple[int, int],
    drawing: Drawing,
    stages: Stages,
    *,
    force: bool,
) -> dataset.Data:
    """Expand a split and write it as a data folder.

    Args:
        folder: the folder to write.
        data: the base, in which every user has a test row; name and source are those of the result.
        copies: how many times as many users and items.
        drawing: how candidates are drawn; its seed is the expansion's too.
        stages: reports progress, and gets the stage `expand`.
        force: replace an existing data folder.

    Raises:
        ValueError: the base cannot be expanded so, or users lack items to draw from.
    """
    base = data.split
    picture = weights(base, *copies)
    n_users, n_items = base.n_users * copies[0], base.n_items * copies[1]
    popularity = np.zeros(n_items, np.int64)
    lengths, effective, short_users = [np.zeros(1, np.int64)], [], 0

    def expand(part: Range) -> tuple[Block, Any, Any, int]:
        made = block(base, picture, drawing.seed or 0, part)
        return made, *_candidates(made, drawing, n_items)

    with writer.building(folder, force=force) as built:
        with (
            writer.ArrayFile(built / "train_items.npy", "int32") as train,
            writer.ArrayFile(built / "test_items.npy", "int32") as test,
            writer.ArrayFile(built / "candidates.npy", "int32", drawing.per_user) as table,
        ):
            parts = ranges(base, copies[0])
            for made, drawn, counts, short in in_order(expand, parts, drawing.threads):
                train.append(made.items)
                test.append(made.held_out)
                table.append(drawn)
                lengths.append(made.lengths)
                np.add.at(popularity, made.items, 1)
                effective.append(counts)
                short_users += short
                stages.progress(f"wrote {train.rows:,} interactions")
        offsets = np.cumsum(np.concatenate(lengths))
        np.save(built / "train_offsets.npy", offsets)
        np.save(built / "test_users.npy", np.arange(n_users, dtype=np.int32))
        for kind, count in (("user", n_users), ("item", n_items)):
            ids = Ids.numbered(count)
            np.save(built / f"{kind}_ids.npy", ids.text)
            np.save(built / f"{kind}_id_offsets.npy", ids.offsets)
        counted = np.concatenate(effective)
        facts = manifest.Facts(
            n_items=n_items,
            history=np.diff(offsets) + 1,
            effective=counted,
            short_users=short_users,
            items_only_in_test=int(np.count_nonzero(popularity == 0)),
            hr_at_10={
                "chance": metrics.chance_hr(counted, _TOPK),
                "popularity": _popularity_hr(built, popularity),
            },
        )
        stages.done("expand", f"expanded {copies[0]}x{copies[1]}")
        described = {"users": base.n_users, "items": base.n_items, "copies": list(copies)}
        about = manifest.describe(data, drawing, facts, stages.cost(), described)
        writer.write_manifest(built, about, drawing.threads)
    return dataset.load(folder)


def _candidates(made: Block, drawing: Drawing, n_items: int) -> tuple[Any, Any, int]:
    """Candidates of a block's users, how many of each count, and users short of items."""
    offsets = np.zeros(len(made.lengths) + 1, np.int64)
    np.cumsum(made.lengths, out=offsets[1:])
    users = np.arange(len(made.lengths), dtype=np.int32)
    history = candidates.History(offsets, made.items, users, made.held_out, n_items)
    alone = replace(drawing, threads=1)  # the blocks are what the threads work on
    drawn = candidates.draw(history, alone, first_row=made.first_user)
    effective = candidates.duplicate_mask(drawn, made.held_out).sum(axis=1)
    return drawn, effective, len(candidates.short_rows(history, drawing))


def _popularity_hr(built: Path, popularity: Ints) -> float:
    """HR@10 of popularity, over blocks of the candidates just written."""
    total = metrics.Totals()
    held_out = np.load(built / "test_items.npy")
    row = 0
    for drawn in writer.blocks(built / "candidates.npy"):
        items = held_out[row : row + len(drawn)]
        row += len(drawn)
        counts = candidates.duplicate_mask(drawn, items)
        total = total.merge(metrics.item_score_totals(popularity, items, drawn, counts, _TOPK))
    return total.hr
