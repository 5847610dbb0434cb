"""What a report is made of, as values: headings, texts, tables, pictures. Pure.

Texts may hold `code`, **bold**, *italic* and [links](target), as Markdown writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

from tabulate import tabulate

from bench.render import units

Format = Callable[[float], str]
"""How a number is written."""


@dataclass(frozen=True)
class Sample:
    """How many runs are behind a number, and what is missing from those that were planned.

    Attributes:
        n: runs behind the number.
        planned: runs that the suite asks for; None where none of them is missing.
        missing: why runs are missing: "oom", "crash", "not run" ... and how many.
        note: what is missing as a whole, such as "not available".
    """

    n: int
    planned: int | None = None
    missing: tuple[tuple[str, int], ...] = ()
    note: str = ""

    def __str__(self) -> str:
        size = str(self.n) if self.planned is None else f"{self.n}/{self.planned}"
        reasons = [f"{count} {status}" for status, count in self.missing]
        return ", ".join([size, *reasons, *([self.note] if self.note else [])])


@dataclass(frozen=True)
class Estimate:
    """A number of a table, unrounded, with all that is known of it; `str` writes it.

    Attributes:
        value: in its unit; None where there is no such number, never 0.
        form: how value, low and high are written.
        reason: why there is no value.
        low: lower end of the interval, or the smallest run.
        high: upper end of the interval, or the largest run.
        spread: what `low` and `high` are: a 95 % interval ("ci"), the extremes ("extremes"), both
            ends of a range that takes the place of the number ("ends"), not written ("hidden");
            or what is written in their place: "sd", "worst", "unknown" (one run has no spread).
        other: the standard deviation or the worst run, where `spread` says so.
        n: runs behind the number.
        sample: the same as it is written; None where a column of its own has it.
        unit: in which the value is.
        sources: keys of the cells of the grid that it was made of.
        share: of the ideal, for scaling: 0.98 of what the number of ranks promises.
        bound_form: how low and high are written, where it is not `form`.
    """

    value: float | None
    form: Format = str
    reason: str = ""
    low: float | None = None
    high: float | None = None
    spread: Literal["ci", "extremes", "ends", "hidden", "sd", "worst", "unknown"] = "hidden"
    other: float | None = None
    n: int | None = None
    sample: Sample | None = None
    unit: str = ""
    sources: tuple[str, ...] = ()
    share: float | None = None
    bound_form: Format | None = None

    def number_text(self) -> str:
        """The number alone."""
        if self.value is None:
            return units.not_available()
        if self.spread == "ends" and self.low is not None and self.high is not None:
            ends = dict.fromkeys((self.low, self.high))
            return " to ".join(self.form(end) for end in ends)
        return self.form(self.value)

    def spread_text(self) -> str:
        """What is written behind the number: its interval or the reason why there is no number."""
        if self.value is None:
            return f" ({self.reason})" if self.reason else ""
        share = "" if self.share is None else f", {100 * self.share:.0f} %"
        if self.low is not None and self.high is not None:
            low, high = map(self.bound_form or self.form, (self.low, self.high))
            if self.spread in ("ci", "extremes"):
                begin, end = "[]" if self.spread == "ci" else "()"
                return f" {begin}{low} to {high}{end}{share}"
        if self.spread == "sd":
            return f" (SD {'n/a' if self.other is None else self.form(self.other)}){share}"
        if self.spread == "worst" and self.other is not None:
            return f" (worst {self.form(self.other)}){share}"
        return f" (spread n/a){share}" if self.spread == "unknown" else share

    def sample_text(self) -> str:
        """The sample size: "n=3"."""
        return "" if self.sample is None or self.value is None else f"n={self.sample}"

    def __str__(self) -> str:
        size = self.sample_text()
        return self.number_text() + self.spread_text() + (f", {size}" if size else "")


@dataclass(frozen=True)
class Several:
    """Numbers that share a place in a table, such as one of each arm: "3, 3", or "10/12"."""

    values: tuple[float | None, ...]
    form: Format = str
    joint: str = ", "

    def __str__(self) -> str:
        return self.joint.join(
            units.not_available() if value is None else self.form(value) for value in self.values
        )


Item = str | int | float | Estimate | Several | Sample
"""What a table holds: words, numbers, or numbers with what is known of them."""


@dataclass(frozen=True)
class Table:
    """Rows of items; `left` names the columns that hold words, the others are aligned right."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Item, ...], ...]
    left: tuple[str, ...] = ()

    def text_rows(self) -> list[list[str]]:
        """The rows as they are written."""
        return [[str(item) for item in row] for row in self.rows]

    def alignment(self) -> list[str]:
        """Per column "left" or "right", as tabulate calls it."""
        return ["left" if header in self.left else "right" for header in self.headers]


Line = TypeVar("Line")


@dataclass(frozen=True)
class Column(Generic[Line]):
    """One column: its title, what it holds of a line, and whether that is words."""

    title: str
    value: Callable[[Line], Item]
    words: bool = False


def build(lines: Iterable[Line], columns: Sequence[Column[Line]]) -> Table:
    """A table with a row per line."""
    return Table(
        tuple(column.title for column in columns),
        tuple(tuple(column.value(line) for column in columns) for line in lines),
        tuple(column.title for column in columns if column.words),
    )


def markdown(table: Table) -> str:
    """A pipe table, as GitHub renders it."""
    return tabulate(
        [[_escaped(text) for text in row] for row in table.text_rows()],
        headers=[_escaped(header) for header in table.headers],
        tablefmt="pipe",
        colalign=table.alignment(),
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
        source: the table, or what builds it: a table that nobody prints is not built.
        about: machine, data and date, in one line; "" where the title says it all.
        condition: number of the condition under which it was measured, from 1; 0 for no such.
    """

    name: str
    title: str
    source: Table | Callable[[], Table]
    about: str = ""
    condition: int = 0

    @cached_property
    def table(self) -> Table:
        """The table, built when it is asked for."""
        return self.source if isinstance(self.source, Table) else self.source()


@dataclass(frozen=True)
class Image:
    """A picture: name, caption, and the paths of both forms relative to the report."""

    caption: str
    png: str
    svg: str
    condition: int = 0


Node = Heading | Text | Quote | Items | Tabled | Image
