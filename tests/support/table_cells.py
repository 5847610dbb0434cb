"""Cells and rows of a report's table or of a Markdown table, for tests."""

from __future__ import annotations


class Shown(str):
    """An item of a table as it is written, with the item itself."""

    __slots__ = ("item",)

    def __new__(cls, item):
        shown = super().__new__(cls, item)
        shown.item = item
        return shown


def shown_rows(table):
    return tuple(tuple(map(Shown, row)) for row in table.rows)


def cell(table, row, header):
    return Shown(table.rows[row][table.headers.index(header)])


def rows_of(table, **wanted):
    lines = [dict(zip(table.headers, row, strict=True)) for row in shown_rows(table)]
    return [line for line in lines if all(line[k] == v for k, v in wanted.items())]


def markdown_rows(text):
    """Cells of every row of a Markdown table in text, the header first."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def verdict_table(block, margin, contrast=None):
    """The verdicts on a comparison; None where there are none."""
    from bench.analysis import contrasts
    from bench.report import verdicts

    contrast = contrast or contrasts.precisions(block)
    lines = verdicts.verdicts_of(block, margin, contrast) if contrast else []
    return verdicts.table(block, contrast, lines) if lines else None


def comparison_table(block, contrast, notation):
    """Speed and memory over a reference's; None where nothing is compared."""
    from bench.report import verdicts

    pairs = verdicts.pairs(block, contrast)
    return verdicts.speed_and_memory(block, contrast, pairs, notation) if pairs else None
