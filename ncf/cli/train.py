"""The commands `ncf train` and `ncf options`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ncf.cli import need_tensorflow
from ncf.config.infer import InferConfig
from ncf.config.options import add_arguments, configuration, describe
from ncf.config.train import TrainConfig

if TYPE_CHECKING:
    import argparse


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf train`."""
    add_arguments(parser, TrainConfig)


def train(parsed: argparse.Namespace) -> int:
    """Run `ncf train` as one rank of a job."""
    from ncf.ranks import job

    config = configuration(TrainConfig, parsed)

    def run() -> int:
        need_tensorflow()
        from ncf.training import train

        return train.run(config)

    return job.run(run)


def options_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf options`."""
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def options(parsed: argparse.Namespace) -> int:
    """Run `ncf options`: a line per option, or JSON with which bench checks suites."""
    train_options, infer_options = describe(TrainConfig), describe(InferConfig)
    if parsed.json:
        from ncf.runtime import environment
        from ncf.runtime.code_hash import INFER

        infer = {"options": infer_options, "versions": environment.installed(INFER)}
        described = {"options": train_options, "versions": environment.installed()}
        print(json.dumps({**described, "commands": {INFER: infer}}))
        return 0
    for command, listed in (("train", train_options), ("infer", infer_options)):
        print(f"ncf {command}")
        for option in listed:
            print(f"--{option['name']:<22} {option['help']} [{option['default']}]")
    return 0
