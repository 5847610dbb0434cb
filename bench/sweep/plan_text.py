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
    rows = tuple(
        (
            cell.cell.label,
            str(len(cell.good)),
            "-" if cell.unavailable else str(len(cell.to_run)),
            _note(cell),
        )
        for cell in plan.cells
    )
    table = markdown(Table(("cell", "stored", "to run", "note"), rows, left=("cell", "note")))
    return "\n".join([table, "", totals(plan), *_outside(plan)])


def totals(plan: Plan) -> str:
    """`smoke: 10 to run, 2 of 12 stored; expected time: 3 min`."""
    away = len(plan.cells) - len(plan.available)
    not_here = f"; {away} of {len(plan.cells)} cells are not available here" if away else ""
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
    line = (
        f"{len(plan.outside)} stored attempts belong to cells that the suite no longer has "
        f"({listed}): they are kept, and enter no table"
    )
    return [line]


def flag_lines(flagged: Mapping[str, int]) -> list[str]:
    """What disturbed stored runs, and how many of them."""
    return [
        f"flag {flag}: {n} attempts ({FLAGS.get(flag, 'unknown')})"
        for flag, n in sorted(flagged.items())
    ]


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
    """What is stored, cell by cell, and everything that deserves a look."""
    rows = tuple(
        (
            cell.cell.label,
            f"{len(cell.good)} of {len(cell.seeds)}",
            ", ".join(f"{n} {status}" for status, n in cell.failed.items()) or "-",
            _note(cell),
        )
        for cell in plan.cells
    )
    headers = ("cell", "good", "failed attempts", "note")
    lines = [
        markdown(Table(headers, rows, left=("cell", "failed attempts", "note"))),
        "",
        f"{folder}: {plan.stored} of {plan.total} runs are stored",
        *_outside(plan),
        *mixed,
        *(f"unreadable, not counted: {path}: {reason}" for path, reason in unreadable),
    ]
    if holder is not None:
        who = f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"
        since = f"since {holder.get('started_at', '?')}"
        state = {True: "a sweep is running", False: "a sweep was killed", None: "locked"}
        lines.append(f"{state[holder['alive']]}: {who} {since}")
    return "\n".join(lines)


MOST_READ = 400
"""Runs that are read for their spread; more would not tell it better."""


KNOWN_HR_SD = {"ml-20m": 4e-4, "ml-100k": 8e-3}
"""SD of best HR@10 over seeds of NVIDIA's code, for data of which no run is stored yet."""


def smallest_effects(
    cells: Iterable[tuple[int, Sequence[Attempt]]],
    source: str | None,
    margin_hr: Margin | None,
    margin_speed: float | None,
) -> list[str]:
    """What the planned number of runs can show, in HR and in throughput.

    Args:
        cells: planned number of runs and good runs of each cell.
        source: name of the data set, for a spread to start from.
        margin_hr: the difference in HR that would matter; "sd": as large as the spread.
        margin_speed: the relative difference in throughput that would matter.
    """
    planned = list(cells)
    n = min((count for count, _ in planned), default=0)
    if n < 2:
        return ["smallest difference that 1 run a cell can show: none, one run has no spread"]
    rates, speeds = [], []
    for _, attempts in planned:
        runs = [attempt.run for attempt in attempts if attempt.run is not None]
        rates.append([hr for run in runs if not isinstance(hr := best_hr(run), Missing)])
        found = [speed for run in runs if not isinstance(speed := throughput(run), Missing)]
        speeds.append([math.log(speed) for speed in found])
    head = f"smallest difference that {n} runs a cell show (two-sided 5 %, power 90 %)"
    return [
        f"{head} in best HR: {_hr(n, pooled_spread(rates), source, margin_hr)}",
        f"{head} in throughput: {_speed(n, pooled_spread(speeds), margin_speed)}",
    ]


def effect_lines(plan: Plan, read: Callable[[str, int, int], Attempt | str]) -> list[str]:
    """What the cells of a plan can show, going by their good runs, some hundred of them.

    Args:
        plan: its cells know which attempts are good here.
        read: gives a stored attempt by cell, seed and number.
    """
    left, cells = MOST_READ, []
    for cell in plan.cells:
        chosen = list(cell.attempts.items())[: max(0, left)]
        left -= len(chosen)
        found = (read(cell.cell.key, seed, number) for seed, number in chosen)
        cells.append((len(cell.seeds), [one for one in found if not isinstance(one, str)]))
    suite = plan.suite
    return smallest_effects(cells, suite.data.source, suite.margin_hr, suite.margin_speed)


def _hr(n: int, found: tuple[float, int] | None, source: str | None, margin: Margin | None) -> str:
    if found is not None:
        sd, basis = found[0], f"of {found[1]} stored runs"
    elif source in KNOWN_HR_SD:
        sd, basis = KNOWN_HR_SD[source], f"as published code has on {source}"
    else:
        return "unknown until a cell has 2 runs"
    effect = smallest_effect(n, sd)
    assert effect is not None
    wanted = "" if margin is None else f"; the margin is {_shown(margin)}"
    return f"{effect:.5f} (SD {sd:.5f}, {basis}{wanted})"


def _shown(margin: Margin) -> str:
    return "that SD" if isinstance(margin, str) else f"{margin:g}"


def _speed(n: int, found: tuple[float, int] | None, margin: float | None) -> str:
    if found is None:
        return "unknown until a cell has 2 runs"
    effect = smallest_effect(n, found[0])
    assert effect is not None
    wanted = f"; the margin is {margin:.1%}" if margin is not None else ""
    return f"{math.expm1(effect):.2%} (SD {found[0]:.2%}, of {found[1]} stored runs{wanted})"
