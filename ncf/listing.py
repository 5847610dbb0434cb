"""Recommendations as Markdown, CSV or JSON. Pure."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("markdown", "csv", "json")


@dataclass(frozen=True)
class Recommendation:
    """One place in a user's list; ids as in the source, title None where no file told one."""

    user: str
    rank: int
    item: str
    title: str | None
    score: float


def listing(found: Sequence[Recommendation], form: str, *, titles: bool) -> str:
    """All places of all users.

    Args:
        found: in the order in which they are shown.
        form: one of FORMATS.
        titles: whether there is a column for them.
    """
    columns = ["user", "rank", "item", *(["title"] if titles else []), "score"]
    rows = [[_field(one, name) for name in columns] for one in found]
    if form == "json":
        plain = [dict(zip(columns, row, strict=True)) for row in rows]
        return json.dumps(plain, indent=1, ensure_ascii=False)
    texts = [[_text(value) for value in row] for row in rows]
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([columns, *texts])
        return out.getvalue().rstrip("\n")
    heads = [name.capitalize() for name in columns]
    rule = ["---:" if name in ("rank", "score") else "---" for name in columns]
    cells = [[text.replace("|", "\\|") for text in row] for row in texts]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *cells))


def _field(one: Recommendation, name: str) -> Any:
    return getattr(one, name)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
