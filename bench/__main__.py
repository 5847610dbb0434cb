"""The command line: `python -m bench run|plan|status|report`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import commands, report_commands, suites
from bench.commands import FAILED, INTERRUPTED, USAGE
from bench.errors import UserError
from bench.options import TRAINER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
from difflib import get_close_matches

DESCRIPTION = """\
Trains NeuMF over a suite's grid (ranks x precisions x seeds), stores a record of every run, and
draws tables and pictures of them. Running a suite again goes on where it stopped.
"""
EPILOG = """\
examples:
  python -m bench smoke                      minutes on any machine, generated data
  python -m bench ml-100k                    real ratings
  python -m bench run dgx --data ml-20m.zip  the published grid
  python -m bench report --published         NVIDIA's published tables

exit codes: 0 every cell that can run here is complete, 1 some runs failed, 2 bad input or the
results cannot be written, 130 interrupted (run again to go on)
"""

UNKNOWN = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line and name the nearest option."""

    def error(self, message: str) -> Any:
        """Raise; main prints."""
        if message.startswith(UNKNOWN):
            unknown = message.removeprefix(UNKNOWN)
            known = [name for action in self._actions for name in action.option_strings]
            near = get_close_matches(unknown.partition("=")[0], known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            message = f"unknown argument {unknown!r}{hint}"
        raise UserError(f"{message} (see `{self.prog} --help`)")


def main(arguments: Sequence[str] | None = None, trainer: tuple[str, ...] = TRAINER) -> int:
    """Run one command; a user's mistake is one line on stderr and exit code 2.

    Args:
        arguments: instead of sys.argv.
        trainer: instead of `python -m ncf`, for another trainer that writes the same record.
    """
    parsed = argparse.Namespace(results="")
    try:
        words = _words(sys.argv[1:] if arguments is None else arguments)
        parsed, unknown = _parser().parse_known_args(words)
        if unknown:
            parsed.parser.error(f"{UNKNOWN}{unknown[0]}")
        return int(parsed.command(parsed, trainer))
    except UserError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:  # the reader of our output has gone; there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        where = error.filename or parsed.results
        print(
            f"bench: error: {where}: {error.strerror or error} (nothing that was stored is lost; "
            "mend this and run again)",
            file=sys.stderr,
        )
        return USAGE
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return INTERRUPTED


def _words(arguments: Sequence[str]) -> list[str]:
    """Underscores for dashes in option names, and `run` where only a suite is named."""
    words = []
    for word in arguments:
        name, equals, value = word.partition("=")
        plain = f"--{name[2:].replace('-', '_')}" if name.startswith("--") else name
        words.append(f"{plain}{equals}{value}")
    if words and words[0] not in commands.NAMES and not words[0].startswith("-"):
        words.insert(0, "run")
    return words or ["--help"]


def _parser() -> Parser:
    parser = Parser(
        prog="bench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    subparsers = parser.add_subparsers(metavar="COMMAND")
    parser.set_defaults(parser=parser)

    def command(name: str, run: Callable[..., int], help_: str) -> Parser:
        added = subparsers.add_parser(name, help=help_, description=help_, allow_abbrev=False)
        added.set_defaults(command=run, parser=added)
        added.add_argument(
            "--results", type=Path, default=Path("results"), metavar="DIR", help="[results]"
        )
        return added

    add = command(
        "run", commands.run, "make the runs of a suite that are not stored yet, then report"
    )
    _suite_arguments(add)
    add.add_argument("--plots", type=Path, default=Path("plots"), metavar="DIR", help="[plots]")
    add.add_argument(
        "--timeout", type=_positive, metavar="S", help="seconds a run may take [the suite's]"
    )
    add.add_argument(
        "--max_failures", type=_count, metavar="N", help="give up after so many failed runs"
    )
    add.add_argument(
        "--retry_failed",
        action="store_true",
        help="try what failed once more at the end; without it, the next `run` does",
    )
    add.add_argument("--no_report", action="store_true", help="draw no tables and pictures")
    add = command("plan", commands.plan, "show what `run` would do")
    _suite_arguments(add)
    add = command("status", commands.status, "show what is stored, what failed and who is running")
    _suite_arguments(add)
    add = command(
        "report", report_commands.report, "draw tables and pictures from the stored records"
    )
    report_commands.add_arguments(add)
    return parser


def _suite_arguments(parser: Parser) -> None:
    parser.add_argument(
        "suite", metavar="SUITE", help=f"{', '.join(suites.shipped())}, or the path of a .toml file"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="a ratings file or a prepared folder [what the suite names]"
    )
    parser.add_argument(
        "--data_root", type=Path, default=Path("data"), metavar="DIR", help="prepared data [data]"
    )
    parser.add_argument("--ranks", type=_numbers, metavar="N,...", help="only these numbers")
    parser.add_argument("--precision", type=_texts, metavar="P,...", help="only these precisions")
    parser.add_argument("--seeds", type=_numbers, metavar="N,...", help="only these seeds")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers like 1,2") from None


def _texts(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
