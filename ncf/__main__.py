"""The program `ncf`, also `python -m ncf`: run one command, turn errors into exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ncf import cli
from ncf.errors import UserError
from ncf.runtime import huge_pages

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a user's mistake is one line on stderr and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].startswith("--") and words[0] not in ("--help", "--version"):
        words.insert(0, "train")
    if arguments is None and words[:1] in (["train"], ["infer"]):
        huge_pages.start_again()
    try:
        return cli.run(words)
    except UserError as error:
        print(f"ncf: error: {error}", file=sys.stderr, flush=True)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("ncf: interrupted", file=sys.stderr, flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
