"""Command line of the trainer: prepare, synthesize, train, infer, options and the rest.

TensorFlow is imported only by what computes, so that help and bad options answer at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from ncf import __version__
from ncf.config.options import Parser
from ncf.config.train import config_from_arguments, describe_options
from ncf.errors import UserError
from ncf.runtime import huge_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EPILOG = """examples:
  ncf synthesize --preset 100k --output data/synthetic-100k
  ncf prepare ml-20m.zip --output data/ml-20m
  ncf train --data data/ml-20m --precision amp --record run.json
  horovodrun -np 8 --gloo python -m ncf train --data data/ml-20m --amp
  ncf infer --data data/ml-20m --load_checkpoint_path checkpoints
`ncf --data DIR ...` without a command is `ncf train --data DIR ...`, as with NVIDIA's ncf.py.
Each command has its own --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a user's mistake is one line on stderr and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].startswith("--") and words[0] not in ("--help", "--version"):
        words.insert(0, "train")
    if arguments is None and words[:1] in (["train"], ["infer"]):
        huge_pages.start_again()
    try:
        return _run(words)
    except UserError as error:
        print(f"ncf: error: {error}", file=sys.stderr, flush=True)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("ncf: interrupted", file=sys.stderr, flush=True)
        return 130


def _run(words: list[str]) -> int:
    if words[:1] == ["train"]:
        return _train(words[1:])
    if words[:1] == ["infer"]:
        return _infer(words[1:])
    parser = Parser(
        prog="ncf",
        description="Prepare ratings, train Neural Collaborative Filtering (NeuMF), and use it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ncf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_data_commands(commands)
    commands.add_parser("train", help="train on a prepared folder", add_help=False)
    _add_use_commands(commands)
    commands.add_parser("infer", help="time a model: throughput and latency", add_help=False)
    options = commands.add_parser("options", help="list the options of train and infer")
    options.add_argument("--json", action="store_true", help="as JSON, for programs")
    probe = commands.add_parser("probe", help="what this installation can do, as JSON")
    probe.add_argument("--data", default="", help="a data folder to compare with its hashes")
    parsed = parser.parse_args(words)
    if parsed.command == "probe":
        return _probe(parsed.data)
    if parsed.command == "options":
        return _print_options(as_json=parsed.json)
    return int(parsed.run(parsed))


def _add_data_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    from ncf.cli import prepare

    add = commands.add_parser("prepare", help="turn a ratings file into a data folder")
    prepare.add_prepare_arguments(add)
    add.set_defaults(run=prepare.prepare_command)
    add = commands.add_parser("synthesize", help="generate a data folder of a known shape")
    prepare.add_synthesize_arguments(add)
    add.set_defaults(run=prepare.synthesize_command)


def _add_use_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    from ncf.cli import evaluate as evaluate_command
    from ncf.cli import export, recommend

    add = commands.add_parser("evaluate", help="score a checkpoint under one protocol or several")
    evaluate_command.add_arguments(add)
    add.set_defaults(run=_computing(evaluate_command.evaluate_command))
    add = commands.add_parser("recommend", help="the best items of a user")
    recommend.add_arguments(add)
    add.set_defaults(run=_computing(recommend.recommend_command))
    add = commands.add_parser("export", help="a SavedModel to be served without this program")
    export.add_arguments(add)
    add.set_defaults(run=_computing(export.export_command))


def _computing(command: Callable[[argparse.Namespace], int]) -> Callable[..., int]:
    """A command that needs TensorFlow."""

    def run(parsed: argparse.Namespace) -> int:
        _need_tensorflow()
        return command(parsed)

    return run


def _train(words: list[str]) -> int:
    from ncf.ranks import job

    config = config_from_arguments(words)

    def run() -> int:
        _need_tensorflow()
        from ncf.training import train

        return train.run(config)

    return job.run(run)


def _infer(words: list[str]) -> int:
    from ncf.config.infer import config_from_arguments as infer_config

    config = infer_config(words)
    _need_tensorflow()
    from ncf.cli import infer

    return infer.run(config)


def _probe(data: str) -> int:
    _need_tensorflow()
    from ncf.cli.probe import facts

    print(json.dumps(facts(data)))
    return 0


def _need_tensorflow() -> None:
    # TensorFlow's start-up notices would drown the progress; errors still show.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow  # noqa: F401, ICN001 - only to find out whether it is there
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training needs TensorFlow, which cannot be imported ({reason}): install "
            "ncf-bench[cpu] or ncf-bench[cuda], or run ./run_benchmarks.sh"
        ) from None


def _print_options(*, as_json: bool) -> int:
    from ncf.config import options
    from ncf.config.infer import InferConfig

    infer = options.describe(InferConfig)
    if as_json:
        from ncf.runtime import environment
        from ncf.runtime.code_hash import INFER

        told = {"options": describe_options(), "versions": environment.installed()}
        other = {"options": infer, "versions": environment.installed(INFER)}
        print(json.dumps({**told, "commands": {INFER: other}}))
        return 0
    for command, listed in (("train", describe_options()), ("infer", infer)):
        print(f"ncf {command}")
        for option in listed:
            print(f"--{option['name']:<22} {option['help']} [{option['default']}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
