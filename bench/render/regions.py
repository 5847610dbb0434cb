"""The regions of a Markdown file that a command keeps up to date. Pure.

    <!-- ncf-bench:begin smoke accuracy -->
    ... replaced ...
    <!-- ncf-bench:end -->

A marker stands on a line of its own. Markers inside a fenced code block are examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXAMPLE = "<!-- ncf-bench:begin smoke accuracy --> and <!-- ncf-bench:end --> on lines of their own"

_MARKER = re.compile(r"\s*<!--\s*ncf-bench:(?P<kind>[^\s>]*)(?P<words>.*?)-->\s*")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")  # and no other line ends: numbers as editors show them
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


@dataclass(frozen=True)
class Region:
    """What one region shows; `where` is file:line of its first marker."""

    suite: str
    table: str
    where: str


def replace(text: str, file: str, render: Callable[[Region], str | None]) -> str:
    """The text with the content of every region replaced; all else stays byte for byte.

    Args:
        text: the file's content, line ends as they are.
        file: for messages.
        render: the new content of a region, without line ends around it; None leaves it alone.

    Raises:
        UserError: a marker is broken or has no partner, or there are none; names the line.
    """
    lines = _LINES.findall(text)
    pairs = _pairs(lines, file)
    if not pairs:
        raise UserError(f"{file}: no region to update; write {EXAMPLE}")
    out: list[str] = []
    done = 0
    for first, last, region in pairs:
        content = render(region)
        out += lines[done : first + 1]
        if content is None:
            out += lines[first + 1 : last]
        else:
            end = "\r\n" if lines[first].endswith("\r\n") else "\n"
            out += [f"{line}{end}" for line in ("", *content.split("\n"), "")]
        done = last
    return "".join([*out, *lines[done:]])


def _pairs(lines: Sequence[str], file: str) -> list[tuple[int, int, Region]]:
    """Index of begin and end line of every region."""
    found = []
    begun: tuple[int, Region] | None = None
    fence = ""
    for index, line in enumerate(lines):
        where = f"{file}:{index + 1}"
        if match := _FENCE.match(line):
            fence = _after_fence(fence, match[1], line)
            continue
        if fence or "ncf-bench:" not in line:
            continue
        marker = _MARKER.fullmatch(line)
        if marker is None or marker["kind"] not in ("begin", "end"):
            raise UserError(f"{where}: a broken marker: {line.strip()!r}; write {EXAMPLE}")
        if marker["kind"] == "end":
            if begun is None:
                raise UserError(f"{where}: ncf-bench:end without a begin before it")
            found.append((begun[0], index, begun[1]))
            begun = None
            continue
        if begun is not None:
            raise UserError(
                f"{where}: ncf-bench:begin inside the region that begins at line {begun[0] + 1}, "
                "which has no end"
            )
        words = marker["words"].split()
        if len(words) != 2:
            raise UserError(
                f"{where}: a region names a suite and a table, as in "
                f"`ncf-bench:begin smoke accuracy`, not {' '.join(words)!r}"
            )
        begun = (index, Region(words[0], words[1], where))
    if begun is not None:
        raise UserError(f"{file}:{begun[0] + 1}: ncf-bench:begin without an end after it")
    return found


def _after_fence(open_fence: str, found: str, line: str) -> str:
    """The fence that is open after a line with a fence in it; "" for none."""
    if not open_fence:
        return found
    closes = found.startswith(open_fence) and line.strip() == found
    return "" if closes else open_fence
