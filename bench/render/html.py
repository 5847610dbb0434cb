"""A page as one HTML file that needs nothing else. Pure: nodes, runs, pictures as data URIs in."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.render.model import Cell, Heading, Image, Items, Quote, Tabled, Text
from bench.render.web import SCRIPT, STYLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.render.model import Node, Table


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


FAILED = ("oom", "nan", "timeout", "crash", "invalid", "interrupted")

_SPREAD = re.compile(r"( \[| \(|, n=|, \d+ %$)")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def page(nodes: Sequence[Node], runs: Sequence[RunList], pictures: Mapping[str, str]) -> str:
    """The whole file.

    Args:
        nodes: the report.
        runs: every attempt, listed below the report; numbers are linked to them.
        pictures: data URI of every picture by the path that its node names.
    """
    known = {_anchor(one.condition, one.key) for one in runs}
    title = next(node.text for node in nodes if isinstance(node, Heading))
    body, contents = [], []
    for index, node in enumerate(nodes):
        if isinstance(node, Heading) and node.level <= 2 and index:
            contents.append(f'<li><a href="#part-{index}">{_inline(node.text)}</a></li>')
        body.append(_node(node, index, known, pictures))
        if index == 0:
            body.append("{contents}")
    contents.append('<li><a href="#runs">Every run</a></li>')
    body.append('<h2 id="runs">Every run</h2>')
    body.append("<p>All attempts, good and failed, by cell. A number above links to its runs.</p>")
    several = len({one.condition for one in runs if one.condition}) > 1
    body += [_run_list(one, several=several) for one in runs]
    nav = f'<nav aria-label="Contents"><ul>{"".join(contents)}</ul></nav>'
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>",
            f"<style>\n{STYLE}</style>\n</head>\n<body>\n<main>",
            *(nav if part == "{contents}" else part for part in body),
            "</main>\n<footer>Made by <code>bench report</code> from stored records.</footer>",
            f"<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def _node(node: Node, index: int, known: set[str], pictures: Mapping[str, str]) -> str:
    if isinstance(node, Heading):
        level = min(node.level, 3)
        return f'<h{level} id="part-{index}">{_inline(node.text)}</h{level}>'
    if isinstance(node, Text):
        return f"<p>{_inline(node.text)}</p>"
    if isinstance(node, Quote):
        return f"<blockquote><p>{_inline(node.text)}</p></blockquote>"
    if isinstance(node, Items):
        return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in node.items)}</ul>"
    if isinstance(node, Image):
        caption = html.escape(node.caption)
        return (
            f'<figure><div class="picture wide" role="region" aria-label="{caption}" tabindex="0">'
            f'<img src="{pictures[node.png]}" alt="{caption}"></div>'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return _tabled(node, known)


def _tabled(node: Tabled, known: set[str]) -> str:
    caption = html.escape(f"{node.title}. {node.about}".strip())

    def cell(text: str, _row: int) -> str:
        return _cell(text, node.condition, known)

    return _table(node.table, caption, html.escape(node.title), cell)


def _table(table: Table, caption: str, label: str, cell: Callable[[str, int], str]) -> str:
    words = [header in table.left for header in table.headers]
    heads = "".join(
        f'<th scope="col" aria-sort="none"{_words(word)}><button type="button">'
        f"{html.escape(header)}</button></th>"
        for header, word in zip(table.headers, words, strict=True)
    )
    rows = []
    for number, row in enumerate(table.rows):
        cells = "".join(
            f'<td{_words(word)} data-value="{html.escape(_sort_key(text, word=word))}">'
            f"{cell(text, number)}</td>"
            for text, word in zip(row, words, strict=True)
        )
        rows.append(f"<tr>{cells}</tr>")
    # The region scrolls sideways on a narrow screen, so the keyboard must reach it.
    return (
        f'<p class="caption">{caption}</p>'
        f'<div class="wide" role="region" aria-label="{label}" tabindex="0">'
        f'<table aria-label="{label}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _words(word: bool) -> str:  # noqa: FBT001 - a column holds words or it does not
    return ' class="words"' if word else ""


def _sort_key(text: str, *, word: bool) -> str:
    """What a column is sorted by: the number, unrounded where it is known; "" for none."""
    if word:
        return text
    if isinstance(text, Cell) and text.number is not None:
        return "" if text.number.value is None else repr(text.number.value)
    match = _NUMBER.match(text)
    return match[0].replace(",", "").removeprefix("+") if match else ""


def _cell(text: str, condition: int, known: set[str]) -> str:
    """The number, linked to its runs, and below it spread and sample size."""
    if not isinstance(text, Cell):
        return html.escape(text)
    match = _SPREAD.search(text)
    head, tail = (text[: match.start()], text[match.start() :]) if match else (str(text), "")
    shown = f'<span class="value">{html.escape(head)}</span>'
    anchors = [_anchor(at, key) for key in text.keys for at in (condition, 0)]
    anchors = [anchor for anchor in anchors if anchor in known]
    if anchors and not text.startswith("n/a"):
        shown = f'<a href="#{html.escape(anchors[0])}">{shown}</a>'
        sign = "÷" if text.number and text.number.unit == "ratio" else "against"
        for anchor in anchors[1:]:
            label = "runs that it is compared with"
            shown += f' <a href="#{html.escape(anchor)}" title="{label}">{sign}</a>'
    spread, comma, size = tail.partition(", n=")
    lines = [spread.removeprefix(", ").strip(), f"n={size}" if comma else ""]
    return shown + "".join(
        f'<span class="spread">{html.escape(line)}</span>' for line in lines if line
    )


def _anchor(condition: int, key: str) -> str:
    return f"runs-{condition}-{key}"


def _run_list(one: RunList, *, several: bool) -> str:
    anchor = html.escape(_anchor(one.condition, one.key))
    own = several and one.condition > 0
    title = f"{one.title}, condition {one.condition}" if own else one.title

    def cell(text: str, row: int) -> str:
        if text == "record":
            return f'<a href="{html.escape(one.links[row])}">record</a>'
        shown = html.escape(text)
        return f'<span class="failed">{shown}</span>' if text in FAILED else shown

    table = _table(one.table, html.escape(title), html.escape(title), cell)
    return (
        f'<details id="{anchor}"><summary>{html.escape(title)} '
        f"<span>{html.escape(one.note)}</span></summary>{table}</details>"
    )


def _inline(text: str) -> str:
    """`code`, **bold**, *italic* and [links](target) of a text, everything else escaped."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{html.escape(part[1:-1])}</code>" if part.startswith("`") else _styled(part)
        for part in parts
    )


def _styled(text: str) -> str:
    out = html.escape(text)
    out = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', out)
    out = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", out)
    return re.sub(r"(?<![*\w])\*([^*\s][^*]*)\*(?![*\w])", r"<em>\1</em>", out)
