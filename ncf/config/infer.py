"""The options of `ncf infer`; names follow NVIDIA's `inference.py` where it has them."""

from __future__ import annotations

from dataclasses import dataclass

from ncf.config.options import (
    ABOVE_0,
    SEED,
    WIDTHS,
    Options,
    flag,
    option,
    shared,
)
from ncf.errors import UserError

BATCH_SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)


@dataclass(frozen=True)
class InferConfig(Options):
    """Everything a measurement of inference depends on."""

    data: str = option(
        "", "data folder for sizes and training items; without it --n_users, --n_items", path=True
    )
    load_checkpoint_path: str = option(
        "", "weights: a checkpoint or its folder; random if not given", path=True
    )
    n_users: int = option(
        138493, "users of random weights without --data; ml-20m's by default", least=1
    )
    n_items: int = option(
        26744, "items of random weights without --data; ml-20m's by default", least=1
    )
    factors: int = option(64, "width of the GMF embeddings of random weights", least=1)
    layers: tuple[int, ...] = option(
        (256, 256, 128, 64), "widths of the MLP of random weights", rule=WIDTHS
    )
    precision: str = shared("precision")
    amp_dtype: str = shared("amp_dtype")
    formulation: str = option(
        "fast",
        "reference (the forward pass as published) or fast (first layer folded into the tables)",
        choices=("reference", "fast"),
    )
    work: str = option(
        "pairs",
        "score random pairs, rank the whole catalogue for random users, or both",
        choices=("pairs", "ranking", "both"),
    )
    batch_sizes: tuple[int, ...] = option(BATCH_SIZES, "pairs scored by a call", least=1)
    ranking_users: tuple[int, ...] = option((1, 128), "users ranked by a call", least=1)
    topk: int = option(10, "items kept of each ranking", least=1)
    num_batches: int = option(200, "most calls of a batch size, warm-up included", least=1)
    seconds: float = option(5.0, "time after which a batch size gets no further call", rule=ABOVE_0)
    warmup_batches: int = option(3, "first calls of a batch size that are not timed", least=0)
    seed: int | None = option(
        None, "seed of weights, pairs and users; drawn if not given", rule=SEED
    )
    threads: int = option(0, "CPU threads; 0 is all cores", least=0)
    log_path: str = shared("log_path")
    record: str = shared("record")
    json: bool = flag("print the figures as JSON instead of a table")

    def check_combinations(self) -> None:
        """Raise a UserError if options contradict each other."""
        for name in ("batch_sizes", "ranking_users"):
            sizes = getattr(self, name)
            self.require(name, "lists a size twice", holds=len(set(sizes)) == len(sizes))
        if self.warmup_batches >= self.num_batches:
            raise UserError(
                f"--warmup_batches {self.warmup_batches}: of {self.num_batches} calls nothing is "
                "left to time; lower it, or raise --num_batches"
            )
        self.check_amp_only("amp_dtype")
