"""Options from a dataclass: its fields are the command line, and what `ncf options` describes.

A field made by `option` or `flag` carries its help, its choices and the rule that its value must
obey; dashes and underscores in names are interchangeable.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

Config = TypeVar("Config", bound="Options")

_SHORT: Final = {"topk": "-k", "batch_size": "-b", "epochs": "-e", "factors": "-f", "seed": "-s"}


class Rule(NamedTuple):
    """A test of one option's value, and the text of the error."""

    text: str
    holds: Callable[[Any], bool]


ABOVE_0: Final = Rule("must be a number above 0", lambda value: value > 0 and math.isfinite(value))
SHARE: Final = Rule("must lie in [0, 1)", lambda value: 0 <= value < 1)
SEED: Final = Rule("must lie in [0, 2**63)", lambda value: 0 <= value < 2**63)
WIDTHS: Final = Rule(
    "needs positive widths, the first at least 2",
    lambda widths: bool(widths) and min(widths) >= 1 and widths[0] >= 2,
)


def option(
    default: Any = "",
    help_: str = "",
    *,
    choices: tuple[str, ...] | None = None,
    least: int | None = None,
    rule: Rule | None = None,
    path: bool = False,
) -> Any:
    """A field with its default and help.

    Args:
        default: the value if the option is not given.
        help_: what the option means.
        choices: the values that it may have.
        least: the least number; of several numbers, of each.
        rule: another rule for the value.
        path: whether records name its last part only.
    """
    if least is not None:
        rule = Rule(f"must be at least {least}", lambda value: _lowest(value) >= least)
    metadata = {"help": help_, "choices": choices, "rule": rule, "path": path}
    return dataclasses.field(default=default, metadata=metadata)


def _lowest(value: Any) -> Any:
    return min(value, default=-1) if isinstance(value, tuple) else value


def flag(help_: str) -> Any:
    """A field that is off unless given."""
    return option(default=False, help_=help_)


def shared(name: str) -> Any:
    """A field that `ncf train` and `ncf infer` have in common."""
    return option(**_SHARED[name])


_SHARED: Final[dict[str, dict[str, Any]]] = {
    "precision": {
        "default": "fp32",
        "help_": "fp32 (TF32 off), tf32 (on) or amp (float16 on a GPU, bfloat16 on a CPU)",
        "choices": ("fp32", "tf32", "amp"),
    },
    "amp_dtype": {
        "default": "auto",
        "help_": "compute type of amp; auto is float16 on a GPU and bfloat16 on a CPU",
        "choices": ("auto", "bfloat16", "float16"),
    },
    "log_path": {"help_": "append DLLogger lines (DLLL {json}) to this file", "path": True},
    "record": {"help_": "write the run's record (JSON) to this file", "path": True},
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Base of the configurations of commands."""

    def echo(self) -> dict[str, Any]:
        """The options as used, for the record; paths are cut to their last part."""
        values = dataclasses.asdict(self)
        for entry in dataclasses.fields(self):
            if entry.metadata["path"]:
                values[entry.name] = Path(values[entry.name]).name
        return values

    def validate(self) -> None:
        """Raise a UserError that names the first option out of range."""
        for entry in dataclasses.fields(self):
            value, rule = getattr(self, entry.name), entry.metadata["rule"]
            if rule and value is not None:
                self.require(entry.name, rule.text, holds=rule.holds(value))
        self.check_combinations()

    def check_combinations(self) -> None:
        """Raise a UserError if options contradict each other."""

    def require(self, name: str, rule: str, *, holds: bool) -> None:
        """Raise a UserError that names option and value unless the rule holds."""
        if not holds:
            raise UserError(f"--{name} {shown(getattr(self, name))}: {rule}")

    def check_amp_only(self, *names: str) -> None:
        """Refuse options that have a meaning with `--precision amp` only; their default is auto."""
        precision = getattr(self, "precision")  # noqa: B009 - a field of the subclasses
        for name in names:
            if precision != "amp" and getattr(self, name) != "auto":
                raise UserError(
                    f"--{name} {getattr(self, name)} needs --precision amp, not {precision}: "
                    "drop one of the two"
                )


def shown(value: Any) -> str:
    """A value as it is typed."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def option_type(entry: dataclasses.Field[Any]) -> str:
    """int, float, str, bool or int_list: the kinds a suite file may have."""
    text = str(entry.type)
    return "int_list" if text.startswith("tuple") else text.removesuffix(" | None")


def describe(config: type[Options]) -> list[dict[str, Any]]:
    """All options of a dataclass as plain data, with which bench checks suites."""
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
    """argparse with one-line errors that name the nearest option; main prints them."""

    def error(self, message: str) -> Any:
        """Raise instead of printing the usage."""
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            unknown = message.removeprefix(prefix).split()[0]
            options = [name for action in self._actions for name in action.option_strings]
            near = difflib.get_close_matches(unknown.partition("=")[0], options, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UserError(f"unknown option {unknown}{hint} (see `{self.prog} --help`)")
        raise UserError(f"{message} (see `{self.prog} --help`)")


def add_arguments(parser: argparse.ArgumentParser, config: type[Options]) -> None:
    """Give parser every option of a dataclass, under both spellings, and `--amp`."""
    kinds = {"int": int, "float": float, "str": str}
    for entry in dataclasses.fields(config):
        names = list(dict.fromkeys([f"--{entry.name}", f"--{entry.name.replace('_', '-')}"]))
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
            default=None if entry.name == "precision" else entry.default,
            choices=entry.metadata["choices"],
            metavar=None if entry.metadata["choices"] else kind.removesuffix("_list").upper(),
            help=f"{help_} [{default}]",
        )
    parser.add_argument("--amp", action="store_true", help="the same as --precision amp")


def configuration(config: type[Config], parsed: argparse.Namespace) -> Config:
    """The validated configuration of a parsed command line.

    Raises:
        UserError: an option is out of range, or options contradict each other.
    """
    names = [entry.name for entry in dataclasses.fields(config)]
    values = {name: getattr(parsed, name) for name in names}
    precision = values.pop("precision")
    if parsed.amp and precision not in (None, "amp"):
        raise UserError(f"--amp and --precision {precision} contradict: drop one")
    if parsed.amp or precision:
        values["precision"] = "amp" if parsed.amp else precision
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    configured = config(**values)
    configured.validate()
    return configured
