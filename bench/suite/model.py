"""A suite: the grid that a TOML file spans, and the order in which its runs are made. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.errors import UserError
from bench.suite.trainer_options import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.suite.trainer_options import Value

SOURCES = ("ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m")
PRESETS = ("tiny", "100k", "1m", "20m", "20m-2m", "20m-500k")
ORDERS = ("blocks", "shuffled", "listed")
LAUNCHERS = ("auto", "horovodrun", "mpirun")
MEASURES = ("speed", "accuracy")
DEVICES = ("gpu", "cpu")
PRECISIONS = ("fp32", "tf32", "amp")
"""In the order in which tables show them."""


_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class HostList:
    """Hosts with their numbers of ranks, filled in this order; launchers read `a:8,b:8`."""

    slots: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """Ranks of all hosts together."""
        return sum(n for _, n in self.slots)

    @property
    def shape(self) -> str:
        """`8+8`: what a record stores; host names are private."""
        return "+".join(str(n) for _, n in self.slots)

    def most_on_one(self, ranks: int) -> int:
        """The most ranks on one host when `ranks` fill the list from its beginning."""
        most = 0
        for _, slots in self.slots:
            here = min(slots, ranks)
            most, ranks = max(most, here), ranks - here
        return most

    def __str__(self) -> str:
        """As the launchers take it."""
        return ",".join(f"{name}:{n}" for name, n in self.slots)

    @classmethod
    def parse(cls, text: str, where: str) -> HostList:
        """Read `name:slots`, separated by commas.

        Raises:
            UserError: a part is not `name:slots`, or a host is listed twice; `where` is the option
                or the place in a file.
        """
        slots: dict[str, int] = {}
        for part in text.split(","):
            name, _, n = part.strip().partition(":")
            if not n.isdecimal() or int(n) < 1 or not _HOST_NAME.fullmatch(name):
                raise UserError(
                    f"{where}: {part.strip()!r} is not a host with its number of ranks; "
                    "write hosts like a:8,b:8"
                )
            if name in slots:
                raise UserError(f"{where}: {name} is listed twice; write {name}:{n} once")
            slots[name] = int(n)
        return cls(tuple(slots.items()))


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
class Rule:
    """What is different in some cells: those whose axes have one of the values under `when`."""

    when: Mapping[str, tuple[Value, ...]]
    options: Mapping[str, Value] = field(default_factory=dict)
    timeout_s: float | None = None

    def matches(self, axes: Mapping[str, Value]) -> bool:
        """Whether a cell with these axes is meant."""
        return all(axes.get(name) in values for name, values in self.when.items())


@dataclass(frozen=True)
class Suite:
    """A validated suite.

    Attributes:
        train: options that are the same in every cell, unless one of `overrides` changes them.
        excludes: cells that the grid leaves out.
        overrides: options and time-outs of some cells; a later one wins.
        seeds: all seeds, in their order.
        seeds_by_precision: the seeds of one precision, where they are not all.
        order: of the runs; see `ordered`.
        retries: how often a failed run is tried again at the end of the same sweep.
        cooldown_s: pause between runs.
        launcher: "auto" starts one rank as a plain process and several with horovodrun;
            "horovodrun" and "mpirun" start every run with that program.
        hosts: where the ranks of runs with several run, if not here.
        command: of the trainer, "train" or "infer"; `train` holds its options.
        measures: "speed" never shares the machine among runs; "accuracy" may, one run a GPU.
        device: "gpu" or "cpu" if the suite makes sense on that only.
        telemetry_s: seconds between two readings; None for no telemetry.
        margin_speed: the relative loss of throughput that would matter.
        gate_metrics: what the gate decides on; see bench.analysis.metrics.
        gate_looks: runs a cell after which a sequential gate looks at them.
        without: flags of runs that the report leaves out (see bench.host.samples).
        compare: levels of axes whose speed and memory the report divides by a reference's.
        equivalence: levels of axes whose accuracy is tested against a reference's, beside the
            precisions.
    """

    name: str
    title: str
    data: DataSpec
    train: Mapping[str, Value]
    axes: Mapping[str, tuple[Value, ...]]
    seeds: tuple[int, ...]
    description: str = ""
    timeout_s: float = 3600.0
    order_seed: int = 1
    published_systems: tuple[str, ...] = ()
    margin_hr: Margin | None = None
    excludes: tuple[Rule, ...] = ()
    overrides: tuple[Rule, ...] = ()
    seeds_by_precision: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    order: str = "blocks"
    retries: int = 0
    max_failures: int | None = None
    cooldown_s: float = 0.0
    launcher: str = "auto"
    hosts: HostList | None = None
    measures: str = "speed"
    command: str = "train"
    device: str | None = None
    telemetry_s: float | None = 1.0
    margin_speed: float | None = None
    gate_metrics: tuple[str, ...] = ()
    gate_looks: tuple[int, ...] = ()
    without: tuple[str, ...] = ()
    compare: tuple[Contrast, ...] = ()
    equivalence: tuple[Contrast, ...] = ()

    @property
    def fixed_margin(self) -> float | None:
        """The margin where the suite gives it as a number."""
        return None if isinstance(self.margin_hr, str) else self.margin_hr

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        """The seeds of one cell."""
        return self.seeds_by_precision.get(cell.precision, self.seeds)

    def timeout_of(self, cell: Cell) -> float:
        """Seconds that a run of a cell may take."""
        own = [rule.timeout_s for rule in self.overrides if rule.matches(cell.axes)]
        return next((seconds for seconds in reversed(own) if seconds), self.timeout_s)


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


def cells(suite: Suite) -> tuple[Cell, ...]:
    """Every cell of the suite, the first axis slowest, without those it excludes."""
    found = []
    for values in itertools.product(*suite.axes.values()):
        axes = dict(zip(suite.axes, values, strict=True))
        if any(rule.matches(axes) for rule in suite.excludes):
            continue
        options = dict(suite.train)
        for rule in suite.overrides:
            options |= rule.options if rule.matches(axes) else {}
        found.append(make_cell(axes, options, suite.data))
    return tuple(found)


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
    """All runs of the chosen cells, in the order in which they are made.

    "blocks": every cell once per seed, shuffled within the block, so that a machine which slows
    down over the night slows every cell alike. "shuffled": without blocks. "listed": cell by cell,
    as the file lists them. The order depends on the suite alone, so a resumed sweep goes on where
    the first one would have.
    """
    grid, wanted, asked = cells(suite), set(chosen), set(seeds)
    runs: list[tuple[Cell, int]] = []
    if suite.order == "listed":
        runs = [(cell, seed) for cell in grid for seed in suite.seeds]
    else:
        for seed in suite.seeds:
            block = list(grid)
            random.Random(f"{suite.order_seed}/{seed}").shuffle(block)
            runs += [(cell, seed) for cell in block]
    if suite.order == "shuffled":
        random.Random(suite.order_seed).shuffle(runs)
    of = {cell: set(suite.seeds_of(cell)) for cell in wanted}
    return tuple(
        (cell, seed) for cell, seed in runs if cell in wanted and seed in asked and seed in of[cell]
    )


SPREAD = "sd"
"""`margin_hr = "sd"`: the pooled standard deviation of the reference arms is the margin."""


Margin = float | str
"""A difference of HR that matters: a number, or SPREAD."""


@dataclass(frozen=True)
class Contrast:
    """Cells to be set against the reference: those that differ from it in these axes alone.

    `reference` holds a value for each of the axes that are compared; several axes are compared as
    one (one rank replicated, two ranks with sharded users).
    """

    reference: Mapping[str, Value]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are compared."""
        return tuple(self.reference)

    def is_reference(self, axes: Mapping[str, Value]) -> bool:
        """Whether a cell with these axes is one to compare with."""
        return all(axes.get(name) == value for name, value in self.reference.items())

    def others(self, axes: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
        """The axes that are not compared: cells must agree in them."""
        return tuple(sorted((k, v) for k, v in axes.items() if k not in self.reference))
