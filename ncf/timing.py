"""Timed calls: warm-up apart, the device waited for, the clock given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST_TIMED = 3
"""Calls that are timed however long they take: fewer say nothing about their spread."""


def timed_calls(
    call: Callable[[Any], Any],
    inputs: Sequence[Any],
    clock: Callable[[], float],
    *,
    warmup: int,
    most: int,
    seconds: float,
) -> tuple[float, ...]:
    """Seconds of each call after the warm-up.

    Args:
        call: takes one input; returns when the device has finished.
        inputs: taken in turn.
        clock: seconds, monotonic.
        warmup: calls that are left out at the start; fewer than `most`.
        most: calls in all.
        seconds: no further call begins after so much time, once LEAST_TIMED were timed.

    Raises:
        ValueError: the warm-up would leave nothing to time.
    """
    if warmup >= most:
        raise ValueError(f"a warm-up of {warmup} leaves nothing of {most} calls to time")
    for number in range(warmup):
        call(inputs[number % len(inputs)])
    found: list[float] = []
    begun = clock()
    for number in range(warmup, most):
        start = clock()
        if len(found) >= LEAST_TIMED and start - begun >= seconds:
            break
        call(inputs[number % len(inputs)])
        found.append(clock() - start)
    return tuple(found)
