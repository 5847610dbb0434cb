"""What `[report]` asks for beside the usual tables: levels of axes against a reference. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.options import did_you_mean, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.options import Value
    from bench.suite_reader import Reader

SPREAD = "sd"
"""`margin_hr = "sd"`: the pooled standard deviation of the reference arms is the margin."""

Margin = float | str
"""A difference of HR that matters: a number, or SPREAD."""


@dataclass(frozen=True)
class Contrast:
    """Cells to be set against the reference: those that differ from it in these axes alone.

    `reference` holds a value for each of the axes that are compared; several axes are compared as
    one (one rank replicated, two ranks with sharded users).
    """

    reference: Mapping[str, Value]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are compared."""
        return tuple(self.reference)

    def is_reference(self, axes: Mapping[str, Value]) -> bool:
        """Whether a cell with these axes is one to compare with."""
        return all(axes.get(name) == value for name, value in self.reference.items())

    def others(self, axes: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
        """The axes that are not compared: cells must agree in them."""
        return tuple(sorted((k, v) for k, v in axes.items() if k not in self.reference))


def contrasts(
    reader: Reader,
    key: str,
    given: Any,
    axes: Mapping[str, tuple[Value, ...]],
    option: Callable[[str, str, Any], Value],
) -> tuple[Contrast, ...]:
    """`"formulation"`, `{ formulation = "reference" }`, or a list of such.

    A name alone takes the axis' first value for the reference. A table of several axes is one
    comparison of their combinations.

    Args:
        reader: knows where the key stands.
        key: compare or equivalence.
        given: what the file says.
        axes: of the suite.
        option: checks a value of an axis.

    Raises:
        UserError: no axis of this suite, or a value that the axis does not have.
    """
    found = []
    for one in given if isinstance(given, list) else [given]:
        named = {one: None} if isinstance(one, str) else one
        if not isinstance(named, dict) or not named:
            raise reader.error(
                "report",
                key,
                f'{key} must name axes, e.g. {key} = "precision" or {key} = '
                f'{{ precision = "fp32" }}, not {show(one)}',
            )
        found.append(
            Contrast({a: _level(reader, key, a, v, axes, option) for a, v in named.items()})
        )
    return tuple(found)


def _level(
    reader: Reader,
    key: str,
    axis: str,
    value: Any,
    axes: Mapping[str, tuple[Value, ...]],
    option: Callable[[str, str, Any], Value],
) -> Value:
    """The reference's value of one axis."""
    if axis not in axes or len(axes[axis]) < 2:
        several = [name for name, values in axes.items() if len(values) > 1]
        raise reader.error(
            "report",
            key,
            f"{key} names {axis!r}, which is no axis with several values"
            f"{did_you_mean(axis, several)} (there are: {', '.join(several) or 'none'})",
        )
    if value is None:
        return axes[axis][0]
    checked = option("axes", axis, value)
    if checked not in axes[axis]:
        raise reader.error("report", key, f"{axis} has no value {show(value)} in [axes]")
    return checked


def check(
    reader: Reader, key: str, found: Sequence[Contrast], grid: Sequence[Mapping[str, Value]]
) -> None:
    """Refuse a comparison of which the grid has no pair of cells.

    Args:
        reader: knows where the key stands.
        key: compare or equivalence.
        found: the comparisons.
        grid: the axes of every cell.

    Raises:
        UserError: excludes have left no reference, or nothing beside it.
    """
    for contrast in found:
        references = {contrast.others(axes) for axes in grid if contrast.is_reference(axes)}
        tested = {contrast.others(axes) for axes in grid if not contrast.is_reference(axes)}
        if not references & tested:
            named = ", ".join(f"{name} = {show(v)}" for name, v in contrast.reference.items())
            raise reader.error(
                "report", key, f"no cell differs from one with {named} in {key}'s axes alone"
            )


def margin(reader: Reader, report: Mapping[str, Any]) -> Margin | None:
    """`margin_hr`: a number above 0, or "sd"."""
    given = report.get("margin_hr")
    if given is None or given == SPREAD:
        return given
    if isinstance(given, str):
        raise reader.error(
            "report", "margin_hr", f'margin_hr must be a number above 0 or "sd", not {show(given)}'
        )
    return reader.positive("report", "margin_hr", given)
