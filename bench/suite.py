"""A suite: the grid that a TOML file spans, and the order in which its runs are made. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.options import Value
    from ncf.record import Dataset

SOURCES = ("ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m")
PRESETS = ("tiny", "100k", "1m", "20m")


@dataclass(frozen=True)
class DataSpec:
    """What a suite trains on: a synthetic preset, or a named public set (`source`)."""

    synthetic: str | None = None
    source: str | None = None
    seed: int = 1

    @property
    def name(self) -> str:
        """`ml-100k`, or `synthetic 100k`."""
        return self.source or f"synthetic {self.synthetic}"


@dataclass(frozen=True)
class Suite:
    """A validated suite. `train` holds the options that are the same in every cell."""

    name: str
    title: str
    description: str
    data: DataSpec
    train: Mapping[str, Value]
    axes: Mapping[str, tuple[Value, ...]]
    seeds: tuple[int, ...]
    timeout_s: float
    order_seed: int
    published_systems: tuple[str, ...]
    margin_hr: float | None


@dataclass(frozen=True)
class Cell:
    """One point of the grid. The key names it: readable axes, and a hash of all that matters."""

    axes: Mapping[str, Value] = field(compare=False)
    options: Mapping[str, Value] = field(compare=False)
    key: str

    @property
    def ranks(self) -> int:
        """Number of trainer processes."""
        ranks = self.axes.get("ranks", 1)
        assert isinstance(ranks, int)
        return ranks

    @property
    def precision(self) -> str:
        """fp32, tf32 or amp."""
        return str(self.trainer_options.get("precision", "fp32"))

    @property
    def trainer_options(self) -> dict[str, Value]:
        """Everything the trainer is told: fixed options, then the axes, without ranks."""
        return {**self.options, **{k: v for k, v in self.axes.items() if k != "ranks"}}

    @property
    def label(self) -> str:
        """The readable part of the key, for people."""
        return self.key.rpartition("-")[0]


@dataclass(frozen=True)
class DataIdentity:
    """The data really used: hashes of the interactions and of the evaluation candidates."""

    hash: str
    candidates_hash: str

    def differs(self, dataset: Dataset, cell: Cell) -> str | None:
        """How a run's data differ from these, or None. Runs on different data are never pooled."""
        if dataset.hash != self.hash:
            return f"trained on data {dataset.hash} instead of {self.hash}"
        own_candidates = {"protocol", "valid_negative"} & set(cell.trainer_options)
        if dataset.candidates_hash != self.candidates_hash and not own_candidates:
            return f"candidates {dataset.candidates_hash} instead of {self.candidates_hash}"
        return None


def cells(suite: Suite) -> tuple[Cell, ...]:
    """Every cell of the suite, the first axis slowest."""
    return tuple(
        make_cell(dict(zip(suite.axes, values, strict=True)), suite.train, suite.data)
        for values in itertools.product(*suite.axes.values())
    )


def make_cell(axes: Mapping[str, Value], options: Mapping[str, Value], data: DataSpec) -> Cell:
    """A cell with its key; another option, axis value or data set makes another key.

    The order in which a file lists axes and options does not matter.
    """
    names = sorted(axes, key=lambda name: (_LEADING.get(name, len(_LEADING)), name))
    readable = ",".join(f"{name}={_plain(axes[name])}" for name in names) or "all"
    spec = {"synthetic": data.synthetic, "source": data.source, "seed": data.seed}
    identity = json.dumps(
        {"axes": dict(axes), "options": dict(options), "data": spec},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return Cell(axes=axes, options=options, key=f"{readable[:120]}-{digest}")


_LEADING = {"ranks": 0, "precision": 1}


def _plain(value: Value) -> str:
    """A value in characters that any file system takes."""
    text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text)


def ordered(
    suite: Suite, chosen: Sequence[Cell], seeds: Sequence[int]
) -> tuple[tuple[Cell, int], ...]:
    """All runs of the chosen cells in blocks: every cell once per seed, shuffled within the block.

    A machine that slows down over the night then slows every cell alike. The order depends on the
    suite alone, so a resumed sweep goes on where the first one would have.
    """
    grid, wanted = cells(suite), set(chosen)
    runs: list[tuple[Cell, int]] = []
    for seed in suite.seeds:
        block = list(grid)
        random.Random(f"{suite.order_seed}/{seed}").shuffle(block)
        runs += [(cell, seed) for cell in block if cell in wanted and seed in seeds]
    return tuple(runs)
