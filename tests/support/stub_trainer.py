"""Imitates `ncf` on the command line, in a tenth of a second and without TensorFlow.

The environment controls `train`: STUB_DO for all runs, STUB_DO_SEED<n> for one seed, each a word of
BEHAVIOURS; several words separated by commas are used one per attempt, counted in the folder
STUB_COUNTS. STUB_SECONDS is how long a good run lasts; it also waits for the file STUB_UNTIL.
STUB_TRACE is a file to which every run adds a line. STUB_RATE is the speed in the record, spread by
seed; STUB_WORK makes a run hash so many megabytes an epoch and record how long that took.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.process import reaper
from ncf.record import Dataset, Epoch, Precision, RunRecord, write_json

OPTIONS = [
    ("epochs", "int", 30, None),
    ("batch_size", "int", 1048576, None),
    ("layers", "int_list", [256, 256, 128, 64], None),
    ("learning_rate", "float", 0.0045, None),
    ("target", "float", 0.9562, None),
    ("precision", "str", "fp32", ["fp32", "tf32", "amp"]),
    ("protocol", "str", None, ["nvidia", "unique", "mlperf"]),
    ("valid_negative", "int", None, None),
    ("xla", "bool", False, None),
    ("seed", "int", None, None),
    ("data", "str", "", None),
    ("record", "str", "", None),
]
BEHAVIOURS = (
    *("ok", "nan", "invalid", "error", "crash", "abort", "killed", "oom", "hang", "deaf"),
    *("rubbish", "norecord", "tf32", "wrongseed", "otherdata", "fork", "linger"),
)
DATA = {"name": "stub-data", "hash": "0123456789abcdef", "candidates": "feedfacefeedface"}


def main(words: list[str]) -> int:
    if words[0] == "options":
        keys = ("name", "type", "default", "choices")
        print(json.dumps({"options": [dict(zip(keys, option, strict=True)) for option in OPTIONS]}))
        return 0
    if words[0] == "probe":
        return probe(words)
    if words[0] in ("prepare", "synthesize"):
        return make_data(words)
    return train(words[1:])


def probe(words: list[str]) -> int:
    """What `ncf probe` prints on a sound machine without GPU; STUB_PROBE breaks one thing."""
    broken = os.environ.get("STUB_PROBE", "")
    if broken == "no tensorflow":
        print("ncf: error: training needs TensorFlow, which cannot be imported", file=sys.stderr)
        return 2
    if broken == "rubbish":
        print("hello")
        return 0
    bits = {"mantissa_bits": 23, "expected_mantissa_bits": 23}
    fp32 = {"effective": "fp32", "compute_dtype": "float32", **bits}
    if broken == "tf32":
        fp32 |= {"effective": "tf32 or float16", "mantissa_bits": 10}
    amp = {"mantissa_bits": 7, "expected_mantissa_bits": 7}
    facts = {
        "versions": {"tensorflow": "2.21.0", "python": "3.12.3", "numpy": "2.0.0"},
        "cuda_build": False,
        "gpus": 0,
        "gpu": None,
        "precision": {
            "fp32": fp32,
            "tf32": {"not_available": "--precision tf32 needs an NVIDIA GPU"},
            "amp": {"effective": "amp", "compute_dtype": "bfloat16", **amp},
        },
        "horovod": {
            "problem": None,
            "version": "0.28.1",
            "gloo": True,
            "nccl": False,
            "mpi": False,
        },
        "data": {"hash": DATA["hash"], "problem": None} if "--data" in words else None,
    }
    print("a line of a library")
    print(json.dumps(facts))
    return 0


def make_data(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("input", nargs="?")
    for name in ("output", "preset", "seed", "protocol", "valid_negative"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args(words)
    if os.environ.get("STUB_PREPARE") == "fail":
        print("ncf: error: ratings.csv: one column found; a separator is missing", file=sys.stderr)
        return 2
    if os.environ.get("STUB_PREPARE") == "hang":
        print("preparing", flush=True)
        time.sleep(600)
    folder = Path(given.output)
    known = "ml-100k" if given.input and "ml-100k" in given.input else None
    write_data(folder, known)
    print(f"{folder}: 3 users")
    return 0


def write_data(folder: Path, known_as: str | None = None, hash_: str = DATA["hash"]) -> None:
    folder.mkdir(parents=True)
    (folder / "train_items.npy").write_bytes(b"\0" * (128 + 4 * 10))
    manifest = {
        "schema_version": 1,
        "name": DATA["name"],
        "hash": hash_,
        "source": {"known_as": known_as},
        "candidates": {"hash": DATA["candidates"]},
        "arrays": {"train_items": {"dtype": "int32", "shape": [10]}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def train(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    for name, kind, default, _ in OPTIONS:
        if kind == "bool":
            parser.add_argument(f"--{name}", action="store_true")
        elif kind == "int_list":
            parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
        else:
            parser.add_argument(f"--{name}", type={"int": int, "float": float}.get(kind, str))
    given = parser.parse_args(words)
    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    size = int(os.environ.get("HOROVOD_SIZE", "1"))
    if rank == 0 and "STUB_TRACE" in os.environ:
        with Path(os.environ["STUB_TRACE"]).open("a", encoding="utf-8") as trace:
            trace.write(f"{size} {given.precision} {given.seed}\n")
    print(f"rank {rank} of {size}: learning", flush=True)
    what = behaviour(given, size)
    if rank != size - 1 and what in ("crash", "abort", "oom", "killed"):
        time.sleep(600)  # the last rank fails, the others wait for it
    code = misbehave(what, given, rank)
    if code is not None:
        return code
    for epoch in (1, 2):
        if rank == 0:
            print(f"epoch {epoch}/2  loss 0.2134  HR@10 0.6{epoch}23  1,000 samples/s", flush=True)
        time.sleep(float(os.environ.get("STUB_SECONDS", "0")) / 2)
    wait_for_release()
    record = make_record(given, size, what)
    if what == "fork" and os.fork() == 0:  # leave a process behind, in a session of its own
        os.setsid()
        time.sleep(600)
    if rank == 0 and what != "norecord":
        write_json(Path(given.record), {**record.to_dict(), **changes(what)})
    if what == "linger":
        time.sleep(600)
    return {"nan": 3, "invalid": 4}.get(what, 0)


def wait_for_release() -> None:
    while "STUB_UNTIL" in os.environ and not Path(os.environ["STUB_UNTIL"]).exists():
        time.sleep(0.02)


def behaviour(given: argparse.Namespace, size: int) -> str:
    words = os.environ.get(f"STUB_DO_SEED{given.seed}", os.environ.get("STUB_DO", "ok")).split(",")
    earlier = 0
    if "STUB_COUNTS" in os.environ:
        # by the attempt's token: a rank that was ended early has the same count as the others
        name = f"{size}-{given.precision}-{given.seed}"
        attempts = Path(os.environ["STUB_COUNTS"]) / name
        attempts.mkdir(exist_ok=True)
        (attempts / os.environ[reaper.MARK]).touch()
        earlier = len(list(attempts.iterdir())) - 1
    word = words[min(earlier, len(words) - 1)]
    assert word in BEHAVIOURS, word
    return word


def misbehave(what: str, given: argparse.Namespace, rank: int) -> int | None:
    """End badly, or return None to go on."""
    if what == "crash":
        print(f"Traceback (most recent call last):\nValueError: rank {rank} fell over", flush=True)
        return 1
    if what == "error":
        print("ncf: error: --epochs 0: must be at least 1", file=sys.stderr)
        return 2
    if what == "oom":
        print("tensorflow.errors.ResourceExhaustedError: OOM when allocating tensor", flush=True)
        return 1
    if what in ("abort", "killed"):
        os.kill(os.getpid(), signal.SIGABRT if what == "abort" else signal.SIGKILL)
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if what in ("hang", "deaf"):
        print("epoch 1/2  loss 0.7  HR@10 0.1000  10 samples/s", flush=True)
        time.sleep(600)
    if what == "rubbish":
        Path(given.record).write_text('{"schema_version": 1, "status": "ok", "epo')
        return 0
    return None


def changes(what: str) -> dict:
    return {
        "nan": {"status": "nan", "reason": "the loss of epoch 2 is not finite"},
        "invalid": {"status": "invalid", "reason": "weights differ between ranks"},
    }.get(what, {})


def make_record(given: argparse.Namespace, size: int, what: str) -> RunRecord:
    values = {key: value for key, value in vars(given).items() if value is not None}
    seconds = seconds_of_an_epoch(given.seed)
    epochs = tuple(
        Epoch(n, 10, 10_000, 0.5, 9_000, seconds, 0.7 / n, 0.1, 0.6 + n / 100, 0.3) for n in (1, 2)
    )
    return RunRecord(
        status="ok",
        started_at="2026-11-30T08:00:00Z",
        finished_at="2026-11-30T08:00:01Z",
        seed=99 if what == "wrongseed" else given.seed,
        world_size=size,
        topk=10,
        target_hr=1.0,
        global_batch=given.batch_size or 1,
        config={**values, "data": Path(given.data).name},
        precision=Precision(
            given.precision, "tf32" if what == "tf32" else given.precision, "float32"
        ),
        dataset=Dataset(
            DATA["name"],
            "another-data-set" if what == "otherdata" else dataset_hash(given),
            943,
            1682,
            99_057,
            943,
            "nvidia",
            100,
            DATA["candidates"],
            97.0,
            0.1,
            0.4,
        ),
        epochs=epochs,
        setup_seconds=0.1,
        warmup_seconds=0.1,
        peak_memory_bytes_per_rank=(1 << 20,) * size,
        versions={"python": "3"},
        hardware={"device": "cpu"},
    )


def seconds_of_an_epoch(seed: int) -> float:
    """Of 9,000 samples: as told, or really measured."""
    if "STUB_WORK" in os.environ:
        block, start = b"x" * 2**20, time.monotonic()
        for _ in range(int(os.environ["STUB_WORK"])):
            hashlib.sha256(block)
        return time.monotonic() - start
    if "STUB_RATE" in os.environ:
        return 9_000 / (float(os.environ["STUB_RATE"]) * (1 + 0.005 * (seed * 7 % 5 - 2)))
    return 0.45


def dataset_hash(given: argparse.Namespace) -> str:
    manifest = json.loads((Path(given.data) / "manifest.json").read_text(encoding="utf-8"))
    return str(manifest["hash"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
