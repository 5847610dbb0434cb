"""The model of `scaling_model` against published figures, and what it predicts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.published.figures import SOURCES, distinct, parse_system, select
from bench.published.scaling_model import (
    ML_20M,
    Fit,
    Machine,
    NoFitError,
    Sizes,
    fit,
    held_bytes,
    step,
)
from bench.render import units
from bench.render.model import Heading, Table, Tabled, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.published.figures import Figure
    from bench.published.scaling_model import Parallel
    from bench.render.model import Node

BATCH = 1 << 20
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MEMORY_BYTES_S = {"A100": 1555e9, "V100": 900e9}
"""Peak of the 40 GB A100 and of the V100 (NVIDIA's data sheets)."""
MEMORY_SHARE = 0.8
PASSES = 3
"""Launches of a training step against inference: forward, and backward for two operands."""


@dataclass(frozen=True)
class Known:
    """One fitted series: published throughputs by GPUs, and what became of them."""

    source: str
    system: str
    precision: str
    rates: dict[int, float]
    few: int
    machine: Machine
    found: Fit

    @property
    def checks(self) -> tuple[int, ...]:
        """Published numbers of GPUs that were not fitted on."""
        return tuple(n for n in self.rates if n not in (1, self.few))

    def rate(self, ranks: int, parallel: Parallel = "replicated", batch: int = BATCH) -> float:
        """Samples/s by the model."""
        made = step(self.found, self.machine, ML_20M, ranks, batch, parallel)
        return batch / made.seconds

    def error(self, ranks: int) -> float:
        """The model's throughput against the published one, less 1."""
        return self.rate(ranks) / self.rates[ranks] - 1

    @property
    def label(self) -> str:
        """`A100, TF32`."""
        parsed = parse_system(self.system)
        return f"{parsed[1] if parsed else self.system}, {self.precision.upper()}"


def known(figures: Sequence[Figure]) -> list[Known]:
    """Every published series that has 1 GPU, a few and more, fitted."""
    series = []
    trained = select(figures, metric="train_throughput")
    for source in distinct(trained, "source"):
        for system in distinct(select(trained, source=source), "system"):
            own = select(trained, source=source, system=system)
            for precision in distinct(own, "precision"):
                found = select(own, precision=precision)
                rates = {
                    f.gpus: f.value for f in sorted(found, key=lambda f: f.gpus or 0) if f.gpus
                }
                made = _fitted(figures, source, system, precision, rates)
                if made:
                    series.append(made)
    return series


def _fitted(
    figures: Sequence[Figure], source: str, system: str, precision: str, rates: dict[int, float]
) -> Known | None:
    machine = given(figures, system, precision)
    counts = sorted(rates)
    if machine is None or len(counts) < 3 or counts[0] != 1:
        return None
    few = 4 if 4 in rates else counts[1]
    try:
        return Known(
            source, system, precision, rates, few, machine, fit(rates, few, BATCH, ML_20M, machine)
        )
    except NoFitError:
        return None


def given(figures: Sequence[Figure], system: str, precision: str) -> Machine | None:
    """Memory and launches of a system's GPU; None where nothing is published about it.

    The launches are taken from the published latency of the smallest inference batch, which is
    nothing else.
    """
    parsed = parse_system(system)
    if parsed is None or parsed[1] not in MEMORY_BYTES_S:
        return None
    latencies = [
        figure.value
        for figure in select(figures, metric="latency_mean", precision=precision)
        if (other := parse_system(figure.system)) and other[1] == parsed[1] and figure.batch_per_gpu
    ]
    if not latencies:
        return None
    return Machine(
        memory_bytes_s=MEMORY_SHARE * MEMORY_BYTES_S[parsed[1]],
        launch_s=PASSES * min(latencies),
        gpus_per_host=parsed[0],
    )


def document(series: Sequence[Known], system: str) -> list[Node]:
    """The whole page: the fits and their errors, then predictions for one system's series."""
    nodes: list[Node] = [
        Heading(1, "More GPUs: a model of the step"),
        Text(
            "Compute of a sample and speed of the all-reduce are fitted on the published "
            "throughputs of 1 GPU and a few; the error is at the rows that were left out. "
            "docs/scaling.md has the assumptions. Nothing here was measured by us."
        ),
        Heading(2, "Fit and check"),
        Tabled("fit", "Fit and check", fits(series)),
    ]
    for one in series:
        if one.system == system:
            source = SOURCES.get(one.source, one.source)
            nodes.append(Heading(2, f"Predicted: {system}, {one.precision.upper()}"))
            nodes.append(Text(f"From the figures of {source}."))
            for name, title, table in (
                ("strong", "Strong scaling: global batch 1,048,576", strong(one)),
                ("weak", "Weak scaling: 1,048,576 samples per GPU", weak(one)),
            ):
                nodes += [Heading(3, title), Tabled(name, f"{title}; {one.label}", table, source)]
    return nodes


def fits(series: Sequence[Known]) -> Table:
    """Fitted numbers, and the error at every published row that was not fitted on."""
    rows = [_fit_row(one, ranks) for one in series for ranks in one.checks]
    words = ("Source", "System", "Precision")
    numbers = ("Fitted on GPUs", "Compute (ns/sample)", "All-reduce (GB/s)", "Checked on GPUs")
    checked = ("Published (samples/s)", "Model (samples/s)", "Error")
    return Table((*words, *numbers, *checked), tuple(rows), words)


def _fit_row(one: Known, ranks: int) -> tuple[str, ...]:
    return (
        one.source.removeprefix("nvidia-"),
        one.system,
        one.precision.upper(),
        f"1, {one.few}",
        units.significant(1e9 * one.found.sample_s, 3),
        units.significant(1e-9 * one.found.ring_bytes_s, 3),
        str(ranks),
        units.millions(one.rates[ranks]),
        units.millions(one.rate(ranks)),
        f"{100 * one.error(ranks):+.1f} %",
    )


def strong(one: Known) -> Table:
    """Throughput and efficiency at the same global batch."""
    return _predicted(one, [(ranks, BATCH) for ranks in RANKS])


def weak(one: Known) -> Table:
    """Throughput and efficiency at the same batch per GPU."""
    return _predicted(one, [(ranks, BATCH * ranks) for ranks in RANKS])


def _predicted(one: Known, points: Sequence[tuple[int, int]]) -> Table:
    rows = []
    alone = one.rate(1)
    for ranks, batch in points:
        both = [one.rate(ranks, kind, batch) for kind in ("replicated", "user-sharded")]
        parts = [
            step(one.found, one.machine, ML_20M, ranks, batch, kind)
            for kind in ("replicated", "user-sharded")
        ]
        row = [str(ranks)]
        for rate, part in zip(both, parts, strict=True):
            row += [units.compact(rate), units.percent(rate / alone / ranks)]
            row.append(units.percent(part.reduce / part.seconds))
        rows.append((*row, units.ratio(both[1] / both[0])))
    headers = ["GPUs"]
    for kind in ("Replicated", "User-sharded"):
        headers += [f"{kind} (samples/s)", f"{kind}: efficiency", f"{kind}: in all-reduce"]
    return Table((*headers, "User-sharded / replicated"), tuple(rows))


def layout(cases: Sequence[tuple[str, Sizes, int]]) -> Table:
    """Memory per GPU for parameters, moments and gradients, and bytes to reduce in a step."""
    rows = []
    for name, sizes, ranks in cases:
        dense = sizes.shared_parameters * 4
        rows.append(
            (
                name,
                str(ranks),
                units.size(held_bytes(sizes, 1)),
                units.size(held_bytes(sizes, ranks)),
                units.size(held_bytes(sizes, ranks, items_sharded=True)),
                units.size(dense),
            )
        )
    sharded = ("Users sharded, per GPU", "Users and items sharded, per GPU")
    headers = ("Catalogue", "GPUs", "Replicated, per GPU", *sharded, "Shared gradients, dense")
    return Table(headers, tuple(rows), headers[:1])


CASES = (
    ("MovieLens 20M", ML_20M, 8),
    ("10 M users, 1 M items", Sizes(10_000_000, 1_000_000), 8),
    ("100 M users, 10 M items", Sizes(100_000_000, 10_000_000), 64),
    ("1,000 M users, 10 M items", Sizes(1_000_000_000, 10_000_000), 64),
    ("1,000 M users, 10 M items", Sizes(1_000_000_000, 10_000_000), 512),
)
"""Catalogues of docs/scaling.md."""
