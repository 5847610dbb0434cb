"""What rows, cells and sample sizes are called, in tables and pictures alike. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.records.identity import Machine, gpus_text
from bench.render import units
from bench.render.model import Sample

if TYPE_CHECKING:
    from bench.analysis.grid import Block, Row, Tally


def precision_label(block: Block, precision: str) -> str:
    """`FP32`, `TF32`, or `AMP` with the type it computed in."""
    runs = (run for row in block.rows for run in row.pools[precision].runs)
    types = sorted({run.precision.compute_dtype for run in runs})
    return f"AMP ({', '.join(types)})" if precision == "amp" and types else precision.upper()


def sample(n: int, tally: Tally) -> Sample | str:
    """The sample size and what is missing from it; words where the cell is not in the grid."""
    if tally.outside:
        return "not in the grid"
    planned = len(tally.planned)
    if tally.complete and n >= planned:
        return Sample(n)
    if tally.unavailable:
        return Sample(n, planned, tuple(tally.unresolved.items()), "not available")
    not_run = (("not run", tally.not_run),) if tally.not_run else ()
    return Sample(n, planned, (*tally.unresolved.items(), *not_run))


def counted(n: int, tally: Tally) -> str:
    """The same in words: "n=3", "n=7/20, 2 oom, 11 not run"."""
    size = sample(n, tally)
    return size if isinstance(size, str) else f"n={size}"


def axes_text(axes: Any) -> str:
    """The values of a cell's axes: "ranks 2, precision amp"."""
    return ", ".join(f"{name} {plain(value)}" for name, value in axes.items()) or "all"


def rest_names(block: Block) -> tuple[str, ...]:
    """Names of the axes beside ranks and precision; they get columns of their own."""
    return tuple(name for name, _ in block.rows[0].rest)


def word_names(block: Block) -> tuple[str, ...]:
    """Those of `rest_names` whose values are words: their columns are aligned as such."""
    values = (item for row in block.rows for item in row.rest)
    return tuple(dict.fromkeys(name for name, value in values if isinstance(value, str)))


def head(row: Row) -> tuple[str | int | float, ...]:
    """The first items of a line: ranks, then the other axes; numbers stay numbers."""
    return (row.ranks, *(item(value) for _, value in row.rest))


def item(value: Any) -> str | int | float:
    """A value of an axis in a table."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number else plain(value)


def plain(value: Any) -> str:
    """A value of an option: lists with dashes, as in 256-128."""
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)


def cell_name(block: Block, row: Row, precision: str) -> str:
    """`2 ranks, fast, FP32`; the ranks only where a block has several numbers of them."""
    words = [ranks_text(row)] if len({one.ranks for one in block.rows}) > 1 else []
    words += [value if isinstance(value, str) else f"{k} {plain(value)}" for k, value in row.rest]
    return ", ".join([*words, precision_label(block, precision)])


def ranks_text(row: Row) -> str:
    """`1 rank`, `2 ranks`."""
    return "1 rank" if row.ranks == 1 else f"{row.ranks} ranks"


def sizes_text(block: Block, row: Row) -> str:
    """Sample sizes of a row in the order of the legend: "n = 3" or "n = 3, 2 of 3"."""
    texts = []
    for precision in block.precisions:
        n, tally = len(row.pools[precision].runs), row.pools[precision].tally
        planned = len(tally.planned)
        text = str(n) if n >= planned else f"{n} of {planned}"
        texts.append("-" if tally.outside else text)
    return "n = " + (texts[0] if len(set(texts)) == 1 else ", ".join(texts))


def machine_text(machine: Machine) -> str:
    """The machine in one line: "Example CPU, 2 cores, 8 GiB memory, no GPU"."""
    parts = [machine.cpu_model]
    if machine.cores:
        parts.append(f"{machine.cores} cores")
    if machine.memory_gib:
        parts.append(f"{units.size(machine.memory_gib * 2**30)} memory")
    parts.append(gpus_text(machine))
    if machine.driver:
        parts.append(f"driver {machine.driver}")
    if machine.slots:
        hosts = machine.slots.count("+") + 1
        parts.append(f"the first of {hosts} hosts ({machine.slots} ranks)")
    return ", ".join(parts)


def dates_text(span: tuple[str, str]) -> str:
    """The days of the runs, for captions: "2026-11-30" or "2026-11-30 to 2026-12-01"."""
    first, last = (moment[:10] for moment in span)
    return first if first == last else f"{first} to {last}"


def one_line(block: Block) -> str:
    """Machine, data and date of a block, for tables that leave the report."""
    if block.condition is None or block.span is None:
        return ""
    data = block.condition.dataset.name
    return f"{machine_text(block.condition.machine)}; {data}; runs of {dates_text(block.span)}"
