"""What a number of runs can show: the smallest difference of two cells that would be found. Pure.

A two-sided Welch t-test of two arms of n runs finds a difference d with the given power when
d = (t + z) * sd * sqrt(2 / n), with t the critical value and z the normal quantile of the power
(NIST/SEMATECH e-Handbook, section 7.2.2.2).
"""

from __future__ import annotations

import math
from statistics import NormalDist, variance
from typing import TYPE_CHECKING

from bench.measures import best_hr, throughput
from bench.stats import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.plan import Plan
    from bench.store import Attempt
    from bench.suite_report import Margin

LEVEL = 0.05
POWER = 0.9
MOST_READ = 400
"""Runs that are read for their spread; more would not tell it better."""
KNOWN_HR_SD = {"ml-20m": 4e-4, "ml-100k": 8e-3}
"""SD of best HR@10 over seeds of NVIDIA's code, for data of which no run is stored yet."""


def smallest(n: int, sd: float) -> float | None:
    """The difference that n runs a side find with 90 % chance; None for n = 1."""
    if n < 2:
        return None
    critical = _student(1 - LEVEL / 2, 2 * n - 2)
    return (critical + NormalDist().inv_cdf(POWER)) * sd * math.sqrt(2 / n)


def _student(p: float, freedom: int) -> float:
    """Quantile of Student's t, 1 % too small for 2 degrees of freedom and soon exact.

    Abramowitz and Stegun 26.7.5; `bench plan` need not wait for scipy.
    """
    z: float = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def spread(values: Iterable[Sequence[float]]) -> tuple[float, int] | None:
    """SD within cells, pooled over them, and the number of runs; None without a cell of two."""
    usable = [cell for cell in values if len(cell) > 1]
    freedom = sum(len(cell) - 1 for cell in usable)
    if not freedom:
        return None
    pooled = sum(variance(cell) * (len(cell) - 1) for cell in usable) / freedom
    return math.sqrt(pooled), sum(map(len, usable))


def lines(
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
        f"{head} in best HR: {_hr(n, spread(rates), source, margin_hr)}",
        f"{head} in throughput: {_speed(n, spread(speeds), margin_speed)}",
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
    return lines(cells, suite.data.source, suite.margin_hr, suite.margin_speed)


def _hr(n: int, found: tuple[float, int] | None, source: str | None, margin: Margin | None) -> str:
    if found is not None:
        sd, basis = found[0], f"of {found[1]} stored runs"
    elif source in KNOWN_HR_SD:
        sd, basis = KNOWN_HR_SD[source], f"as published code has on {source}"
    else:
        return "unknown until a cell has 2 runs"
    effect = smallest(n, sd)
    assert effect is not None
    wanted = "" if margin is None else f"; the margin is {_shown(margin)}"
    return f"{effect:.5f} (SD {sd:.5f}, {basis}{wanted})"


def _shown(margin: Margin) -> str:
    return "that SD" if isinstance(margin, str) else f"{margin:g}"


def _speed(n: int, found: tuple[float, int] | None, margin: float | None) -> str:
    if found is None:
        return "unknown until a cell has 2 runs"
    effect = smallest(n, found[0])
    assert effect is not None
    wanted = f"; the margin is {margin:.1%}" if margin is not None else ""
    return f"{math.expm1(effect):.2%} (SD {found[0]:.2%}, of {found[1]} stored runs{wanted})"
