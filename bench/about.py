"""Machine, data, versions and dates of the runs, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import units
from bench.labels import plain
from bench.side_by_side import gpus_text

if TYPE_CHECKING:
    from bench.grid import Block
    from bench.group import Machine
    from bench.suite import Suite


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


def about(suite: Suite, block: Block, first: Block) -> tuple[str, ...]:
    """Machine, data, versions, options and sample size, a line each."""
    good = sum(len(set(tally.good) & set(tally.planned)) for tally in block.tallies)
    planned = sum(len(tally.planned) for tally in block.tallies)
    failed = sum(len(tally.failed) for tally in block.tallies)
    trains = not block.runs or any(run.epochs for run in block.runs)
    lines = []
    if block.machine is not None:
        lines.append(f"**Machine**: {machine_text(block.machine)}")
    if block.condition is not None:
        data, k = block.condition.dataset, block.condition.topk
        line = (
            f"**Data**: {data.name} (hash `{data.hash}`): {units.count(data.users)} users, "
            f"{units.count(data.items)} items"
        )
        if trains:  # inference needs the sizes alone
            line += (
                f", {units.count(data.train_interactions)} training interactions; HR@{k} over "
                f"{units.count(data.test_users)} test users, protocol `{data.protocol}`, 1 + "
                f"{data.candidates_per_user} candidates ({data.effective_candidates_mean:.1f} of "
                "them effective on average)"
            )
        lines.append(line)
    lines.append(f"**Versions**: {_versions(block)}")
    options = ", ".join(f"{name} {_value(value)}" for name, value in suite.train.items())
    name = "Training" if trains else "Options"
    lines.append(f"**{name}**: {options or 'defaults'}; everything else at its default")
    runs = f"{good} good of {planned} planned ({len(block.tallies)} cells), {failed} failed"
    if block.span is not None:
        runs += f"; made {_span_text(block.span)} UTC"
    lines.append(f"**Runs**: {runs}; every one is in [records](records)")
    if block is not first:
        lines.append(f"**Differs from condition 1 in**: {'; '.join(_differing(first, block))}")
    return tuple(lines)


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


def _value(value: object) -> str:
    return units.count(value) if type(value) is int else plain(value)
