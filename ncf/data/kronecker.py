"""Streaming an expanded data set to disk: memory follows the base, not what is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ncf import metrics
from ncf.data import candidates, dataset, expand
from ncf.data import writer as writing
from ncf.data.assemble import TOPK, candidate_facts, dropped, history_facts, split_facts
from ncf.readers.ids import Ids
from ncf.runtime.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from ncf.data.assemble import Drawing
    from ncf.data.split import Split

_ID_KINDS: Final = ("user", "item")


class Totals:
    """What is summed up while blocks pass."""

    def __init__(self, n_items: int) -> None:
        self.popularity = np.zeros(n_items, np.int64)
        self.effective: list[npt.NDArray[np.int64]] = []
        self.short_users = 0


def write(
    folder: Path,
    base: Split,
    user_ids: Ids,
    copies: tuple[int, int],
    seed: int,
    drawing: Drawing,
    about: Mapping[str, Any],
    cost: Callable[[], Mapping[str, Any]],
    progress: Callable[[int], None],
    *,
    force: bool,
) -> dataset.Data:
    """Expand a split and write it as a data folder.

    Args:
        folder: where to.
        base: the split to copy; every user has a test row.
        user_ids: ids of the base's users, for its own summary.
        copies: how many times as many users and items.
        seed: seed of the expansion.
        drawing: how candidates are drawn.
        about: name and source.
        cost: gives seconds and memory, asked for when all but the hashes is done.
        progress: told how many interactions are written.
        force: replace an existing data folder.

    Raises:
        ValueError: the base cannot be expanded so, or users lack items to draw from.
    """
    picture = expand.weights(base, *copies)
    n_users, n_items = base.n_users * copies[0], base.n_items * copies[1]
    totals = Totals(n_items)
    with writing.building(folder, force=force) as built:
        offsets = _write_blocks(built, base, picture, seed, drawing, n_items, totals, progress)
        np.save(built / "train_offsets.npy", offsets)
        np.save(built / "test_users.npy", np.arange(n_users, dtype=np.int32))
        for kind, count in zip(_ID_KINDS, (n_users, n_items), strict=True):
            ids = Ids.numbered(count)
            np.save(built / f"{kind}_ids.npy", ids.text)
            np.save(built / f"{kind}_id_offsets.npy", ids.offsets)
        effective = np.concatenate(totals.effective)
        levels = {
            "chance": metrics.chance_hr(effective, TOPK),
            "popularity": _popularity_hr(built, totals.popularity),
        }
        summary = {
            "base": {"users": base.n_users, "items": base.n_items, "copies": list(copies)},
            **dropped(base, user_ids),
            **history_facts(np.diff(offsets) + 1, n_items),
            "items_only_in_test": int(np.count_nonzero(totals.popularity == 0)),
            **cost(),
        }
        facts = {
            **about,
            "split": split_facts(base),
            "summary": summary,
            "candidates": candidate_facts(drawing, effective, totals.short_users),
            "hr_at_10": levels,
        }
        writing.write_manifest(built, facts, drawing.threads)
    return dataset.load(folder)


def _write_blocks(
    built: Path,
    base: Split,
    picture: npt.NDArray[np.float64],
    seed: int,
    drawing: Drawing,
    n_items: int,
    totals: Totals,
    progress: Callable[[int], None],
) -> npt.NDArray[np.int64]:
    """Write training items, test items and candidates; returns the training offsets."""
    lengths = [np.zeros(1, np.int64)]

    def make(part: expand.Range) -> tuple[expand.Block, Any, Any, int]:
        block = expand.block(base, picture, seed, part)
        return block, *_drawn(block, drawing, n_items)

    with (
        writing.ArrayFile(built / "train_items.npy", "int32") as train,
        writing.ArrayFile(built / "test_items.npy", "int32") as test,
        writing.ArrayFile(built / "candidates.npy", "int32", drawing.per_user) as table,
    ):
        parts = expand.ranges(base, picture.shape[0])
        for block, drawn, effective, short in in_order(make, parts, drawing.threads):
            train.append(block.items)
            test.append(block.held_out)
            table.append(drawn)
            lengths.append(block.lengths)
            np.add.at(totals.popularity, block.items, 1)
            totals.effective.append(effective)
            totals.short_users += short
            progress(train.rows)
    return np.cumsum(np.concatenate(lengths))


def _drawn(block: expand.Block, drawing: Drawing, n_items: int) -> tuple[Any, Any, int]:
    """Candidates of a block's users, how many of each count, and users short of items."""
    offsets = np.zeros(len(block.lengths) + 1, np.int64)
    np.cumsum(block.lengths, out=offsets[1:])
    users = np.arange(len(block.lengths), dtype=np.int32)
    drawn = candidates.draw(
        drawing.protocol,
        drawing.per_user,
        drawing.seed,
        offsets,
        block.items,
        users,
        block.held_out,
        n_items,
        pad=drawing.pad,
        first_row=block.first_user,
    )
    room = candidates.admissible(offsets, users, n_items)
    short = np.count_nonzero(room < candidates.required(drawing.protocol, drawing.per_user))
    effective = candidates.duplicate_mask(drawn, block.held_out).sum(axis=1)
    return drawn, effective, int(short)


def _popularity_hr(built: Path, popularity: npt.NDArray[np.int64]) -> float:
    """HR@10 of popularity, over blocks of the candidates just written."""
    total = metrics.Totals()
    held_out = np.load(built / "test_items.npy")
    row = 0
    for drawn in _tables(built):
        own = held_out[row : row + len(drawn)]
        row += len(drawn)
        counts = candidates.duplicate_mask(drawn, own)
        part = metrics.item_score_totals(popularity, own, drawn, counts, TOPK)
        total = total.merge(part)
    return total.hr


def _tables(built: Path) -> Iterator[npt.NDArray[Any]]:
    yield from writing.blocks(built / "candidates.npy")
