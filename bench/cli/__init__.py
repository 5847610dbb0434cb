"""The command line: one table of commands. A command's module is imported when it is called."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from bench.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "ncf-bench"
OK, FAILED, USAGE, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 130
DESCRIPTION = """\
Train NeuMF over the grid of a suite (ranks x precisions x seeds), store a record of every run,
and make tables and pictures from the records. Running a suite again continues where it stopped.
"""
EXAMPLES = f"""\
examples:
  {PROGRAM} smoke                      minutes on any machine, generated data
  {PROGRAM} ml-100k                    MovieLens 100k
  {PROGRAM} run dgx --data ml-20m.zip  the published grid
  {PROGRAM} report --published         NVIDIA's published tables
"""


class Command(NamedTuple):
    """A command: `module` of bench.cli holds `NAME(parsed, trainer)` and `NAME_arguments(parser)`.

    `ok`, `failed`, `error` and `inconclusive` say what the exit codes 0 to 3 mean; empty if not
    used.
    """

    name: str
    module: str
    group: str
    help: str
    ok: str = "done"
    failed: str = ""
    inconclusive: str = ""
    error: str = "invalid input, or a file cannot be read or written"

    @property
    def exit_codes(self) -> str:
        """The exit codes of this command, for its help page."""
        meanings = {
            OK: self.ok,
            FAILED: self.failed,
            USAGE: self.error,
            INCONCLUSIVE: self.inconclusive,
            INTERRUPTED: "interrupted",
        }
        lines = [f"  {code:<4} {meaning}" for code, meaning in meanings.items() if meaning]
        return "\n".join(("exit codes:", *lines))

    def parser(self) -> Parser:
        """The parser of this command's options."""
        text = f"{self.help[0].upper()}{self.help[1:]}."
        parser = Parser(f"{PROGRAM} {self.name}", text, self.exit_codes)
        self._function("_arguments")(parser)
        return parser

    def run(self, parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
        """Run the command; the result is the exit code."""
        return int(self._function()(parsed, trainer))

    def _function(self, suffix: str = "") -> Callable[..., int]:
        function: Callable[..., int] = getattr(
            importlib.import_module(f"bench.cli.{self.module}"), f"{self.name}{suffix}"
        )
        return function


_RUNS, _RESULTS, _GATE, _MACHINE = "make runs", "results", "compare and gate", "check"
COMMANDS = (
    Command(
        "run", "run", _RUNS, "make the runs of a suite that are not stored yet, then report",
        "every cell that can run here is complete", "some runs failed",
    ),
    Command("plan", "plan", _RUNS, "show what `run` would do"),
    Command("status", "plan", _RUNS, "show stored and failed runs, and who is running"),
    Command("suites", "plan", _RUNS, "list the shipped suites: what they need, how long they take"),
    Command("report", "report", _RESULTS, "make tables and pictures from the stored records"),
    Command("scaling", "report", _RESULTS, "predict the speed of more GPUs from published figures"),
    Command("ingest", "exchange", _RESULTS, "import NVIDIA NCF or MLPerf logs for comparison"),
    Command("export", "exchange", _RESULTS, "write stored runs as DLLogger or MLPerf logs"),
    Command("frame", "exchange", _RESULTS, "write stored runs as one table for pandas"),
    Command("baseline", "baseline", _GATE, "save, list, show or promote a baseline"),
    Command("compare", "gate", _GATE, "compare two sets of runs: a verdict per cell and metric"),
    Command(
        "gate", "gate", _GATE,
        "compare new runs with a baseline (exit 0: pass, 1: regression, 3: inconclusive)",
        "pass", "regression", "inconclusive, or not comparable with the baseline",
        "failed runs, invalid input, or a file cannot be read or written",
    ),
    Command(
        "calibrate", "baseline", _GATE, "measure how much runs of the same code differ",
        failed="too few good runs: nothing was measured",
    ),
    Command(
        "doctor", "doctor", _MACHINE, "check machine and installation before a long sweep",
        "no problem that prevents runs", "at least one problem must be fixed first",
    ),
    Command(
        "check", "check", _MACHINE, "read every stored record and list the invalid ones",
        "every record is valid", "some records are invalid",
    ),
)  # fmt: skip
NAMES = tuple(command.name for command in COMMANDS)


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the nearest option, and groups made on demand."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.groups: dict[str, argparse._ArgumentGroup] = {}

    def group(self, title: str) -> argparse._ArgumentGroup:
        """The group of options with this title."""
        if title not in self.groups:
            self.groups[title] = self.add_argument_group(title)
        return self.groups[title]

    def error(self, message: str) -> NoReturn:
        """Raise; main prints."""
        raise UserError(f"{message} (see `{self.prog} --help`)")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options.

        Raises:
            UserError: an unknown option, or an invalid value.
        """
        parsed, unknown = self.parse_known_args(words)
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            near = did_you_mean(unknown[0].partition("=")[0], options)
            self.error(f"unknown argument {unknown[0]!r}{near}")
        return parsed


def parse(arguments: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """The command and its options. A suite alone means `run`; `--a-b` is the same as `--a_b`.

    Raises:
        UserError: an unknown option, or an invalid value.
        SystemExit: help or versions were printed.
    """
    words = [_with_underscores(word) for word in arguments]
    if not words or words[0].startswith("-"):
        _program_parser().parse(words)
        if "--version" in words:
            print(versions())
        else:
            _program_parser().print_help()
        raise SystemExit(OK)
    if words[0] not in NAMES:
        words.insert(0, "run")
    command = COMMANDS[NAMES.index(words[0])]
    return command, command.parser().parse(words[1:])


def _with_underscores(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}" if name.startswith("--") else word


def _program_parser() -> Parser:
    groups: dict[str, list[str]] = {}
    for command in COMMANDS:
        groups.setdefault(command.group, []).append(f"  {command.name:10} {command.help}")
    listed = "\n\n".join("\n".join((f"{title}:", *lines)) for title, lines in groups.items())
    more = f"`{PROGRAM} COMMAND --help` shows the options and exit codes of a command."
    parser = Parser(PROGRAM, f"{DESCRIPTION}\n{listed}\n\n{more}", EXAMPLES)
    parser.usage = f"{PROGRAM} COMMAND [options], or {PROGRAM} SUITE [options]"
    parser.add_argument("--version", action="store_true", help="print versions and exit")
    return parser


def versions() -> str:
    """This program, and what it needs; read from package metadata, nothing heavy is imported."""
    import contextlib
    import platform
    from importlib import metadata

    def installed(*packages: str) -> str:
        for package in packages:
            with contextlib.suppress(metadata.PackageNotFoundError):
                return metadata.version(package)
        return "not installed"

    return (
        f"{PROGRAM} {installed(PROGRAM)}\n"
        f"Python {platform.python_version()}\n"
        f"TensorFlow {installed('tensorflow', 'tensorflow-cpu')}\n"
        f"Horovod {installed('horovod')}"
    )
