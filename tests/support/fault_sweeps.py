"""Sweeps with planted faults, and what their end must look like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import faulty_trainer
from paths import ROOT, SUPPORT
from stub_world import processes_with

SUITE = """
[data]
synthetic = "tiny"
[train]
epochs = 4
batch_size = 8192
factors = 8
layers = [32, 16, 8]
target = 1.0
checkpoint_dir = "{folder}/checkpoints"
[axes]
ranks = [2]
[repeat]
seeds = 60
[limits]
timeout_s = 200
"""


BENCH = """
import sys
from bench.__main__ import main
sys.exit(main(sys.argv[1:], trainer=(sys.executable, {trainer!r})))
"""


LIMIT_SECONDS = 60.0


class Sweeps:
    """A results folder in which one faulty run follows another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.suite = folder / "faults.toml"
        self.suite.write_text(SUITE.format(folder=folder))

    def records(self) -> dict[Path, bytes]:
        found = (self.folder / "results" / "faults" / "records").rglob("*.json")
        return {path: path.read_bytes() for path in found}

    def run(self, seed: int, fault: str = "", **environment: str) -> tuple[dict[str, Any], float]:
        """The attempt that is stored, and the seconds from the fault to the end of the sweep."""
        before = self.records()
        words = ["run", str(self.suite), "--seeds", str(seed), "--no_report"]
        words += ["--results", f"{self.folder}/results", "--data_root", f"{self.folder}/data"]
        struck = self.folder / "struck"
        struck.unlink(missing_ok=True)
        marks = {"FAULT": fault, "FAULT_TIME": str(struck), "FAULT_TEST": str(self.folder)}
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                BENCH.format(trainer=str(SUPPORT / "faulty_trainer.py")),
                *words,
            ],
            cwd=ROOT,
            env={**os.environ, **marks, **environment},
            capture_output=True,
            text=True,
            timeout=290,
            check=False,
        )
        ended = time.time()
        after = self.records()
        assert {path: after[path] for path in before} == before, "what is stored stays as it is"
        (new,) = set(after) - set(before)
        took = ended - float(struck.read_text()) if struck.exists() else 0.0
        assert processes_with(f"FAULT_TEST={self.folder}") == [], done.stdout
        return json.loads(after[new]), took


def check(fault: str, attempt: dict[str, Any], took: float) -> list[str]:
    """What is wrong with the end of a faulty run."""
    kind, rank, _ = fault.split(":")
    failure = attempt["failure"] or {}
    said = {
        "kill": "ended by SIGKILL",
        "abort": "Fatal Python error: Aborted",
        "segv": "Fatal Python error: Segmentation fault",
        "raise": f"RuntimeError: {faulty_trainer.SAID}",
        "exit": faulty_trainer.SAID,
        "stall": f"rank {rank} stalled: nothing done for",
        "freeze": f"rank {rank} gives no sign of life",
    }[kind]
    wrong = []
    if attempt["status"] != "crash" or failure.get("rank") != int(rank):
        wrong.append(f"{fault}: {attempt['status']} {failure}")
    if said not in failure.get("message", ""):
        wrong.append(f"{fault}: {failure.get('message')!r} does not say {said!r}")
    if not 0 < took <= LIMIT_SECONDS:
        wrong.append(f"{fault}: ended after {took:.0f} s")
    return wrong
