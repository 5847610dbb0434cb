"""The command line: one table of commands. A command's module is imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from ncf import __version__
from ncf.config.options import Parser
from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXAMPLES: Final = """examples:
  ncf synthesize --preset 100k --output data/synthetic-100k
  ncf prepare ml-20m.zip --output data/ml-20m
  ncf train --data data/ml-20m --precision amp --record run.json
  horovodrun -np 8 --gloo python -m ncf train --data data/ml-20m --amp
  ncf infer --data data/ml-20m --load_checkpoint_path checkpoints
`ncf --data DIR ...` without a command is `ncf train --data DIR ...`, as with NVIDIA's ncf.py.
Each command has its own --help.
"""
_DONE: Final = {0: "done", 2: "invalid input, in one line on stderr"}
_INTERRUPTED: Final = {130: "interrupted"}
_MODEL: Final = {
    3: "loss or scores are not finite",
    4: "invalid: the device or the ranks did not compute what was requested",
}


class Command(NamedTuple):
    """A command: `module` of ncf.cli has `NAME(parsed)` and `NAME_arguments(parser)`."""

    name: str
    module: str
    help: str
    description: str = ""
    exit_codes: dict[int, str] = _DONE | _INTERRUPTED

    def run(self, words: Sequence[str]) -> int:
        """Parse the options and run the command; the result is the exit code."""
        codes = "\n".join(f"  {code:<4} {text}" for code, text in self.exit_codes.items())
        parser = Parser(
            prog=f"ncf {self.name}",
            description=self.description or f"{self.help[0].upper()}{self.help[1:]}.",
            epilog=f"exit codes:\n{codes}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            # A suite's or a script's mistyped option must not count as the start of another.
            allow_abbrev=self.name not in ("train", "infer"),
        )
        self.function("_arguments")(parser)
        return int(self.function()(parser.parse_args(words)))

    def function(self, suffix: str = "") -> Callable[..., int]:
        """`NAME` or `NAME_arguments`."""
        module = importlib.import_module(f"ncf.cli.{self.module}")
        function: Callable[..., int] = getattr(module, f"{self.name}{suffix}")
        return function


COMMANDS: Final = (
    Command("prepare", "prepare", "turn a ratings file into a data folder"),
    Command("synthesize", "prepare", "generate a data folder of a known shape"),
    Command(
        "train",
        "train",
        "train on a prepared folder",
        "Train NeuMF on a prepared data folder. Start several ranks with horovodrun or mpirun.",
        {**_DONE, **_MODEL, 70: "a rank stalled", 71: "another rank was lost", **_INTERRUPTED},
    ),
    Command(
        "evaluate",
        "evaluate",
        "score a checkpoint under one protocol or several",
        exit_codes=_DONE | _MODEL | _INTERRUPTED,
    ),
    Command("recommend", "recommend", "list the best items of a user"),
    Command("export", "export", "write a SavedModel that can be served without this program"),
    Command(
        "infer",
        "infer",
        "time a model: throughput and latency",
        "Time a model at scoring pairs and at ranking the catalogue: throughput and latency.",
        _DONE | _MODEL | _INTERRUPTED,
    ),
    Command("options", "train", "list the options of train and infer"),
    Command("probe", "probe", "describe what this installation can do, as JSON"),
)


def run(words: Sequence[str]) -> int:
    """Run the command that the first word names.

    Raises:
        UserError: an unknown command or option, or invalid input.
    """
    parser = Parser(
        prog="ncf",
        description="Prepare ratings, train Neural Collaborative Filtering (NeuMF), and use it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ncf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        commands.add_parser(command.name, help=command.help, add_help=False)
    name = parser.parse_args(words[:1]).command
    return next(command for command in COMMANDS if command.name == name).run(words[1:])


def need_tensorflow() -> None:
    """Import TensorFlow, or raise a UserError that says how to install it."""
    # TensorFlow's start-up notices would hide the progress; errors are still printed.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow  # noqa: F401, ICN001 - only to find out whether it is installed
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training needs TensorFlow, which cannot be imported ({reason}): install "
            "ncf-bench[cpu] or ncf-bench[cuda], or run ./run_benchmarks.sh"
        ) from None
