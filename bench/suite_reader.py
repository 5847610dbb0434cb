"""What every table of a suite file has in common: checked values, and mistakes with their line.

Pure.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from bench.errors import UserError
from bench.options import did_you_mean, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Reader:
    """Reads values of one file; knows where each key stands."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where

    def whole(self, table: str, key: str, value: Any, least: int = 0) -> int:
        """A whole number that fits 64 bits."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise self.error(
                table, key, f"{key} must be a whole number from {least}, not {show(value)}"
            )
        return value

    def positive(self, table: str, key: str, value: Any) -> float:
        """A finite number above 0."""
        if not _finite(value) or not value > 0:
            raise self.error(table, key, f"{key} must be a number above 0, not {show(value)}")
        return float(value)

    def seconds(self, table: str, key: str, value: Any) -> float:
        """A finite number from 0."""
        if not _finite(value) or value < 0:
            raise self.error(table, key, f"{key} must be a number from 0, not {show(value)}")
        return float(value)

    def text_of(self, table: Mapping[str, Any], key: str) -> str:
        """A text at the top of the file; empty if it is not there."""
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self.error("", key, f"{key} must be a text, not {show(value)}")
        return value

    def texts(self, table: str, key: str, value: Any) -> tuple[str, ...]:
        """A list of texts."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(table, key, f"{key} must be a list of texts, not {show(value)}")
        return tuple(value)

    def counts(self, table: str, key: str, value: Any) -> tuple[int, ...]:
        """A list of whole numbers from 1."""
        if not isinstance(value, list):
            raise self.error(table, key, f"{key} must be a list of numbers, not {show(value)}")
        return tuple(self.whole(table, key, item, 1) for item in value)

    def one_of(self, table: str, key: str, value: Any, known: Sequence[str]) -> str:
        """One of a few words."""
        if value not in known:
            raise self.error(
                table,
                key,
                f"{key} must be one of {', '.join(known)}, not {show(value)}"
                f"{did_you_mean(value, known)}",
            )
        return str(value)

    def yes_or_no(self, table: str, key: str, value: Any) -> bool:
        """True or false."""
        if not isinstance(value, bool):
            raise self.error(table, key, f"{key} must be true or false, not {show(value)}")
        return value

    def known(self, table: str, given: Mapping[str, Any], known: Sequence[str] | None) -> None:
        """Refuse the first key that is not known; None knows all."""
        for key in given:
            if known is not None and key not in known:
                inside = f" in [{table}]" if table else ""
                raise self.error(
                    table,
                    key,
                    f"unknown key {key!r}{inside}{did_you_mean(key, known)} "
                    f"(known: {', '.join(known)})",
                )

    def error(self, table: str, key: str, message: str) -> UserError:
        """A mistake at its place."""
        return UserError(f"{self.place(table, key)}: {message}")

    def place(self, table: str, key: str) -> str:
        """`file:line` of a key, or just the file when the line is not found."""
        current = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[\[?\s*([^\[\]]+?)\s*\]", line)
            if header:
                current = header[1].strip("\"'")
                if not table and current == key:
                    return f"{self.where}:{number}"
            elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return f"{self.where}:{number}"
        return self.where


def _finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)
