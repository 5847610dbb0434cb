"""Comparison with a stored text. `UPDATE_GOLDEN=1 pytest ...` rewrites it; read the diff then."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "golden"


def check(name: str, text: str) -> None:
    """The text is, byte for byte, what tests/golden/<name> holds."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
