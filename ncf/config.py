"""The trainer's options: one frozen, validated dataclass from which the command line is made.

Names and defaults follow NVIDIA's `ncf.py`, so that its command lines keep working; dashes and
underscores are interchangeable. The model and its defaults: He et al., "Neural Collaborative
Filtering", WWW 2017, as NVIDIA trains it.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH_OPTIONS = (
    "data",
    "checkpoint_dir",
    "load_checkpoint_path",
    "log_path",
    "record",
    "tensorboard",
)


def _option(default: Any, help_: str, *, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": help_, "choices": choices})


def _flag(help_: str) -> Any:
    return field(default=False, metadata={"help": help_, "choices": None})


@dataclass(frozen=True)
class TrainConfig:
    """Everything a training run depends on. `validated` checks what single fields cannot."""

    data: str = _option("", "folder written by `ncf prepare` or `ncf synthesize`")
    mode: str = _option(
        "train", "train, or only evaluate a checkpoint (test)", choices=("train", "test")
    )
    epochs: int = _option(30, "passes over the training positives")
    batch_size: int = _option(1048576, "samples per optimizer update, all ranks together")
    factors: int = _option(64, "width of the GMF embeddings")
    layers: tuple[int, ...] = _option(
        (256, 256, 128, 64),
        "widths of the MLP; the first is the user and item embeddings side by side",
    )
    negative_samples: int = _option(4, "fresh negatives per positive and epoch")
    learning_rate: float = _option(0.0045, "Adam's step size")
    beta1: float = _option(0.25, "Adam's decay of the first moment")
    beta2: float = _option(0.5, "Adam's decay of the second moment")
    eps: float = _option(1e-8, "Adam's epsilon")
    dropout: float = _option(0.5, "share of hidden units dropped after each hidden layer")
    precision: str = _option(
        "fp32",
        "fp32 (TF32 off), tf32 (on) or amp (float16 on a GPU, bfloat16 on a CPU)",
        choices=("fp32", "tf32", "amp"),
    )
    amp_dtype: str = _option(
        "auto",
        "compute type of amp; auto is float16 on a GPU and bfloat16 on a CPU",
        choices=("auto", "bfloat16", "float16"),
    )
    loss_scale: str = _option(
        "auto", "amp only: dynamic, a number, or auto (dynamic for float16, 1 for bfloat16)"
    )
    xla: bool = _flag("compile the gradient computation with XLA")
    seed: int | None = _option(
        None, "seed of weights, samples and dropout; drawn and recorded if not given"
    )
    target: float = _option(0.9562, "stop as soon as HR@k reaches this; 1.0 trains all epochs")
    topk: int = _option(10, "k of HR@k and NDCG@k")
    protocol: str | None = _option(
        None,
        "how candidates are drawn; as prepared if not given",
        choices=("nvidia", "unique", "mlperf"),
    )
    valid_negative: int | None = _option(
        None, "sampled candidates per test user; as prepared if not given"
    )
    valid_users_per_batch: int = _option(2048, "test users scored at once, per rank")
    eval_after: int = _option(1, "first epoch that is evaluated (counted from 1)")
    no_neg_trick: bool = _flag("exact training negatives: never one of the user's training items")
    checkpoint_dir: str = _option("", "write the best and the last checkpoint there")
    load_checkpoint_path: str = _option("", "start from this checkpoint")
    log_path: str = _option("", "append DLLogger lines (DLLL {json}) to this file")
    record: str = _option("", "write the run's record (JSON) to this file")
    tensorboard: str = _option(
        "", "write TensorBoard event files (loss, HR@k, NDCG@k, samples/s per epoch) there"
    )
    threads: int = _option(0, "CPU threads per rank; 0 shares the cores among the local ranks")
    warmup_steps: int = _option(1, "steps at the start that throughput leaves out")
    verbose: bool = _flag("report progress within an epoch every 2 s instead of 15 s")

    @property
    def samples_per_positive(self) -> int:
        """A positive and its negatives."""
        return 1 + self.negative_samples

    def echo(self) -> dict[str, Any]:
        """The options as used, for the record; paths are cut to their last part."""
        values = dataclasses.asdict(self)
        for name in PATH_OPTIONS:
            values[name] = Path(values[name]).name
        return values

    def validated(self) -> TrainConfig:
        """This configuration, or a UserError that names the first option out of range."""
        positive = ("epochs", "batch_size", "factors", "topk", "valid_negative", "eval_after")
        for name in (*positive, "valid_users_per_batch"):
            value = getattr(self, name)
            _require(self, name, value is None or value >= 1, "must be at least 1")
        for name in ("negative_samples", "threads", "warmup_steps"):
            _require(self, name, getattr(self, name) >= 0, "must be at least 0")
        for name in ("learning_rate", "eps"):
            value = getattr(self, name)
            _require(self, name, value > 0 and math.isfinite(value), "must be a number above 0")
        for name in ("beta1", "beta2", "dropout"):
            _require(self, name, 0 <= getattr(self, name) < 1, "must lie in [0, 1)")
        _require(self, "target", 0 < self.target <= 1, "must lie in (0, 1]")
        sizes_fit = len(self.layers) >= 1 and min(self.layers) >= 1 and self.layers[0] >= 2
        _require(self, "layers", sizes_fit, "needs positive widths, the first at least 2")
        if self.seed is not None:
            _require(self, "seed", 0 <= self.seed < 2**63, "must lie in [0, 2**63)")
        self._check_combinations()
        return self

    def _check_combinations(self) -> None:
        if not self.data:
            raise UserError("--data is missing: name a folder made by `ncf prepare`")
        amp_only = [("amp_dtype", "auto"), ("loss_scale", "auto")]
        if self.precision != "amp":
            for name, default in amp_only:
                if getattr(self, name) != default:
                    raise UserError(
                        f"--{name} {getattr(self, name)} needs --precision amp, "
                        f"not {self.precision}: drop one of the two"
                    )
        if self.loss_scale not in ("auto", "dynamic"):
            scale = _number(self.loss_scale)
            if scale is None or not math.isfinite(scale) or scale <= 0:
                raise UserError(
                    f"--loss_scale {self.loss_scale}: give dynamic, auto or a number above 0"
                )
        if self.eval_after > self.epochs and self.mode == "train":
            raise UserError(
                f"--eval_after {self.eval_after} is beyond --epochs {self.epochs}: "
                "no epoch would be evaluated"
            )
        if self.mode == "test" and not self.load_checkpoint_path:
            raise UserError("--mode test needs --load_checkpoint_path: the checkpoint to evaluate")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _require(config: TrainConfig, name: str, holds: bool, rule: str) -> None:  # noqa: FBT001 - a check reads best this way
    if not holds:
        raise UserError(f"--{name} {_shown(getattr(config, name))}: {rule}")


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def option_type(option: dataclasses.Field[Any]) -> str:
    """int, float, str, bool or int_list: the kinds a suite file may hold."""
    text = str(option.type)
    return "int_list" if text.startswith("tuple") else text.removesuffix(" | None")


def describe_options() -> list[dict[str, Any]]:
    """All options as plain data; bench checks suites with it without importing the trainer."""
    return [
        {
            "name": option.name,
            "type": option_type(option),
            "default": list(option.default)
            if isinstance(option.default, tuple)
            else option.default,
            "choices": option.metadata["choices"],
            "help": option.metadata["help"],
        }
        for option in dataclasses.fields(TrainConfig)
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


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser every option of TrainConfig, under both spellings, and `--amp`."""
    kinds = {"int": int, "float": float, "str": str}
    for option in dataclasses.fields(TrainConfig):
        names = _spellings(option.name)
        names += {"topk": ["-k"], "batch_size": ["-b"], "epochs": ["-e"]}.get(option.name, [])
        names += {"factors": ["-f"], "seed": ["-s"]}.get(option.name, [])
        help_ = option.metadata["help"].replace("%", "%%")
        kind = option_type(option)
        if kind == "bool":
            parser.add_argument(*names, action="store_true", help=help_)
            continue
        shown = "none" if option.default is None else _shown(option.default) or "none"
        parser.add_argument(
            *names,
            type=int if kind == "int_list" else kinds[kind],
            nargs="+" if kind == "int_list" else None,
            default=option.default,
            choices=option.metadata["choices"],
            metavar=None if option.metadata["choices"] else kind.removesuffix("_list").upper(),
            help=f"{help_} [{shown}]",
        )
    parser.add_argument("--amp", action="store_true", help="the same as --precision amp")


def _spellings(name: str) -> list[str]:
    return list(dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]))


def config_from_arguments(arguments: Sequence[str], prog: str = "ncf train") -> TrainConfig:
    """Parse a command line into a validated configuration; UserError says what is wrong."""
    parser = Parser(
        prog=prog,
        description="Train NeuMF on a prepared data folder. Start several ranks with horovodrun "
        "or mpirun. Exit codes: 0 ok, 2 bad input, 3 not-a-number, 4 invalid, 130 interrupted.",
        allow_abbrev=False,
    )
    add_train_arguments(parser)
    values = vars(parser.parse_args(arguments))
    if values.pop("amp"):
        if (
            any(word.startswith("--precision") for word in arguments)
            and values["precision"] != "amp"
        ):
            raise UserError(f"--amp and --precision {values['precision']} contradict: drop one")
        values["precision"] = "amp"
    values["layers"] = tuple(values["layers"])
    return TrainConfig(**values).validated()
