"""The options of `ncf infer`; names follow NVIDIA's `inference.py` where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncf.config import options
from ncf.config.options import check_amp_only, flag, option, require
from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH_OPTIONS = ("data", "load_checkpoint_path", "log_path", "record")
WORKS = ("pairs", "ranking", "both")
SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)


@dataclass(frozen=True)
class InferConfig:
    """Everything a measurement of inference depends on."""

    data: str = option(
        "", "data folder for sizes and training items; without it --n_users, --n_items"
    )
    load_checkpoint_path: str = option(
        "", "weights: a checkpoint or its folder; random if not given"
    )
    n_users: int = option(138493, "users of random weights without --data; ml-20m's by default")
    n_items: int = option(26744, "items of random weights without --data; ml-20m's by default")
    factors: int = option(64, "width of the GMF embeddings of random weights")
    layers: tuple[int, ...] = option((256, 256, 128, 64), "widths of the MLP of random weights")
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
    formulation: str = option(
        "fast",
        "reference (the forward pass as published) or fast (first layer folded into the tables)",
        choices=("reference", "fast"),
    )
    work: str = option(
        "pairs",
        "score random pairs, rank the whole catalogue for random users, or both",
        choices=WORKS,
    )
    batch_sizes: tuple[int, ...] = option(SIZES, "pairs scored by a call")
    ranking_users: tuple[int, ...] = option((1, 128), "users ranked by a call")
    topk: int = option(10, "items kept of each ranking")
    num_batches: int = option(200, "most calls of a batch size, the warm-up among them")
    seconds: float = option(5.0, "time after which a batch size gets no further call")
    warmup_batches: int = option(3, "calls of a batch size that are left out before")
    seed: int | None = option(None, "seed of weights, pairs and users; drawn if not given")
    threads: int = option(0, "CPU threads; 0 is all cores")
    log_path: str = option("", "append DLLogger lines (DLLL {json}) to this file")
    record: str = option("", "write the run's record (JSON) to this file")
    json: bool = flag("print the figures as JSON instead of a table")

    def echo(self) -> dict[str, Any]:
        """The options as used, for the record; paths are cut to their last part."""
        return options.echo(self, PATH_OPTIONS)

    def validated(self) -> InferConfig:
        """This configuration, or a UserError that names the first option out of range."""
        for name in ("n_users", "n_items", "factors", "topk", "num_batches"):
            require(self, name, getattr(self, name) >= 1, "must be at least 1")
        for name in ("warmup_batches", "threads"):
            require(self, name, getattr(self, name) >= 0, "must be at least 0")
        for name in ("batch_sizes", "ranking_users"):
            sizes = getattr(self, name)
            require(self, name, bool(sizes) and min(sizes) >= 1, "must be at least 1")
            require(self, name, len(set(sizes)) == len(sizes), "lists a size twice")
        fits = bool(self.layers) and min(self.layers) >= 1 and self.layers[0] >= 2
        require(self, "layers", fits, "needs positive widths, the first at least 2")
        require(self, "seconds", 0 < self.seconds < float("inf"), "must be a number above 0")
        if self.seed is not None:
            require(self, "seed", 0 <= self.seed < 2**63, "must lie in [0, 2**63)")
        if self.warmup_batches >= self.num_batches:
            raise UserError(
                f"--warmup_batches {self.warmup_batches}: of {self.num_batches} calls nothing is "
                "left to time; lower it, or raise --num_batches"
            )
        check_amp_only(self, ("amp_dtype",))
        return self


def config_from_arguments(arguments: Sequence[str], prog: str = "ncf infer") -> InferConfig:
    """Parse a command line into a validated configuration; UserError says what is wrong."""
    values = options.parse(
        InferConfig,
        arguments,
        prog,
        "Time a model at scoring pairs and at ranking the catalogue: throughput and latency. "
        "Exit codes: 0 ok, 2 bad input, 3 not-a-number, 4 invalid, 130 interrupted.",
    )
    return InferConfig(**values).validated()
