"""Numbers as text: one place that decides digits, units and what a missing number looks like.

Pure. Rounding happens here, when a number is printed, and nowhere before.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.stats.summary import Missing, Ratio, Summary, Value

DASH = "-"
"""A cell that a published source does not give."""

Formatter = Callable[[float], str]


def not_available(reason: str = "") -> str:
    """What stands where a number cannot be."""
    return f"n/a ({reason})" if reason else "n/a"


def show(value: Value | None, form: Formatter) -> str:
    """A value by its formatter; a missing one as n/a with its reason."""
    if value is None:
        return not_available()
    if isinstance(value, Missing):
        return not_available(value.reason)
    return form(value) if math.isfinite(value) else not_available("not finite")


def count(value: float) -> str:
    """A whole number with thousands separators: 20027840 -> "20,027,840"."""
    return f"{round(value):,}"


def compact(value: float) -> str:
    """A large number in four or five digits: 20027840 -> "20.03 M", 151234 -> "151.23 k"."""
    for scale, suffix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        # 999,996 rounds to 1,000.00 k: it is shown as 1.00 M.
        if abs(value) >= scale * 0.999995:
            return f"{value / scale:.2f}{suffix}"
    return significant(value, 4)


def millions(value: float) -> str:
    """Millions with two decimals, for a column that is rounded to them: 790000 -> "0.79 M"."""
    return f"{value / 1e6:.2f} M"


def percent(value: float) -> str:
    """A share in percent: 0.3127 -> "31.3 %"."""
    return f"{100 * value:.1f} %"


def exact(value: float) -> str:
    """A count that may be a fraction, such as samples per rank: "131,072" or "43,690.7"."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def significant(value: float, digits: int) -> str:
    """At least `digits` significant digits, without an exponent: 0.00412 -> "0.0041"."""
    if value == 0:
        return "0"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def hit_rate(value: float, digits: int = 4) -> str:
    """A rate between 0 and 1: 0.959015 -> "0.9590"."""
    return f"{value:.{digits}f}"


def hit_rate_digits(test_users: int) -> int:
    """Digits that a hit rate over so many users deserves: 4, or 5 from 10,000 users on."""
    return 5 if test_users >= 10_000 else 4


def ratio(value: float) -> str:
    """A ratio with two decimals, more for small ones: 2.1017 -> "2.10", 0.004 -> "0.0040"."""
    return significant(value, 2) if 0 < abs(value) < 0.1 else f"{value:.2f}"


def seconds(value: float) -> str:
    """Seconds, without the unit: "0.0059", "5.94", "59.4", "1,234"."""
    return significant(value, 3) if abs(value) < 1000 else count(value)


def milliseconds(value: float) -> str:
    """A time given in seconds as milliseconds, without the unit: 0.000346 -> "0.346"."""
    return f"{value * 1e3:,.3f}"


def duration(value: float) -> str:
    """A time span for people: "45 s", "12 min", "3 h 05 min"."""
    if value < 119.5:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def size(value: float) -> str:
    """Bytes in binary units: 6442450944 -> "6.0 GiB"."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(value) >= 1024**power:
            return f"{value / 1024**power:.1f} {unit}"
    return f"{value:.0f} B"


def summary(data: Summary, form: Formatter) -> str:
    """Median and spread: "1.23 [1.20 to 1.25]" (95 % interval), "1.23 (1.20 to 1.25)" (extremes).

    A single run has no spread: "1.23 (spread n/a)".
    """
    return form(data.median) + _spread(data.low, data.high, *_extremes(data), form)


def ratio_summary(data: Ratio | Missing) -> str:
    """A ratio with its interval, or with the extremes over runs, in the notation of `summary`."""
    if isinstance(data, Missing):
        return not_available(data.reason)
    return ratio(data.value) + _spread(data.low, data.high, data.min, data.max, ratio)


def _extremes(data: Summary) -> tuple[float | None, float | None]:
    return (None, None) if data.n == 1 else (data.min, data.max)


def _spread(
    low: float | None, high: float | None, least: float | None, most: float | None, form: Formatter
) -> str:
    if low is not None and high is not None:
        return f" [{form(low)} to {form(high)}]"
    if least is not None and most is not None:
        return f" ({form(least)} to {form(most)})"
    return " (spread n/a)"
