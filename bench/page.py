"""A report as a list of nodes, from which Markdown, HTML, LaTeX, CSV and JSON are made. Pure.

Texts may hold `code`, **bold**, *italic* and [links](target), as Markdown writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.tables import Table


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
        name: what it shows, one word: `bench report --table NAME` and --update choose by it.
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
