"""Machine, data, versions and dates of the runs, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis.labels import machine_text, plain
from bench.render import units
from bench.stats.summary import FEWEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.analysis.grid import Block
    from bench.suite.model import Suite


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


TRAINING: tuple[str, ...] = (
    (
        "**Throughput**: samples of the timed steps / seconds of the same steps. Samples are those "
        "of all ranks together, without padding; seconds are those of the slowest rank. Warm-up "
        "steps (tracing, compilation) and evaluation are in neither."
    ),
    (
        "**HR@{k}**: share of test users whose held-out item is among the {k} best scored of its "
        "candidates (the held-out item and the sampled ones). A candidate with the same score "
        "counts as better (ties lose), so a constant model scores 0. *Popularity* ranks candidates "
        "by their number of training interactions, *chance* at random."
    ),
    (
        "**Best HR@{k}** is the highest over the epochs of a run; **time to best** is training "
        "plus evaluation up to the end of that epoch, compilation included, data and library "
        "start-up excluded."
    ),
    (
        "**Speed-up** is mixed / full precision, above 1 where mixed precision is faster. **Strong "
        "scaling** is throughput / throughput with 1 rank at the same global batch; the percentage "
        "is the efficiency, strong scaling / ranks. {spread}"
    ),
)


_FROM = ", ".join(f"p{q * 100:.0f} from {n} calls on" for q, n in FEWEST.items())


INFERENCE: tuple[str, ...] = (
    (
        "**Inference**: a call scores one batch of random (user, item) pairs and waits for the "
        "device; calls to warm up are left out. Samples/s are the pairs of all timed calls / "
        f"their seconds. Latencies are those of the calls of one run ({_FROM}); spreads are over "
        "runs."
    ),
    (
        "**Ranking**: a call scores every item of the catalogue for one block of users and keeps "
        "each user's top k; a score is one (user, item) pair."
    ),
)


POOLED = "Only runs with the same machine, data, candidates and versions enter one number."


_SPREADS = {
    "median": "Both divide medians; their intervals combine those of the two medians on the log "
    "scale, their extremes are those over all pairs of runs.",
    "mean": "Both divide means.",
    "best": "Both divide best runs.",
}


def items(parts: Iterable[tuple[str, ...]], k: int, aggregate: str) -> tuple[str, ...]:
    """The paragraphs of the given parts, filled in.

    Args:
        parts: TRAINING, INFERENCE or both.
        k: of HR@k.
        aggregate: how runs become one number, see Notation.
    """
    lines = [line for part in parts for line in part]
    spread = _SPREADS[aggregate]
    return tuple(line.format(k=k, spread=spread) for line in (*lines, POOLED))
