"""What a gate can compare: one table with the unit, the direction and the margin of each. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from bench.analysis.measures import (
    BEST_HR,
    ENERGY,
    EPOCHS_TO_BEST,
    PEAK_MEMORY,
    THROUGHPUT,
    TIME_TO_BEST,
)
from bench.analysis.measures import reached_target as reached
from bench.errors import UserError, did_you_mean
from bench.render import units
from bench.stats.summary import Missing, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.records.attempt import Attempt


@dataclass(frozen=True)
class Metric:
    """A quantity of an attempt that two sides can be compared in.

    Attributes:
        scale: "ratio" compares logarithms, and margins are relative; "difference" compares values.
        margin: what matters where nobody says otherwise.
        one_sided: not to be worse is enough.
        robust: whether a disturbed run may be set aside; a bad accuracy never is.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"]
    of: Callable[[Attempt], Value]
    form: Callable[[float], str]
    margin: float
    scale: Literal["ratio", "difference"] = "ratio"
    one_sided: bool = False
    robust: bool = True

    def scaled(self, value: float) -> float:
        """A value as it is compared."""
        return math.log(value) if self.scale == "ratio" else value

    def scaled_margin(self, margin: float) -> float:
        """A margin of 3 % is a ratio of 1.03, or of 1 / 1.03."""
        return math.log1p(margin) if self.scale == "ratio" else margin


def time_to_target(attempt: Attempt) -> Value:
    """Seconds to the target, or to the best epoch where a run has no target."""
    if attempt.run is None:
        return Missing("no record")
    return (
        Missing("target not reached") if reached(attempt.run) is False else TIME_TO_BEST.of(attempt)
    )


def inference_latency(attempt: Attempt) -> Value:
    """Median seconds of an inference call; over several batch sizes, their geometric mean."""
    found = (attempt.run.inference if attempt.run else None) or ()
    middles = [median(one.seconds) for one in found if one.seconds]
    if not middles or min(middles) <= 0:
        return Missing("not measured")
    return math.exp(math.fsum(map(math.log, middles)) / len(middles))


ALL = (
    Metric("throughput", "samples/s", "higher", THROUGHPUT.of, units.count, 0.03),
    Metric(
        "best_hr",
        "fraction",
        "higher",
        BEST_HR.of,
        lambda value: units.hit_rate(value, 5),
        0.005,
        scale="difference",
        one_sided=True,
        robust=False,
    ),
    Metric("time_to_target", "s", "lower", time_to_target, units.seconds, 0.1),
    Metric("peak_memory", "bytes", "lower", PEAK_MEMORY.of, units.size, 0.05),
    Metric("energy", "J", "lower", ENERGY.of, units.count, 0.05),
    Metric("inference_latency", "s", "lower", inference_latency, units.seconds, 0.05),
    Metric("epochs_to_best", "epochs", "lower", EPOCHS_TO_BEST.of, units.exact, 0.1),
)
NAMES = tuple(one.name for one in ALL)
DEFAULT = ("throughput", "best_hr")
"""What a gate decides on where a suite names nothing: the two quantities the product is about."""
HR_MARGINS = {"ml-20m": 5e-4, "ml-100k": 6e-3}
"""Margins of best HR where a suite names none; they belong to the data, see docs/reports.md."""


def metric(name: str, where: str = "") -> Metric:
    """The metric of this name.

    Raises:
        UserError: there is none; its direction would be a guess.
    """
    found = {one.name: one for one in ALL}
    if name not in found:
        raise UserError(
            f"{where}unknown metric {name!r}{did_you_mean(name, list(found))} "
            f"(known: {', '.join(found)})"
        )
    return found[name]
