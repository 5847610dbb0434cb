"""`ncf train` in this process, on small sizes."""

from __future__ import annotations

from pathlib import Path

from ncf import record
from ncf.config.train import config_from_arguments
from ncf.training import train

# The reference step traces in half the time; the fast one is for tests of numbers.
QUICK = ("--formulation", "reference")
SMALL = ["--batch_size", "512", "--factors", "8", "--layers", "32", "16", "8", "--topk", "5"]


def run(data: str, tmp_path: Path, *words: str, seed: int = 1) -> tuple[int, record.RunRecord]:
    path = tmp_path / "run.json"
    fixed = ["--data", data, "--record", str(path), "--seed", str(seed), *SMALL]
    code = train.run(config_from_arguments([*fixed, "--learning_rate", "0.01", *words]))
    return code, record.read_run(path)
