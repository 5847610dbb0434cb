"""`ncf` with one fault planted from outside, for tests: FAULT=KIND:RANK:PHASE.

The rank RANK does KIND when it comes to PHASE; without FAULT this is `ncf` itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncf import __main__ as ncf_main
from ncf.cli import train as train_command
from ncf.ranks.horovod import place_from_environment

KINDS = ("kill", "abort", "raise", "exit", "stall", "freeze")
PHASES = ("start", "step", "evaluation", "checkpoint")
SAID = "planted fault"


def strike(kind: str) -> None:
    """Do the damage."""
    print(f"{SAID}: {kind}", file=sys.stderr, flush=True)
    if path := os.environ.get("FAULT_TIME"):
        Path(path).write_text(str(time.time()))
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "abort":
        os.abort()
    if kind == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "raise":
        raise RuntimeError(SAID)
    if kind == "exit":
        os._exit(9)
    if kind == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "stall":
        time.sleep(3600)


def plant(kind: str, phase: str) -> None:
    """Strike on the way into the phase; the third step of a run, so that training has begun."""
    from ncf.evaluation.evaluators import Evaluator
    from ncf.training import setup
    from ncf.training.state import TrainState
    from ncf.training.train_step import TrainStep

    owner, name, call = {
        "start": (setup, "set_up", 1),
        "step": (TrainStep, "__call__", 3),
        "evaluation": (Evaluator, "run", 2),
        "checkpoint": (TrainState, "save", 2),
    }[phase]
    original, calls = getattr(owner, name), iter(range(1, 1 << 30))

    def faulty(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            strike(kind)
        return original(*args, **kwargs)

    setattr(owner, name, faulty)


def main(words: list[str]) -> int:
    fault = os.environ.get("FAULT")
    if fault and words[:1] == ["train"]:
        kind, rank, phase = fault.split(":")
        if place_from_environment().rank == int(rank):
            need = train_command.need_tensorflow

            def need_then_plant() -> None:
                need()
                plant(kind, phase)

            train_command.need_tensorflow = need_then_plant
    return ncf_main.main(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
