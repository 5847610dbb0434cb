"""A page as one HTML file that needs nothing else: nodes, runs, pictures as data URIs in.

The template, its style and its script are files beside this one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.render.model import Estimate, Heading, Image, Items, Quote, Sample, Several, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.render.model import Item, Node, Table

FOLDER = Path(__file__).parent
FAILED = ("oom", "nan", "timeout", "crash", "invalid", "interrupted")


@dataclass(frozen=True)
class RunList:
    """The attempts of one cell under one condition: what a number in a table is linked to.

    Condition 0 holds runs of other programs.
    """

    condition: int
    key: str
    title: str
    note: str
    table: Table
    links: tuple[str, ...]
    """Per row of the table, the record's path relative to the report."""


def page(nodes: Sequence[Node], runs: Sequence[RunList], pictures: Mapping[str, str]) -> str:
    """The whole file.

    Args:
        nodes: the report.
        runs: every attempt, listed below the report; numbers are linked to them.
        pictures: data URI of every picture by the path that its node names.
    """
    anchors = {_anchor(each.condition, each.key) for each in runs}
    several = len({each.condition for each in runs if each.condition}) > 1
    text: str = _template().render(
        title=next(node.text for node in nodes if isinstance(node, Heading)),
        contents=[
            {"anchor": f"part-{index}", "text": node.text}
            for index, node in enumerate(nodes)
            if isinstance(node, Heading) and node.level <= 2 and index
        ],
        parts=[_part(node, anchors, pictures) for node in nodes],
        run_lists=[_run_list(each, several=several) for each in runs],
    )
    return text


@lru_cache
def _template() -> Any:
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, keep_trailing_newline=True
    )
    environment.filters["inline"] = _inline
    for name, file in (("style", "report.css"), ("script", "report.js")):
        text = (FOLDER / file).read_text(encoding="utf-8")
        environment.globals[name] = Markup(text)  # noqa: S704 - files of ours
    return environment.get_template("report.html.j2")


def _part(node: Node, anchors: set[str], pictures: Mapping[str, str]) -> dict[str, Any]:
    """A node as the template takes it."""
    if isinstance(node, Heading):
        return {"kind": "heading", "level": min(node.level, 3), "text": node.text}
    if isinstance(node, Text):
        return {"kind": "text", "text": node.text}
    if isinstance(node, Quote):
        return {"kind": "quote", "text": node.text}
    if isinstance(node, Items):
        return {"kind": "items", "lines": node.items}
    if isinstance(node, Image):
        return {"kind": "image", "text": node.caption, "source": pictures[node.png]}

    def cell(item: Item, _row: int) -> dict[str, Any]:
        return _estimate(item, node.condition, anchors) if isinstance(item, Estimate) else {}

    caption = f"{node.title}. {node.about}".strip()
    return {"kind": "table", "grid": _grid(node.table, caption, node.title, cell)}


def _run_list(runs: RunList, *, several: bool) -> dict[str, Any]:
    own = several and runs.condition > 0
    title = f"{runs.title}, condition {runs.condition}" if own else runs.title

    def cell(item: Item, row: int) -> dict[str, Any]:
        return {"link": runs.links[row]} if item == "record" else {"failed": item in FAILED}

    return {
        "anchor": _anchor(runs.condition, runs.key),
        "title": title,
        "note": runs.note,
        "grid": _grid(runs.table, title, title, cell),
    }


def _grid(
    table: Table, caption: str, label: str, cell: Callable[[Item, int], dict[str, Any]]
) -> dict[str, Any]:
    """A table as the template takes it; `cell` adds what is special about an item."""
    words = [header in table.left for header in table.headers]
    heads = zip(table.headers, words, strict=True)
    rows = [
        [
            {"text": str(item), "words": word, "key": _sort_key(item, word=word), **cell(item, row)}
            for item, word in zip(items, words, strict=True)
        ]
        for row, items in enumerate(table.rows)
    ]
    columns = [{"title": title, "words": word} for title, word in heads]
    return {"caption": caption, "label": label, "columns": columns, "rows": rows}


def _sort_key(item: Item, *, word: bool) -> str:
    """What a column is sorted by: the unrounded number, or the words; "" where there is none."""
    if word:
        return str(item)
    value: object = item
    if isinstance(item, Estimate):
        value = item.value
    elif isinstance(item, Sample):
        value = item.n
    elif isinstance(item, Several):
        value = item.values[0]
    return "" if value is None or isinstance(value, str) else repr(value)


def _estimate(item: Estimate, condition: int, anchors: set[str]) -> dict[str, Any]:
    """The number, linked to its runs, and below it spread and sample size."""
    own = [_anchor(at, key) for key in item.sources for at in (condition, 0)]
    spread = item.spread_text().removeprefix(", ").strip()
    return {
        "value": item.number_text(),
        "anchors": [] if item.value is None else [anchor for anchor in own if anchor in anchors],
        "sign": "÷" if item.unit == "ratio" else "against",
        "lines": [line for line in (spread, item.sample_text()) if line],
    }


def _anchor(condition: int, key: str) -> str:
    return f"runs-{condition}-{key}"


def _inline(text: str) -> Any:
    """`code`, **bold**, *italic* and [links](target) of a text, everything else escaped."""
    from markupsafe import Markup, escape

    styled = (
        f"<code>{escape(part[1:-1])}</code>" if part.startswith("`") else _styled(str(escape(part)))
        for part in re.split(r"(`[^`]+`)", text)
    )
    return Markup("".join(styled))  # noqa: S704 - every part is escaped


def _styled(escaped: str) -> str:
    linked = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', escaped)
    bold = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", linked)
    return re.sub(r"(?<![*\w])\*([^*\s][^*]*)\*(?![*\w])", r"<em>\1</em>", bold)
