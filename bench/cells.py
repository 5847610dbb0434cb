"""What stands in a table: text for people, with the number and the runs behind it for programs.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A cell's number, unrounded, in its unit. What does not exist is None, never 0.

    `low` and `high` are the interval or, with fewer runs, the extremes: the cell's text says which.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unit: str = ""


class Cell(str):
    """A text that remembers its number and the cells of the grid (their keys) it was made of."""

    __slots__ = ("keys", "number")
    number: Number | None
    keys: tuple[str, ...]

    def __new__(  # noqa: PYI034 - typing.Self came with Python 3.11
        cls, text: str, number: Number | None = None, keys: tuple[str, ...] = ()
    ) -> Cell:
        """A cell; one without a number is a text like any other."""
        cell = super().__new__(cls, text)
        cell.number = number
        cell.keys = keys
        return cell
