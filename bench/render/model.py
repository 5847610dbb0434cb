"""What a report is made of, as values: headings, texts, tables, pictures. Pure.

Texts may hold `code`, **bold**, *italic* and [links](target), as Markdown writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tabulate import tabulate


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


@dataclass(frozen=True)
class Table:
    """Cells as text; `left` names the columns that hold words, the others are aligned right."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()


def markdown(table: Table) -> str:
    """A pipe table, as GitHub renders it."""
    align = ["left" if header in table.left else "right" for header in table.headers]
    return tabulate(
        [[_escaped(cell) for cell in row] for row in table.rows],
        headers=[_escaped(header) for header in table.headers],
        tablefmt="pipe",
        colalign=align,
        disable_numparse=True,  # "0.9590" and "1.10" keep their zeros
    )


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the page's."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Quote:
    """A paragraph that must not be overlooked."""

    text: str


@dataclass(frozen=True)
class Items:
    """A bullet list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Tabled:
    """A table with its place among all tables of the report.

    Args:
        name: what it shows, one word: `ncf-bench report --table NAME` and --update choose by it.
        title: for forms that show it without the text around.
        about: machine, data and date, in one line; "" where the title says it all.
        condition: number of the condition under which it was measured, from 1; 0 for no such.
    """

    name: str
    title: str
    table: Table
    about: str = ""
    condition: int = 0


@dataclass(frozen=True)
class Image:
    """A picture: name, caption, and the paths of both forms relative to the report."""

    caption: str
    png: str
    svg: str
    condition: int = 0


Node = Heading | Text | Quote | Items | Tabled | Image
