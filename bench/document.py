"""The report of a suite as Markdown. Pure: grouped records, published figures and paths in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import units
from bench.labels import axes_text, plain, precision_label
from bench.measures import BEST_HR
from bench.published import SOURCES, distinct, is_inverted, select
from bench.side_by_side import aggregation, differences, gpus_text, orientation, side_by_side
from bench.stats import Missing
from bench.tables import (
    accuracy,
    convergence,
    incomplete,
    markdown,
    throughput,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.grid import Block
    from bench.group import Grouped, Machine
    from bench.published import Figure
    from bench.store import Attempt
    from bench.suite import Suite


@dataclass(frozen=True)
class Image:
    """A picture to link: caption, and the paths of both forms relative to the report."""

    caption: str
    png: str
    svg: str


NOTATION = (
    "Numbers are medians over runs, one run per seed. `[a to b]`: 95 % interval of the median "
    "(order statistics, from 6 runs on); `(a to b)`: smallest and largest run; `n`: runs behind "
    "the number; `n/a`: there is no such number, with the reason."
)
METHOD = """\
- **Throughput**: samples of the timed steps / seconds of the same steps. Samples are those of all \
ranks together, without padding; seconds are those of the slowest rank. Warm-up steps (tracing, \
compilation) and evaluation are in neither.
- **HR@{k}**: share of test users whose held-out item is among the {k} best scored of its \
candidates (the held-out item and the sampled ones). A candidate with the same score counts as \
better (ties lose), so a constant model scores 0. *Popularity* ranks candidates by their number of \
training interactions, *chance* at random.
- **Best HR@{k}** is the highest over the epochs of a run; **time to best** is training plus \
evaluation up to the end of that epoch, compilation included, data and library start-up excluded.
- **Speed-up** is mixed / full precision, above 1 where mixed precision is faster. **Strong \
scaling** is throughput / throughput with 1 rank at the same global batch. Both divide medians; \
their intervals combine those of the two medians on the log scale, their extremes are those over \
all pairs of runs.
- Only runs with the same machine, data, candidates and versions enter one number."""


def document(
    suite: Suite,
    grouped: Grouped,
    figures: Sequence[Figure],
    unreadable: Sequence[tuple[str, str]],
    images: Mapping[int, Sequence[Image]],
) -> str:
    """The whole report.

    Args:
        suite: what was planned.
        grouped: what the stored records say.
        figures: the published figures.
        unreadable: records that could not be read, path and reason.
        images: pictures by index of the block.
    """
    parts = [f"# {suite.title}"]
    if suite.description:
        parts.append(suite.description)
    several = len(grouped.blocks) > 1
    if several:
        parts.append(
            f"> The runs were made under {len(grouped.blocks)} different conditions (machine, "
            "data or versions). They are never pooled: each has its own tables, the newest first."
        )
    for index, block in enumerate(grouped.blocks):
        if several:
            parts.append(f"# Condition {index + 1} of {len(grouped.blocks)}")
        parts.append(_about(suite, block, grouped.blocks[0]))
        if index == 0:
            parts.append(NOTATION)
        parts += _measured(block) if block.runs else ["There is no good run yet."]
        parts += _missing(block)
        parts += _pictures(images.get(index, ()))
    if several:
        parts.append("# All conditions")
    parts += _outside(grouped.strays, unreadable)
    parts += _published(suite, grouped.blocks, figures)
    k = next((b.condition.topk for b in grouped.blocks if b.condition is not None), 10)
    parts += ["## How the numbers are made", METHOD.format(k=k)]
    return "\n\n".join(parts) + "\n"


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
    return ", ".join(parts)


def dates_text(span: tuple[str, str]) -> str:
    """The days of the runs, for captions: "2026-11-30" or "2026-11-30 to 2026-12-01"."""
    first, last = (moment[:10] for moment in span)
    return first if first == last else f"{first} to {last}"


def _about(suite: Suite, block: Block, first: Block) -> str:
    good = sum(len(set(tally.good) & set(tally.planned)) for tally in block.tallies)
    planned = sum(len(tally.planned) for tally in block.tallies)
    failed = sum(len(tally.failed) for tally in block.tallies)
    lines = []
    if block.machine is not None:
        lines.append(f"**Machine**: {machine_text(block.machine)}")
    if block.condition is not None:
        data, k = block.condition.dataset, block.condition.topk
        lines.append(
            f"**Data**: {data.name} (hash `{data.hash}`): {units.count(data.users)} users, "
            f"{units.count(data.items)} items, {units.count(data.train_interactions)} training "
            f"interactions; HR@{k} over {units.count(data.test_users)} test users, protocol "
            f"`{data.protocol}`, 1 + {data.candidates_per_user} candidates "
            f"({data.effective_candidates_mean:.1f} of them effective on average)"
        )
    lines.append(f"**Versions**: {_versions(block)}")
    options = ", ".join(f"{name} {_value(value)}" for name, value in suite.train.items())
    lines.append(f"**Training**: {options or 'defaults'}; everything else at its default")
    runs = f"{good} good of {planned} planned ({len(block.tallies)} cells), {failed} failed"
    if block.span is not None:
        runs += f"; made {_span_text(block.span)} UTC"
    lines.append(f"**Runs**: {runs}; every one is in [records](records)")
    if block is not first:
        lines.append(f"**Differs from condition 1 in**: {'; '.join(_differing(first, block))}")
    return "\n".join(f"- {line}" for line in lines)


def _span_text(span: tuple[str, str]) -> str:
    """Start and end to the minute, the day named once if it is one day."""
    start, end = (moment.replace("T", " ")[:16] for moment in span)
    return f"{start} to {end[11:] if end[:10] == start[:10] else end}"


def _differing(first: Block, other: Block) -> list[str]:
    """Why two blocks are two."""
    found = []
    if first.machine != other.machine:
        texts = {machine_text(block.machine) for block in (first, other) if block.machine}
        found.append("machine" if len(texts) > 1 else "machine (another one of the same kind)")
    a, b = first.condition, other.condition
    if a is None or b is None:
        return [*found, "no good run"]
    if a.dataset.hash != b.dataset.hash:
        found.append("data")
    elif (a.dataset, a.topk) != (b.dataset, b.topk):
        found.append("candidates or protocol")
    ours, theirs = dict(a.versions), dict(b.versions)
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if names:
        found.append(f"versions ({', '.join(names)})")
    return found


def _versions(block: Block) -> str:
    """Every version that occurs; Horovod's only where it was used."""
    found: dict[str, set[str]] = {}
    for run in block.runs:
        for name, version in run.versions.items():
            if version != "not used":
                found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(v))}" for name, v in found.items()) or "unknown"


def _measured(block: Block) -> list[str]:
    assert block.condition is not None
    k, data = block.condition.topk, block.condition.dataset
    parts = [
        "## Training accuracy",
        (
            f"Best HR@{k} per run. The last rows are what ranking by popularity and by chance "
            "reach on the same candidates."
        ),
        markdown(accuracy(block)),
    ]
    low = [
        f"{precision_label(block, pool.tally.cell.precision)} ({axes_text(pool.tally.cell.axes)})"
        for pool in block.pools
        if not isinstance(hr := pool.summary(BEST_HR), Missing)
        and hr.median <= data.popularity_hr_at_k
    ]
    if low:
        parts.append(f"> Not better than popularity: {'; '.join(low)}.")
    parts += [markdown(convergence(block)), "## Training throughput", markdown(throughput(block))]
    machine = block.condition.machine
    if not machine.gpus and any(row.ranks > 1 for row in block.rows):
        parts.append(
            f"All ranks share the {machine.cores} cores of one machine: strong scaling shows how "
            "well they divide them, not what more hardware would bring."
        )
    return parts


def _missing(block: Block) -> list[str]:
    table = incomplete(block.tallies)
    heading = "## Failed, missing and unavailable runs"
    if table is None:
        return [heading, "None: every planned run is there and no attempt failed."]
    return [heading, markdown(table)]


def _outside(strays: Sequence[Attempt], unreadable: Sequence[tuple[str, str]]) -> list[str]:
    parts = []
    if strays:
        keys = ", ".join(f"`{key}`" for key in sorted({attempt.cell.key for attempt in strays}))
        parts.append(
            f"{len(strays)} stored attempts belong to cells that the suite does not have (any "
            f"more) and enter no number: {keys}."
        )
    if unreadable:
        lines = "\n".join(f"- `{path}`: {reason}" for path, reason in unreadable)
        parts.append(f"Records that could not be read, and enter no number:\n\n{lines}")
    return ["## Records left out", *parts] if parts else []


def _pictures(images: Sequence[Image]) -> list[str]:
    lines = [f"![{one.caption}]({one.png})\n\n*{one.caption}* ([SVG]({one.svg}))" for one in images]
    return ["## Pictures", *lines] if lines else []


def _published(suite: Suite, blocks: Sequence[Block], figures: Sequence[Figure]) -> list[str]:
    parts: list[str] = []
    for system in suite.published_systems:
        own = select(figures, system=system)
        if not own:
            parts.append(f"### {system}\n\nThere are no published figures of this system.")
        for source in distinct(own, "source"):
            parts += _published_part(system, source, blocks, select(own, source=source))
    return ["## Published figures", *parts] if parts else []


def _published_part(
    system: str, source: str, blocks: Sequence[Block], figures: Sequence[Figure]
) -> list[str]:
    tables = orientation(figures)
    if not tables:
        return []
    title = f"### {system}: {SOURCES.get(source, source)}"
    how = f"How the source makes one number of its runs: {aggregation(figures)}. Ours are medians."
    gaps = {index: differences(block, system) for index, block in enumerate(blocks)}
    same = [index for index, found in gaps.items() if not found]
    if same:
        beside = [markdown(side_by_side(blocks[index], figures)) for index in same]
        return [title, how, *beside]
    if is_inverted(figures):
        how += " The source prints its speed-ups inverted; here they stand upright."
    reasons = "; ".join(gaps[0])
    return [
        title,
        f"For orientation only, not comparable with the runs above: {reasons}. {how}",
        *(markdown(table) for table in tables),
    ]


def _value(value: object) -> str:
    return units.count(value) if type(value) is int else plain(value)
