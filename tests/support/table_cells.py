"""What a table of a report says in one cell or row, for tests."""

from __future__ import annotations


def cell(table, row, header):
    return table.rows[row][table.headers.index(header)]


def rows_of(table, **wanted):
    lines = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
    return [line for line in lines if all(line[k] == v for k, v in wanted.items())]
