"""The one exception that means "the user can fix this": one line, exit code 2, no traceback."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any


class UserError(Exception):
    """Bad input, named with its file, line, option or value and the way out."""


def show(value: Any) -> str:
    """A value as a TOML file would spell it, for messages."""
    return json.dumps(value, default=str, ensure_ascii=False)


def did_you_mean(word: Any, known: Sequence[Any] | Mapping[Any, Any]) -> str:
    """`; did you mean 'batch_size'?` for the nearest known word, or nothing if none is near."""
    wanted = str(word).replace("-", "_").lower()
    near = get_close_matches(wanted, [str(item) for item in known], n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
