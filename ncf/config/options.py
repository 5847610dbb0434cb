"""Options from a dataclass: its fields are the command line, and what `ncf options` tells bench.

A field made by `option` or `flag` has its help and its choices with it; dashes and underscores in
names are interchangeable.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT = {"topk": "-k", "batch_size": "-b", "epochs": "-e", "factors": "-f", "seed": "-s"}


def option(default: Any, help_: str, *, choices: tuple[str, ...] | None = None) -> Any:
    """A field with its default and what it means."""
    return dataclasses.field(default=default, metadata={"help": help_, "choices": choices})


def flag(help_: str) -> Any:
    """A field that is off unless given."""
    return dataclasses.field(default=False, metadata={"help": help_, "choices": None})


def echo(config: Any, paths: Sequence[str]) -> dict[str, Any]:
    """The options as used, for the record; paths are cut to their last part."""
    values = dataclasses.asdict(config)
    for name in paths:
        values[name] = Path(values[name]).name
    return values


def require(config: Any, name: str, holds: bool, rule: str) -> None:  # noqa: FBT001 - a check reads best this way
    """Raise a UserError that names option and value unless the rule holds."""
    if not holds:
        raise UserError(f"--{name} {shown(getattr(config, name))}: {rule}")


def check_amp_only(config: Any, names: Sequence[str]) -> None:
    """Refuse options that mean something with `--precision amp` alone; their default is auto."""
    for name in names:
        if config.precision != "amp" and getattr(config, name) != "auto":
            raise UserError(
                f"--{name} {getattr(config, name)} needs --precision amp, "
                f"not {config.precision}: drop one of the two"
            )


def shown(value: Any) -> str:
    """A value as it is typed."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def option_type(entry: dataclasses.Field[Any]) -> str:
    """int, float, str, bool or int_list: the kinds a suite file may hold."""
    text = str(entry.type)
    return "int_list" if text.startswith("tuple") else text.removesuffix(" | None")


def describe(config: Any) -> list[dict[str, Any]]:
    """All options of a dataclass as plain data: bench checks suites with it."""
    return [
        {
            "name": entry.name,
            "type": option_type(entry),
            "default": list(entry.default) if isinstance(entry.default, tuple) else entry.default,
            "choices": entry.metadata["choices"],
            "help": entry.metadata["help"],
        }
        for entry in dataclasses.fields(config)
    ]


class Parser(argparse.ArgumentParser):
    """argparse with our error form: one line that names the nearest known option, exit code 2."""

    def error(self, message: str) -> Any:
        """Raise instead of printing the usage: main prints one line."""
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            unknown = message.removeprefix(prefix).split()[0]
            near = difflib.get_close_matches(unknown.partition("=")[0], _spoken(self), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UserError(f"unknown option {unknown}{hint} (see `{self.prog} --help`)")
        raise UserError(f"{message} (see `{self.prog} --help`)")


def _spoken(parser: argparse.ArgumentParser) -> list[str]:
    """All option strings of a parser and of its commands."""
    actions = [*parser._actions]  # noqa: SLF001 - argparse offers no other way to list them
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            actions += [part for command in action.choices.values() for part in command._actions]  # noqa: SLF001
    return [name for action in actions for name in action.option_strings]


def add_arguments(parser: argparse.ArgumentParser, config: Any) -> None:
    """Give parser every option of a dataclass, under both spellings, and `--amp`."""
    kinds = {"int": int, "float": float, "str": str}
    for entry in dataclasses.fields(config):
        names = _spellings(entry.name)
        names += [_SHORT[entry.name]] if entry.name in _SHORT else []
        help_ = entry.metadata["help"].replace("%", "%%")
        kind = option_type(entry)
        if kind == "bool":
            parser.add_argument(*names, action="store_true", help=help_)
            continue
        default = "none" if entry.default is None else shown(entry.default) or "none"
        parser.add_argument(
            *names,
            type=int if kind == "int_list" else kinds[kind],
            nargs="+" if kind == "int_list" else None,
            default=entry.default,
            choices=entry.metadata["choices"],
            metavar=None if entry.metadata["choices"] else kind.removesuffix("_list").upper(),
            help=f"{help_} [{default}]",
        )
    parser.add_argument("--amp", action="store_true", help="the same as --precision amp")


def _spellings(name: str) -> list[str]:
    return list(dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]))


def parse(config: Any, arguments: Sequence[str], prog: str, description: str) -> dict[str, Any]:
    """A command line as values for the dataclass; UserError says what is wrong."""
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    add_arguments(parser, config)
    values = vars(parser.parse_args(arguments))
    if values.pop("amp"):
        given = any(word.startswith("--precision") for word in arguments)
        if given and values["precision"] != "amp":
            raise UserError(f"--amp and --precision {values['precision']} contradict: drop one")
        values["precision"] = "amp"
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
