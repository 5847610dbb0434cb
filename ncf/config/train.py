"""The trainer's options: one frozen, validated dataclass from which the command line is made.

Names and defaults follow NVIDIA's `ncf.py`, so that its command lines keep working; dashes and
underscores are interchangeable. The model and its defaults: He et al., "Neural Collaborative
Filtering", WWW 2017, as NVIDIA trains it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncf.config import options
from ncf.config.options import check_amp_only, flag, option, require
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


@dataclass(frozen=True)
class TrainConfig:
    """Everything a training run depends on. `validated` checks what single fields cannot."""

    data: str = option("", "folder written by `ncf prepare` or `ncf synthesize`")
    mode: str = option(
        "train", "train, or only evaluate a checkpoint (test)", choices=("train", "test")
    )
    epochs: int = option(30, "passes over the training positives")
    batch_size: int = option(1048576, "samples per optimizer update, all ranks together")
    factors: int = option(64, "width of the GMF embeddings")
    layers: tuple[int, ...] = option(
        (256, 256, 128, 64),
        "widths of the MLP; the first is the user and item embeddings side by side",
    )
    negative_samples: int = option(4, "fresh negatives per positive and epoch")
    learning_rate: float = option(0.0045, "Adam's step size")
    beta1: float = option(0.25, "Adam's decay of the first moment")
    beta2: float = option(0.5, "Adam's decay of the second moment")
    eps: float = option(1e-8, "Adam's epsilon")
    dropout: float = option(0.5, "share of hidden units dropped after each hidden layer")
    precision: str = option(
        "fp32",
        "fp32 (TF32 off), tf32 (on) or amp (float16 on a GPU, bfloat16 on a CPU)",
        choices=("fp32", "tf32", "amp"),
    )
    amp_dtype: str = option(
        "auto",
        "compute type of amp; auto is float16 on a GPU and bfloat16 on a CPU",
        choices=("auto", "bfloat16", "float16"),
    )
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
        "what an epoch shuffles: positives, their negatives beside them (grouped), or samples",
        choices=("grouped", "shuffled"),
    )
    parallel: str = option(
        "user-sharded",
        "what several ranks share: nothing of a user, each rank having its own (user-sharded), or "
        "every parameter (replicated, as published)",
        choices=("user-sharded", "replicated"),
    )
    fp16_allreduce: bool = flag(
        "send gradients between ranks as float16, scaled to fit: half the bytes, rounded"
    )
    micro_batch: str = option(
        "auto",
        "fast only: samples that are computed at once; auto fills a CPU's cache, and is the whole "
        "batch on a GPU",
    )
    xla: bool = flag("compile the whole gradient computation with XLA, as is always done on a GPU")
    seed: int | None = option(
        None, "seed of weights, samples and dropout; drawn and recorded if not given"
    )
    target: float = option(0.9562, "stop as soon as HR@k reaches this; 1.0 trains all epochs")
    topk: int = option(10, "k of HR@k and NDCG@k")
    protocol: str | None = option(
        None,
        "how candidates are drawn, or full: the whole catalogue; as prepared if not given",
        choices=("nvidia", "unique", "mlperf", "full"),
    )
    valid_negative: int | None = option(
        None, "sampled candidates per test user; as prepared if not given"
    )
    valid_users_per_batch: int = option(2048, "test users scored at once, per rank")
    eval_after: int = option(1, "first epoch that is evaluated (counted from 1)")
    no_neg_trick: bool = flag("exact training negatives: never one of the user's training items")
    checkpoint_dir: str = option("", "write the best and the last checkpoint there")
    load_checkpoint_path: str = option("", "start from this checkpoint")
    log_path: str = option("", "append DLLogger lines (DLLL {json}) to this file")
    record: str = option("", "write the run's record (JSON) to this file")
    tensorboard: str = option(
        "", "write TensorBoard event files (loss, HR@k, NDCG@k, samples/s per epoch) there"
    )
    threads: int = option(0, "CPU threads per rank; 0 shares the cores among the local ranks")
    warmup_steps: int = option(1, "steps at the start that throughput leaves out")
    verbose: bool = flag("report progress within an epoch every 2 s instead of 15 s")

    @property
    def group_size(self) -> int:
        """Samples that are shuffled as one."""
        return 1 + self.negative_samples if self.batching == "grouped" else 1

    def echo(self) -> dict[str, Any]:
        """The options as used, for the record; paths are cut to their last part."""
        return options.echo(self, PATH_OPTIONS)

    def validated(self) -> TrainConfig:
        """This configuration, or a UserError that names the first option out of range."""
        positive = ("epochs", "batch_size", "factors", "topk", "valid_negative", "eval_after")
        for name in (*positive, "valid_users_per_batch"):
            value = getattr(self, name)
            require(self, name, value is None or value >= 1, "must be at least 1")
        for name in ("negative_samples", "threads", "warmup_steps"):
            require(self, name, getattr(self, name) >= 0, "must be at least 0")
        for name in ("learning_rate", "eps"):
            value = getattr(self, name)
            require(self, name, value > 0 and math.isfinite(value), "must be a number above 0")
        for name in ("beta1", "beta2", "dropout"):
            require(self, name, 0 <= getattr(self, name) < 1, "must lie in [0, 1)")
        group = self.group_size
        rule = f"must be at least {group}: a positive and its negatives are shuffled as one"
        require(self, "batch_size", self.batch_size >= group, rule)
        require(self, "target", 0 < self.target <= 1, "must lie in (0, 1]")
        sizes_fit = len(self.layers) >= 1 and min(self.layers) >= 1 and self.layers[0] >= 2
        require(self, "layers", sizes_fit, "needs positive widths, the first at least 2")
        if self.seed is not None:
            require(self, "seed", 0 <= self.seed < 2**63, "must lie in [0, 2**63)")
        self._check_combinations()
        return self

    def _check_combinations(self) -> None:
        if not self.data:
            raise UserError("--data is missing: name a folder made by `ncf prepare`")
        check_amp_only(self, ("amp_dtype", "loss_scale"))
        if self.loss_scale not in ("auto", "dynamic"):
            scale = _number(self.loss_scale)
            if scale is None or not math.isfinite(scale) or scale <= 0:
                raise UserError(
                    f"--loss_scale {self.loss_scale}: give dynamic, auto or a number above 0"
                )
        if self.protocol == "full" and self.valid_negative is not None:
            raise UserError(
                f"--valid_negative {self.valid_negative} means nothing with --protocol full, which "
                "ranks every item: drop one of the two"
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
        if not (
            self.micro_batch.isascii() and self.micro_batch.isdigit() and int(self.micro_batch)
        ):
            raise UserError(
                f"--micro_batch {self.micro_batch}: give auto or a number of samples of at least 1"
            )
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


def describe_options() -> list[dict[str, Any]]:
    """All options as plain data; bench checks suites with it without importing the trainer."""
    return options.describe(TrainConfig)


def config_from_arguments(arguments: Sequence[str], prog: str = "ncf train") -> TrainConfig:
    """Parse a command line into a validated configuration; UserError says what is wrong."""
    values = options.parse(
        TrainConfig,
        arguments,
        prog,
        "Train NeuMF on a prepared data folder. Start several ranks with horovodrun or mpirun. "
        "Exit codes: 0 ok, 2 bad input, 3 not-a-number, 4 invalid, 130 interrupted.",
    )
    return TrainConfig(**values).validated()
