"""A plan and a status in words. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench.analysis.metrics import best_hr, throughput
from bench.host.samples import FLAGS
from bench.render import units
from bench.render.model import Table, markdown
from bench.stats.summary import Missing
from bench.stats.welch import pooled_spread, smallest_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.records.attempt import Attempt
    from bench.suite.model import Margin
    from bench.sweep.plan import CellPlan, Plan


def plan_text(plan: Plan) -> str:
    """The plan as a table and a line of totals."""
    rows = [
        (
            cell.cell.label,
            str(len(cell.good)),
            "-" if cell.unavailable else str(len(cell.to_run)),
            _note(cell),
        )
        for cell in plan.cells
    ]
    table = Table(("cell", "stored", "to run", "note"), tuple(rows), left=("cell", "note"))
    return "\n".join([markdown(table), "", _totals(plan), *_outside(plan)])


def _totals(plan: Plan) -> str:
    """`smoke: 10 to run, 2 of 12 stored; expected time: 3 min`."""
    missing = len(plan.cells) - len(plan.available)
    not_here = f"; {missing} of {len(plan.cells)} cells are not available here" if missing else ""
    if not plan.runs:
        return f"nothing to run: {plan.stored} of {plan.total} runs are stored{not_here}"
    expected = plan.expected_seconds
    duration = "unknown (no run is stored yet)" if expected is None else units.duration(expected)
    return (
        f"{plan.suite.name}: {len(plan.runs)} to run, {plan.stored} of {plan.total} stored"
        f"{not_here}; expected time: {duration}"
    )


def _outside(plan: Plan) -> list[str]:
    keys = sorted({attempt.cell.key for attempt in plan.outside})
    if not keys:
        return []
    listed = ", ".join([*keys[:2], "..."] if len(keys) > 2 else keys)
    what = f"{len(plan.outside)} stored attempts belong to cells that the suite no longer has"
    return [f"{what} ({listed}): they are kept, and enter no table"]


def _note(cell: CellPlan) -> str:
    notes = [
        f"not available: {cell.unavailable}" if cell.unavailable else "",
        f"{cell.to_retry} failed before" if cell.to_retry and not cell.unavailable else "",
        f"{cell.elsewhere} from another machine or data set" if cell.elsewhere else "",
        f"{len(cell.stale)} made by other software or code (--rerun stale)" if cell.stale else "",
    ]
    return "; ".join(note for note in notes if note)


def status_text(
    plan: Plan,
    folder: str,
    unreadable: list[tuple[str, str]],
    mixed: list[str],
    holder: Mapping[str, Any] | None,
) -> str:
    """The stored runs of each cell, and everything that needs attention."""
    rows = [
        (
            cell.cell.label,
            f"{len(cell.good)} of {len(cell.seeds)}",
            ", ".join(f"{n} {status}" for status, n in cell.failed.items()) or "-",
            _note(cell),
        )
        for cell in plan.cells
    ]
    headers = ("cell", "good", "failed attempts", "note")
    lines = [
        markdown(Table(headers, tuple(rows), left=("cell", "failed attempts", "note"))),
        "",
        f"{folder}: {plan.stored} of {plan.total} runs are stored",
        *_outside(plan),
        *mixed,
        *(f"unreadable, not counted: {path}: {reason}" for path, reason in unreadable),
    ]
    if holder is not None:
        states = {True: "a sweep is running", False: "a sweep was killed", None: "locked"}
        who, host, since = (holder.get(name, "?") for name in ("pid", "host", "started_at"))
        lines.append(f"{states[holder['alive']]}: process {who} on {host} since {since}")
    return "\n".join(lines)


def flag_lines(flagged: Mapping[str, int]) -> list[str]:
    """The flags of stored runs and their numbers."""
    return [
        f"flag {flag}: {n} attempts ({FLAGS.get(flag, 'unknown')})"
        for flag, n in sorted(flagged.items())
    ]


MAX_RUNS = 400
"""Number of stored runs that are read for their spread; more would hardly change it."""

KNOWN_HR_SD = {"ml-20m": 4e-4, "ml-100k": 8e-3}
"""SD of best HR@10 over seeds of NVIDIA's code, for data sets without stored runs."""


def effect_lines(plan: Plan, read: Callable[[str, int, int], Attempt | str]) -> list[str]:
    """The smallest differences that a plan can detect, from the spread of its good runs.

    Args:
        plan: its cells name the attempts that are good here.
        read: returns a stored attempt by cell, seed and number, or why it cannot be read.
    """
    budget, samples = MAX_RUNS, []
    for cell in plan.cells:
        chosen = list(cell.attempts.items())[:budget]
        budget -= len(chosen)
        attempts = [read(cell.cell.key, seed, number) for seed, number in chosen]
        samples.append((len(cell.seeds), [a for a in attempts if not isinstance(a, str)]))
    suite = plan.suite
    return smallest_effects(samples, suite.data.source, suite.margin_hr, suite.margin_speed)


def smallest_effects(
    cells: Iterable[tuple[int, Sequence[Attempt]]],
    source: str | None,
    margin_hr: Margin | None,
    margin_speed: float | None,
) -> list[str]:
    """The smallest detectable differences in HR and in throughput.

    Args:
        cells: planned number of runs and good runs of each cell.
        source: name of the data set, for a published spread.
        margin_hr: the relevant difference in HR; "sd": as large as the spread.
        margin_speed: the relevant relative difference in throughput.
    """
    samples = list(cells)
    n = min((count for count, _ in samples), default=0)
    if n < 2:
        return ["smallest difference that 1 run a cell can show: none, one run has no spread"]
    rates: list[list[float]] = []
    speeds: list[list[float]] = []
    for _, attempts in samples:
        runs = [attempt.run for attempt in attempts if attempt.run is not None]
        rates.append([hr for run in runs if not isinstance(hr := best_hr(run), Missing)])
        values = [speed for run in runs if not isinstance(speed := throughput(run), Missing)]
        speeds.append([math.log(speed) for speed in values])
    head = f"smallest difference that {n} runs a cell show (two-sided 5 %, power 90 %)"
    hr_text = _hr_effect(n, pooled_spread(rates), source, margin_hr)
    speed_text = _speed_effect(n, pooled_spread(speeds), margin_speed)
    return [f"{head} in best HR: {hr_text}", f"{head} in throughput: {speed_text}"]


NO_SPREAD = "unknown until a cell has 2 runs"


def _hr_effect(
    n: int, spread: tuple[float, int] | None, source: str | None, margin: Margin | None
) -> str:
    if spread is not None:
        sd, basis = spread[0], f"of {spread[1]} stored runs"
    elif source in KNOWN_HR_SD:
        sd, basis = KNOWN_HR_SD[source], f"as published code has on {source}"
    else:
        return NO_SPREAD
    limit = "that SD" if isinstance(margin, str) else f"{margin:g}" if margin is not None else ""
    text = f"{smallest_effect(n, sd) or 0:.5f} (SD {sd:.5f}, {basis}"
    return f"{text}; the margin is {limit})" if limit else f"{text})"


def _speed_effect(n: int, spread: tuple[float, int] | None, margin: float | None) -> str:
    if spread is None:
        return NO_SPREAD
    effect = math.expm1(smallest_effect(n, spread[0]) or 0)
    text = f"{effect:.2%} (SD {spread[0]:.2%}, of {spread[1]} stored runs"
    return f"{text}; the margin is {margin:.1%})" if margin is not None else f"{text})"
