"""The one exception that means "the user can fix this": one line, exit code 2, no traceback."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class UserError(Exception):
    """Bad input, named with its file, line, option or value and the way out."""


def show(value: Any) -> str:
    """A value as a TOML file would spell it, for messages."""
    return json.dumps(value, default=str, ensure_ascii=False)


def did_you_mean(word: Any, choices: Iterable[Any]) -> str:
    """`; did you mean 'batch_size'?` for the nearest of the choices, or nothing if none is near."""
    by_spelling = {_spelling(choice): str(choice) for choice in choices}
    near = get_close_matches(_spelling(word), by_spelling, n=1, cutoff=0.6)
    return f"; did you mean {by_spelling[near[0]]!r}?" if near else ""


def _spelling(word: Any) -> str:
    return str(word).replace("-", "_").lower()
