"""The trainer's options, read from the trainer itself: one list, so suites and trainer agree."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench.errors import UserError, did_you_mean, show

if TYPE_CHECKING:
    from collections.abc import Mapping

TRAIN, INFER = "train", "infer"
"""Commands of the trainer that a suite can run."""

Value = int | float | str | bool | tuple[int, ...]
"""What a trainer option can hold in a suite."""

TRAINER = (sys.executable, "-m", "ncf")

_TYPES = {"int": int, "float": float, "str": str, "bool": bool}
_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "int_list": "a list of whole numbers",
}


@dataclass(frozen=True)
class Option:
    """One option of `ncf train`; type is one of int, float, str, bool, int_list."""

    name: str
    type: str
    default: Any
    choices: tuple[Any, ...] | None = None
    help: str = ""

    def check(self, value: Any, where: str) -> Value:
        """The value in the option's own type (1 becomes 1.0 where a float is meant).

        Raises:
            UserError: another type, or none of the choices; `where` names the place.
        """
        checked = self._typed(value)
        if checked is None:
            raise UserError(f"{where}: {self.name} must be {_NAMES[self.type]}, not {show(value)}")
        if self.choices and checked not in self.choices:
            choices = ", ".join(str(choice) for choice in self.choices)
            raise UserError(
                f"{where}: {self.name} must be one of {choices}, not {show(value)}"
                f"{did_you_mean(value, self.choices)}"
            )
        return checked

    def _typed(self, value: Any) -> Value | None:
        if self.type == "int_list":
            whole = isinstance(value, list | tuple) and all(_is(item, int) for item in value)
            return tuple(value) if whole and value else None
        if self.type == "float":
            return float(value) if _is(value, int) or _is(value, float) else None
        kind = _TYPES[self.type]
        return kind(value) if _is(value, kind) else None


def _is(value: Any, kind: type) -> bool:
    """Like isinstance, but true is not the number 1."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def parse_options(text: str, command: str = TRAIN) -> dict[str, Option]:
    """Options of a command by name, from the JSON that `ncf options --json` prints.

    A command that the JSON does not list has no options.

    Raises:
        ValueError: the text is not that JSON.
    """
    try:
        entries = _section(text, command)["options"]
        options = [
            Option(
                str(entry["name"]),
                str(entry["type"]),
                entry["default"],
                tuple(entry["choices"]) if entry.get("choices") else None,
                str(entry.get("help") or ""),
            )
            for entry in entries
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"unexpected form: {type(error).__name__} {error}") from None
    for option in options:
        if option.type not in _NAMES:
            raise ValueError(f"option {option.name} has the unknown type {option.type!r}")
    return {option.name: option for option in options}


def _section(text: str, command: str) -> Mapping[str, Any]:
    """The part of the JSON that is about one command."""
    data: Mapping[str, Any] = json.loads(text)
    return data if command == TRAIN else (data.get("commands") or {}).get(command, {"options": []})


def parse_versions(text: str, command: str = TRAIN) -> dict[str, str]:
    """The installed versions, from the same JSON; empty if it has none."""
    versions = _section(text, command).get("versions") or {}
    return {str(name): str(value) for name, value in versions.items()}


def trainer_options(trainer: tuple[str, ...] = TRAINER, command: str = TRAIN) -> dict[str, Option]:
    """The options of one of the trainer's commands by name.

    Raises:
        UserError: the trainer cannot be started or does not answer with its options.
    """
    try:
        return parse_options(ask(trainer), command)
    except ValueError as error:
        command = " ".join((*trainer[1:], "options --json"))
        raise UserError(f"`python {command}` printed no list of options ({error})") from None


def trainer_versions(trainer: tuple[str, ...] = TRAINER, command: str = TRAIN) -> dict[str, str]:
    """Versions that a run would have now, as far as the trainer knows them without a run."""
    return parse_versions(ask(trainer), command)


@lru_cache(maxsize=4)
def ask(trainer: tuple[str, ...]) -> str:
    """The answer of `ncf options --json`; the trainer is started once per process."""
    command = " ".join((*trainer[1:], "options --json"))
    try:
        answer = subprocess.run(
            [*trainer, "options", "--json"],
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=120,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"the trainer does not start (`python {command}`): {error}") from None
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UserError(
            f"`python {command}` ended with exit code {answer.returncode}: {last} "
            "(run from the repository, or install it with `pip install -e .`)"
        )
    return answer.stdout


def arguments(values: Mapping[str, Value]) -> list[str]:
    """Values as command line arguments of the trainer: `--name value`, a bare flag for true.

    A false adds nothing: every switch of the trainer is off unless given.
    """
    words: list[str] = []
    for name, value in values.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, tuple):
            words += [f"--{name}", *(str(item) for item in value)]
        elif value is not False:
            words += [f"--{name}", str(value)]
    return words
