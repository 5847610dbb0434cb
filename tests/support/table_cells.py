"""Cells and rows of a report's table or of a Markdown table, for tests."""

from __future__ import annotations


def cell(table, row, header):
    return table.rows[row][table.headers.index(header)]


def rows_of(table, **wanted):
    lines = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
    return [line for line in lines if all(line[k] == v for k, v in wanted.items())]


def markdown_rows(text):
    """Cells of every row of a Markdown table in text, the header first."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
