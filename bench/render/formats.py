"""Pages and tables as text of several forms. Pure."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from bench.render.model import Estimate, Heading, Image, Items, Quote, Tabled, Text, markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.render.model import Item, Node

FORMATS = ("markdown", "csv", "json", "latex")


def markdown_page(nodes: Sequence[Node]) -> str:
    """A whole page, as GitHub renders it."""
    return "\n\n".join(_markdown(node) for node in nodes) + "\n"


def _markdown(node: Node) -> str:
    if isinstance(node, Heading):
        return f"{'#' * node.level} {node.text}"
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Quote):
        return f"> {node.text}"
    if isinstance(node, Items):
        return "\n".join(f"- {item}" for item in node.items)
    if isinstance(node, Image):
        return f"![{node.caption}]({node.png})\n\n*{node.caption}* ([SVG]({node.svg}))"
    return markdown(node.table)


def tables_text(tables: Sequence[Tabled], form: str) -> str:
    """Tables alone, in one of FORMATS."""
    if form == "json":
        return json.dumps({"tables": [_plain(one) for one in tables]}, indent=1, allow_nan=False)
    write = {"markdown": _titled, "csv": _csv, "latex": _latex}[form]
    return "\n\n".join(write(one) for one in tables)


def _titled(one: Tabled) -> str:
    return f"{_caption(one)}\n\n{markdown(one.table)}"


def _caption(one: Tabled) -> str:
    return f"**{one.title}**" + (f" ({one.about})" if one.about else "")


def captioned(one: Tabled) -> str:
    """A table to stand alone in somebody else's page: below it what it is, of what and when."""
    about = f"{one.title}. {one.about}".strip()
    return f"{markdown(one.table)}\n\n*{about}*"


def _plain(one: Tabled) -> dict[str, Any]:
    """For JSON: every cell with its text and, where it is one, its number; nothing is null by 0."""
    table = one.table
    return {
        "name": one.name,
        "title": one.title,
        "about": one.about,
        "condition": one.condition or None,
        "columns": list(table.headers),
        "rows": [[_plain_item(item) for item in row] for row in table.rows],
    }


def _plain_item(item: Item) -> dict[str, Any]:
    if not isinstance(item, Estimate):
        return {"text": str(item)}
    numbers = {name: getattr(item, name) for name in ("value", "low", "high", "n", "unit")}
    return {"text": str(item), **numbers, "cells": list(item.sources)}


def _csv(one: Tabled) -> str:
    """A comment line, then one column per number: value, and low, high and n where known.

    Numbers are unrounded, in base units; what does not exist is an empty field.
    """
    table = one.table
    columns: list[list[str]] = []
    headers: list[str] = []
    for index, header in enumerate(table.headers):
        items = [row[index] for row in table.rows]
        numbers = [item if isinstance(item, Estimate) else None for item in items]
        found = [number for number in numbers if number is not None]
        if not found:
            headers.append(header)
            columns.append([str(item) for item in items])
            continue
        unit = next((number.unit for number in found if number.unit), "")
        named = header if not unit or unit in header else f"{header} ({unit})"
        headers.append(named)
        columns.append([_field(number, "value") for number in numbers])
        for part in ("low", "high", "n"):
            if any(getattr(number, part) is not None for number in found):
                headers.append(f"{header} {part}")
                columns.append([_field(number, part) for number in numbers])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows(zip(*columns, strict=True))
    caption = f"{one.title}. {one.about}".strip()
    return f"# {caption}\n{out.getvalue().rstrip()}"


def _field(number: Estimate | None, part: str) -> str:
    value = None if number is None else getattr(number, part)
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _latex(one: Tabled) -> str:
    """A `table` with booktabs rules; `%`, `_`, `&` and the like are escaped."""
    table = one.table
    body = tabulate(
        table.text_rows(),
        headers=table.headers,
        tablefmt="latex_booktabs",
        colalign=table.alignment(),
        disable_numparse=True,
    )
    caption = _latex_escaped(f"{one.title}. {one.about}".strip())
    return f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n{body}\n\\end{{table}}"


def _latex_escaped(text: str) -> str:
    special = {c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\^{}"}
    special["\\"] = r"\textbackslash{}"
    return "".join(special.get(character, character) for character in text)
