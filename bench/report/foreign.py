"""Runs of other programs beside ours, as part of a report. Pure: never pooled, never mixed."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from bench.analysis.metrics import BEST_HR, THROUGHPUT
from bench.foreign.run import PROGRAMS, best_hr, throughput, time_to_best
from bench.render import units
from bench.render.html import RunList
from bench.render.model import Estimate, Heading, Items, Sample, Table, Tabled, Text
from bench.stats.summary import Missing, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.analysis.metrics import Metric
    from bench.foreign.run import ForeignRun
    from bench.render.model import Item, Node
    from bench.stats.summary import Summary, Value

NAMES = {"amp": "AMP", "fp32": "FP32", "tf32": "TF32", None: "full (FP32 or TF32: not stated)"}


MODEL = ("factors", "layers", "negative_samples")
"""Options that make another model, or another amount of work per positive."""


def section(runs: Sequence[ForeignRun], block: Block, notation: Notation) -> list[Node]:
    """The part of the report on foreign runs; none without any.

    Args:
        runs: all of them.
        block: our newest runs, to stand beside.
        notation: how runs become one number.
    """
    groups = _groups(runs)
    if not groups:
        return []
    nodes: list[Node] = [
        Heading(2, f"Runs of other programs ({notation.name})"),
        Text(
            "Read from their logs by `bench ingest`, and never pooled with ours. What a log does "
            "not say is n/a; what was said when it was ingested is marked *stated*. Their "
            "throughput is over whole epochs, ours over the timed steps."
        ),
    ]
    for number, own in enumerate(groups, start=1):
        title = _title(groups, number)
        reasons = differences(own[0], block)
        nodes += [Heading(3, title), Items(_about(own, reasons))]
        table = partial(_table, own, number, block, notation, reasons)
        nodes.append(Tabled("foreign", f"{title}, {notation.name}", table, "", 1))
    return nodes


def run_lists(runs: Sequence[ForeignRun]) -> list[RunList]:
    """The runs behind every number of the section."""
    lists = []
    groups = _groups(runs)
    for number, own in enumerate(groups, start=1):
        for (ranks, name), found in _cells(own, unfinished=True).items():
            rows = tuple(
                (
                    run.file,
                    "" if run.seed is None else run.seed,
                    "finished" if run.finished else "cut",
                    _single(best_hr(run), _hit_rate),
                    _single(throughput(run), units.count),
                    run.started_at or "",
                    "record",
                )
                for run in found
            )
            headers = ("File", "Seed", "Log", "Best HR", "Samples/s", "Started (UTC)", "Record")
            table = Table(headers, rows, ("File", "Log", "Started (UTC)", "Record"))
            title = f"{_title(groups, number)}: ranks {ranks or 'not in the log'}, {name}"
            links = tuple(f"foreign/{run.digest[:16]}.json" for run in found)
            key = _key(number, ranks, name)
            lists.append(RunList(0, key, title, f"n={len(found)}", table, links))
    return lists


def _groups(runs: Sequence[ForeignRun]) -> list[list[ForeignRun]]:
    groups: dict[tuple[object, ...], list[ForeignRun]] = {}
    for run in runs:
        groups.setdefault(_condition(run), []).append(run)
    return list(groups.values())


def _title(groups: Sequence[Sequence[ForeignRun]], number: int) -> str:
    program = groups[number - 1][0].program
    name = PROGRAMS.get(program, program)
    return name if len(groups) == 1 else f"{name}, group {number}"


def _cells(
    runs: Sequence[ForeignRun], *, unfinished: bool = False
) -> dict[tuple[int, str], list[ForeignRun]]:
    """By ranks (0: not in the log) and precision; cut logs only on request."""
    cells: dict[tuple[int, str], list[ForeignRun]] = {}
    for run in runs:
        if run.finished or unfinished:
            cells.setdefault((run.world_size or 0, NAMES[run.precision]), []).append(run)
    return dict(sorted(cells.items()))


def _key(number: int, ranks: int, precision: str) -> str:
    return f"foreign-{number}-{ranks}-{precision.partition(' ')[0]}"


def _condition(run: ForeignRun) -> tuple[object, ...]:
    """What must agree before one number is made of two foreign runs."""
    stated = {key: value for key, value in run.stated.items() if key != "precision"}
    model = {name: run.config.get(name) for name in MODEL}
    known = (run.program, run.global_batch, run.topk, run.candidates)
    return (*known, str(sorted(stated.items())), str(model))


def differences(run: ForeignRun, block: Block) -> list[str]:
    """Why ours and theirs cannot be divided by one another; empty if they can."""
    if block.condition is None:
        return ["there is no good run of ours"]
    found = []
    data = block.condition.dataset
    stated = run.stated
    if not stated.get("same_machine"):
        found.append("nobody stated that they ran on our machine (`--same_machine`)")
    if stated.get("data") != data.name:
        said = f"stated: {stated['data']}" if stated.get("data") else "not stated (`--data`)"
        found.append(f"their data are {said}, ours are {data.name}")
    for name in MODEL:
        theirs = run.config.get(name)
        values = [one.config.get(name) for one in block.runs]
        if theirs is not None and any(_listed(value) != _listed(theirs) for value in values):
            found.append(f"{name}: theirs {theirs}, ours {_listed(values[0])}")
    ours = sorted({one.global_batch for one in block.runs})
    if ours != [run.global_batch]:
        size = units.count(run.global_batch) if run.global_batch else "not in the log"
        found.append(f"global batch: theirs {size}, ours {', '.join(map(units.count, ours))}")
    return found


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _about(runs: Sequence[ForeignRun], reasons: Sequence[str]) -> tuple[str, ...]:
    first = runs[0]
    stated = first.stated
    machine = f"{stated['machine']} (stated)" if stated.get("machine") else "not in the log"
    if stated.get("same_machine"):
        machine = "ours (stated)"
    data = f"{stated['data']} (stated)" if stated.get("data") else "not in the log"
    known = [
        f"global batch {units.count(first.global_batch)}" if first.global_batch else "",
        f"HR@{first.topk}" if first.topk else "",
        f"1 + {first.candidates} candidates" if first.candidates else "candidates not in the log",
    ]
    finished = sum(run.finished for run in runs)
    lines = [
        f"**Machine**: {machine}",
        f"**Data**: {data}",
        f"**Training**: {', '.join(part for part in known if part)}",
        f"**Runs**: {finished} finished of {len(runs)} in {len({run.file for run in runs})} files",
    ]
    unfinished = Counter(run.file for run in runs if not run.finished)
    if unfinished:
        named = ", ".join(f"`{name}`" for name in unfinished)
        lines.append(f"**Left out**, cut before the closing figures: {named}")
    if reasons:
        lines.append(f"**No ratio is given**: {'; '.join(reasons)}")
    return tuple(lines)


def _table(
    runs: Sequence[ForeignRun],
    number: int,
    block: Block,
    notation: Notation,
    reasons: Sequence[str],
) -> Table:
    cells = _cells(runs)
    rates = [data.median for own in cells.values() if (data := _over(own, throughput))]
    form = notation.rate_form(rates)
    rows = []
    for (ranks, name), own in cells.items():
        pool = _ours(block, ranks, own[0].precision)
        key = _key(number, ranks, name)
        rows.append(
            (
                ranks or units.not_available("not in the log"),
                name,
                *_pair(own, key, best_hr, pool, BEST_HR, _hit_rate, notation),
                _gap(own, pool, block, notation, reasons),
                _theirs(own, key, time_to_best, units.seconds, notation, "lower"),
                *_pair(own, key, throughput, pool, THROUGHPUT, form, notation),
                _ratio(own, pool, notation, reasons),
            )
        )
    headers: tuple[str, ...] = ("Ranks", "Precision", "HR theirs", "HR ours", "Ours - theirs")
    headers += ("Time to best theirs (s)", "Samples/s theirs", "Samples/s ours", "Ours / theirs")
    return Table(headers, tuple(rows), ("Precision",))


def _single(value: Value, form: units.Formatter) -> Estimate:
    if isinstance(value, Missing):
        return Estimate(None, form, value.reason)
    return Estimate(value, form)


def _hit_rate(value: float) -> str:
    return units.hit_rate(value, 5)


def _over(runs: Sequence[ForeignRun], measure: Callable[[ForeignRun], Value]) -> Summary | None:
    found = [value for run in runs if not isinstance(value := measure(run), Missing)]
    return summarize(found) if found else None


def _theirs(
    runs: Sequence[ForeignRun],
    key: str,
    measure: Callable[[ForeignRun], Value],
    form: units.Formatter,
    notation: Notation,
    better: str = "higher",
) -> Item:
    data = _over(runs, measure)
    if data is None:
        reason = measure(runs[0])
        return units.not_available(reason.reason if isinstance(reason, Missing) else "")
    return notation.estimate(data, form, better, sample=Sample(data.n), sources=(key,))


def _pair(
    runs: Sequence[ForeignRun],
    key: str,
    measure: Callable[[ForeignRun], Value],
    pool: Pool | None,
    ours: Metric,
    form: units.Formatter,
    notation: Notation,
) -> tuple[Item, Item]:
    theirs = _theirs(runs, key, measure, form, notation)
    if pool is None:
        return theirs, units.not_available("no such cell")
    return theirs, notation.measured(pool, ours, form)


def _ours(block: Block, ranks: int, precision: str | None) -> Pool | None:
    if precision is None:
        return None
    found = [row for row in block.rows if row.ranks == ranks and not row.rest]
    return found[0].pools.get(precision) if found else None


def _gap(
    runs: Sequence[ForeignRun],
    pool: Pool | None,
    block: Block,
    notation: Notation,
    reasons: Sequence[str],
) -> Item:
    """Only where HR@k is the same quantity: the same k and the same number of candidates."""
    theirs = _over(runs, best_hr)
    ours = pool.summary(BEST_HR) if pool else Missing("")
    condition = block.condition
    if theirs is None or isinstance(ours, Missing) or condition is None:
        return units.DASH
    first = runs[0]
    if first.candidates is None:
        return units.not_available("their candidates are not known")
    same = (condition.topk, condition.dataset.candidates_per_user)
    if (first.topk, first.candidates) != same:
        return units.not_available("another metric")
    if any("data" in reason for reason in reasons):
        return units.not_available("other data")
    gap = notation.value(ours, "higher") - notation.value(theirs, "higher")
    return Estimate(gap, "{:+.5f}".format, unit="fraction")


def _ratio(
    runs: Sequence[ForeignRun], pool: Pool | None, notation: Notation, reasons: Sequence[str]
) -> Item:
    theirs = _over(runs, throughput)
    ours = pool.summary(THROUGHPUT) if pool else Missing("")
    if theirs is None or isinstance(ours, Missing):
        return units.DASH
    if reasons:
        return units.not_available("not comparable")
    sources = (pool.tally.cell.key,) if pool else ()
    return notation.ratio_estimate(notation.ratio(ours, theirs), sources)
