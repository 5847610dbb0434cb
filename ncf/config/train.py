"""The trainer's options: one frozen, validated dataclass from which the command line is made.

Names and defaults follow NVIDIA's `ncf.py`, so that its command lines keep working; dashes and
underscores are interchangeable. The model and its defaults: He et al., "Neural Collaborative
Filtering", WWW 2017, as NVIDIA trains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncf.config.options import (
    ABOVE_0,
    SEED,
    SHARE,
    WIDTHS,
    Options,
    Parser,
    Rule,
    add_arguments,
    configuration,
    flag,
    option,
    shared,
)
from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TrainConfig(Options):
    """Everything a training run depends on."""

    data: str = option("", "folder written by `ncf prepare` or `ncf synthesize`", path=True)
    mode: str = option(
        "train", "train, or only evaluate a checkpoint (test)", choices=("train", "test")
    )
    epochs: int = option(30, "passes over the training positives", least=1)
    batch_size: int = option(1048576, "samples per optimizer update, all ranks together", least=1)
    factors: int = option(64, "width of the GMF embeddings", least=1)
    layers: tuple[int, ...] = option(
        (256, 256, 128, 64),
        "widths of the MLP; the first is the user and item embeddings side by side",
        rule=WIDTHS,
    )
    negative_samples: int = option(4, "fresh negatives per positive and epoch", least=0)
    learning_rate: float = option(0.0045, "Adam's step size", rule=ABOVE_0)
    beta1: float = option(0.25, "Adam's decay of the first moment", rule=SHARE)
    beta2: float = option(0.5, "Adam's decay of the second moment", rule=SHARE)
    eps: float = option(1e-8, "Adam's epsilon", rule=ABOVE_0)
    dropout: float = option(
        0.5, "share of hidden units dropped after each hidden layer", rule=SHARE
    )
    precision: str = shared("precision")
    amp_dtype: str = shared("amp_dtype")
    loss_scale: str = option(
        "auto", "amp only: dynamic, a number, or auto (dynamic for float16, 1 for bfloat16)"
    )
    formulation: str = option(
        "fast",
        "how a step is computed: reference (as published) or fast (the same model, less work)",
        choices=("reference", "fast"),
    )
    batching: str = option(
        "grouped",
        "unit that an epoch shuffles: a positive with its negatives (grouped), or a sample",
        choices=("grouped", "shuffled"),
    )
    parallel: str = option(
        "user-sharded",
        "what several ranks share: every parameter (replicated, as published), or only those that "
        "belong to no user (user-sharded: each rank has its own users)",
        choices=("user-sharded", "replicated"),
    )
    fp16_allreduce: bool = flag(
        "send gradients between ranks as float16, scaled to fit: half the bytes, rounded"
    )
    micro_batch: str = option(
        "auto",
        "fast only: samples computed at once; auto fills a CPU's cache, and is the whole "
        "batch on a GPU",
    )
    xla: bool = flag("compile the whole gradient computation with XLA, as is always done on a GPU")
    seed: int | None = option(
        None, "seed of weights, samples and dropout; drawn and recorded if not given", rule=SEED
    )
    target: float = option(
        0.9562,
        "stop as soon as HR@k reaches this; 1.0 trains all epochs",
        rule=Rule("must lie in (0, 1]", lambda value: 0 < value <= 1),
    )
    topk: int = option(10, "k of HR@k and NDCG@k", least=1)
    protocol: str | None = option(
        None,
        "how candidates are drawn, or full: the whole catalogue; as prepared if not given",
        choices=("nvidia", "unique", "mlperf", "full"),
    )
    valid_negative: int | None = option(
        None, "sampled candidates per test user; as prepared if not given", least=1
    )
    valid_users_per_batch: int = option(2048, "test users scored at once, per rank", least=1)
    eval_after: int = option(1, "first epoch that is evaluated (counted from 1)", least=1)
    no_neg_trick: bool = flag("exact training negatives: never one of the user's training items")
    checkpoint_dir: str = option("", "write the best and the last checkpoint there", path=True)
    load_checkpoint_path: str = option("", "start from this checkpoint", path=True)
    log_path: str = shared("log_path")
    record: str = shared("record")
    tensorboard: str = option(
        "",
        "write TensorBoard event files (loss, HR@k, NDCG@k, samples/s per epoch) there",
        path=True,
    )
    threads: int = option(
        0, "CPU threads per rank; 0 shares the cores among the local ranks", least=0
    )
    warmup_steps: int = option(1, "first steps that throughput leaves out", least=0)
    verbose: bool = flag("report progress within an epoch every 2 s instead of 15 s")

    @property
    def group_size(self) -> int:
        """Samples that are shuffled as one."""
        return 1 + self.negative_samples if self.batching == "grouped" else 1

    def check_combinations(self) -> None:
        """Raise a UserError if options are missing or contradict each other."""
        if not self.data:
            raise UserError("--data is missing: name a folder made by `ncf prepare`")
        group = self.group_size
        rule = f"must be at least {group}: a positive and its negatives are shuffled as one"
        self.require("batch_size", rule, holds=self.batch_size >= group)
        self.check_amp_only("amp_dtype", "loss_scale")
        if self.loss_scale not in ("auto", "dynamic"):
            scale = _number(self.loss_scale)
            holds = scale is not None and ABOVE_0.holds(scale)
            self.require("loss_scale", "give dynamic, auto or a number above 0", holds=holds)
        if self.protocol == "full" and self.valid_negative is not None:
            raise UserError(
                f"--valid_negative {self.valid_negative} has no meaning with --protocol full, "
                "which ranks every item: drop one of the two"
            )
        self._check_micro_batch()
        if self.eval_after > self.epochs and self.mode == "train":
            raise UserError(
                f"--eval_after {self.eval_after} is beyond --epochs {self.epochs}: "
                "no epoch would be evaluated"
            )
        if self.mode == "test" and not self.load_checkpoint_path:
            raise UserError("--mode test needs --load_checkpoint_path: the checkpoint to evaluate")

    def _check_micro_batch(self) -> None:
        if self.micro_batch == "auto":
            return
        digits = self.micro_batch.isascii() and self.micro_batch.isdigit()
        rule = "give auto or a number of samples of at least 1"
        self.require("micro_batch", rule, holds=digits and int(self.micro_batch) >= 1)
        if self.formulation != "fast":
            raise UserError(
                f"--micro_batch {self.micro_batch} needs --formulation fast, not "
                f"{self.formulation}: drop one of the two"
            )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def config_from_arguments(arguments: Sequence[str], prog: str = "ncf train") -> TrainConfig:
    """Parse a command line into a validated configuration; UserError says what is wrong."""
    parser = Parser(prog=prog, allow_abbrev=False)
    add_arguments(parser, TrainConfig)
    return configuration(TrainConfig, parser.parse_args(arguments))
