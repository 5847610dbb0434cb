"""The program `ncf-bench`, also `python -m bench`: run one command, turn errors into exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from bench.cli import FAILED, INTERRUPTED, PROGRAM, USAGE, parse
from bench.errors import UserError
from bench.suite.trainer_options import TRAINER

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, trainer: tuple[str, ...] = TRAINER) -> int:
    """Run one command; a user's mistake is one line on stderr and exit code 2.

    Args:
        arguments: instead of sys.argv.
        trainer: instead of `python -m ncf`, for another trainer that writes the same record.
    """
    results = ""
    try:
        command, parsed = parse(sys.argv[1:] if arguments is None else arguments)
        results = getattr(parsed, "results", results)
        return command.run(parsed, trainer)
    except UserError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        print(
            f"{PROGRAM}: error: {error.filename or results}: {error.strerror or error} "
            "(stored records are intact; fix this and rerun)",
            file=sys.stderr,
        )
        return USAGE
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
