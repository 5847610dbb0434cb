"""The command line: `python -m bench run|plan|status|report|gate|...`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli import baseline as baseline_commands
from bench.cli import calibrate as calibrate_command
from bench.cli import check as check_command
from bench.cli import common as commands
from bench.cli import doctor as doctor_command
from bench.cli import foreign as foreign_commands
from bench.cli import gate, plan
from bench.cli import gate as gate_command
from bench.cli import report as report_commands
from bench.cli import run as run_command
from bench.cli import scaling as scaling_command
from bench.cli.common import FAILED, INTERRUPTED, USAGE
from bench.errors import UserError
from bench.suite.trainer_options import TRAINER

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
        "run", run_command.run, "make the runs of a suite that are not stored yet, then report"
    )
    run_command.add_arguments(add)
    add = command("plan", plan.plan, "show what `run` would do")
    commands.suite_arguments(add)
    plan.rerun_argument(add)
    add = command("status", plan.status, "show what is stored, what failed and who is running")
    commands.suite_arguments(add)
    add = command(
        "report", report_commands.report, "draw tables and pictures from the stored records"
    )
    report_commands.add_arguments(add)
    add = command(
        "ingest", foreign_commands.ingest, "read logs of NVIDIA's NCF or MLPerf, to stand beside"
    )
    foreign_commands.add_ingest_arguments(add)
    add = command("export", foreign_commands.export, "write our runs as DLLogger or MLPerf logs")
    foreign_commands.add_export_arguments(add)
    add = command("doctor", doctor_command.run, "look at machine and installation before a sweep")
    doctor_command.add_arguments(add)
    add = command("check", check_command.run, "read every stored record and list those not sound")
    check_command.add_arguments(add)
    add = command("scaling", scaling_command.run, "predict more GPUs from the published figures")
    scaling_command.add_arguments(add)
    add = command("baseline", baseline_commands.run, "save, list, show or promote a baseline")
    baseline_commands.add_arguments(add)
    add = command("compare", gate.compare, "a verdict per cell and metric of two results")
    gate.add_compare_arguments(add)
    add = command(
        "gate", gate_command.run, "new runs against a baseline: 0 ok, 1 a loss, 2 error, 3 open"
    )
    gate_command.add_arguments(add)
    add = command(
        "calibrate", calibrate_command.run, "measure what runs of the same code differ by"
    )
    calibrate_command.add_arguments(add)
    return parser


if __name__ == "__main__":
    sys.exit(main())
