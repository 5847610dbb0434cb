"""Measure how an epoch's time grows with the positives, and a step's with the item table.

    python tools/measure_growth.py --folder /tmp/growth

Generates data of ml-20m's users with 1, 4 and 16 million positives, and with four times the items,
and times whole epochs (after one step of warm-up) of the fast step at the published batch. Each
measurement is the middle epoch of a process of its own; rounds of all of them are interleaved.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Sequence

USERS, ITEMS, MILLION = 138_493, 26_744, 1_000_000
SHAPES = {
    "1 M positives": (ITEMS, MILLION),
    "4 M positives": (ITEMS, 4 * MILLION),
    "16 M positives": (ITEMS, 16 * MILLION),
    "1 M positives, 4 x items": (4 * ITEMS, MILLION),
}
RELATIONS = {
    "4 M positives": "1 M positives",
    "16 M positives": "1 M positives",
    "1 M positives, 4 x items": "1 M positives",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, time, and print epoch times and their relations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="for data and records")
    parser.add_argument("--batch_size", type=int, default=1_048_576)
    parser.add_argument("--precision", choices=("fp32", "amp"), default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3, help="of each process [3]")
    parser.add_argument("--only", nargs="+", choices=tuple(SHAPES), default=list(SHAPES))
    args = parser.parse_args(arguments)
    folders = {name: made(args.folder, name) for name in args.only}
    seconds: dict[str, list[float]] = {name: [] for name in args.only}
    for _ in range(args.rounds):
        for name, folder in folders.items():
            seconds[name].append(seconds_per_million(args, folder))
            print(f"{name}: {seconds[name][-1]:.3f} s per million samples", flush=True)
    middle = {name: statistics.median(found) for name, found in seconds.items()}
    for name, base in RELATIONS.items():
        if name in middle and base in middle:
            print(f"{name}: time per sample x {middle[name] / middle[base]:.3f} of {base}")
    return 0


def made(folder: Path, name: str) -> Path:
    """A data folder of this shape, made once."""
    import numpy as np

    from ncf.data import writer as writing

    items, positives = SHAPES[name]
    target = folder / name.replace(" ", "-").replace(",", "")
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    # Speed depends on sizes and on how often rows are met, not on who likes what.
    counts = rng.lognormal(0, 1.1, USERS)
    counts = np.maximum(1, np.minimum(0.3 * items, counts * positives / counts.sum())).astype(int)
    # Rounding down has lost half a positive a user.
    counts[rng.permutation(USERS)[: positives - counts.sum()]] += 1
    assert counts.sum() == positives, "users of this shape cannot hold so many positives"
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    # Distinct within a user, as 0.3 of the items at most are taken in steps of 2.
    listed = (np.repeat(rng.integers(0, items, USERS), counts) + 2 * within) % items
    order = np.lexsort((listed, np.repeat(np.arange(USERS), counts)))
    train = listed[order].astype(np.int32)
    users = np.arange(USERS, dtype=np.int32)
    held_out = rng.integers(0, items, USERS).astype(np.int32)
    drawn = rng.integers(0, items, (USERS, 2)).astype(np.int32)
    ids = {}
    for kind, count in (("user", USERS), ("item", items)):
        text = [str(i + 1).encode() for i in range(count)]
        ids[f"{kind}_ids"] = np.frombuffer(b"".join(text), np.uint8)
        ids[f"{kind}_id_offsets"] = np.cumsum([0, *map(len, text)]).astype(np.int64)
    arrays = {
        "train_items": train,
        "train_offsets": offsets,
        "test_users": users,
        "test_items": held_out,
        "candidates": drawn,
        **ids,
    }
    about = {
        "name": target.name,
        "source": None,
        "split": {},
        "summary": {},
        "candidates": {"protocol": "nvidia", "per_user": 2, "seed": 1},
        "hr_at_10": {},
    }
    writing.save(target, writing.Prepared(arrays, about))
    return target


def seconds_per_million(args: argparse.Namespace, folder: Path) -> float:
    """Seconds of the middle epoch per million samples, without first step and evaluation."""
    record = args.folder / "record.json"
    words = ["--data", str(folder), "--batch_size", str(args.batch_size), "--seed", "1"]
    words += ["--epochs", str(args.epochs), "--precision", args.precision]
    words += ["--topk", "1", "--record", str(record)]
    command = [sys.executable, "-m", "ncf", "train", *words]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    epochs = json.loads(record.read_text(encoding="utf-8"))["epochs"]
    return statistics.median(e["timed_seconds"] / e["timed_samples"] * 1e6 for e in epochs)


if __name__ == "__main__":
    raise SystemExit(main())
