"""Measure what the sweep itself costs, with the tests' stand-in for the trainer.

    python tools/measure_sweep.py plan       10,000 stored runs of 800 cells: plan, status, resume
    python tools/measure_sweep.py report     the report of 2,400 stored runs of 8 cells
    python tools/measure_sweep.py overhead   three runs of 60 s: wall time, processor, memory

Prints the figures; asserts nothing, for they are those of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.host.samples import FIELDS  # noqa: E402 - the repository need not be installed
from bench.records.store import Store, sealed  # noqa: E402
from bench.suite.model import cells  # noqa: E402
from bench.suite.parse import parse  # noqa: E402
from bench.suite.trainer_options import Option  # noqa: E402

if TYPE_CHECKING:
    import resource
    from collections.abc import Sequence

    from bench.suite.model import Suite

DRIVE = ROOT / "tests" / "drive_bench.py"
EPOCHS = 30
GPUS = 8
MANY = """\
[data]
synthetic = "tiny"
[axes]
precision = ["fp32", "amp"]
batch_size = [{sizes}]
[repeat]
seeds = {{ fp32 = 13, amp = 12 }}
"""
WIDE = """\
[data]
synthetic = "tiny"
[axes]
ranks = [1, 2, 4, 8]
precision = ["fp32", "amp"]
[repeat]
seeds = 300
[report]
margin_hr = 0.005
"""
LONG = """\
[data]
synthetic = "tiny"
[repeat]
seeds = 3
"""


def bench(folder: Path, *words: str, **env: str) -> tuple[float, resource.struct_rusage, str]:
    """Run `bench` with the stub: seconds, what it used (its children too), and its output."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(DRIVE), *words],
        cwd=folder,
        env={**os.environ, "STUB_PYTHON": sys.executable, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as stream:
        out = stream.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    seconds = time.perf_counter() - begun
    if status:
        sys.exit(f"bench {' '.join(words)} ended with {status}:\n{out[:1000]}")
    return seconds, used, out


def template(folder: Path) -> dict[str, Any]:
    """A stored attempt as long as a real one on 8 GPUs: 30 epochs, telemetry of each card."""
    (folder / "one.toml").write_text('[data]\nsynthetic = "tiny"\n', encoding="utf-8")
    bench(folder, "run", "one.toml", "--no-report")
    (path,) = (folder / "results" / "one" / "records").rglob("*.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    first = data["run"]["epochs"][0]
    data["run"]["epochs"] = [{**first, "epoch": n} for n in range(1, EPOCHS + 1)]
    series = {"mean": 1.0, "min": 1.0, "max": 1.0, "n": 60}
    card = dict.fromkeys(FIELDS, series) | {"event_reasons": {}, "null_reasons": {}}
    del data["sha256"]
    data["telemetry"] |= {"gpus": [{"rank": rank, **card} for rank in range(GPUS)]}
    return dict(data)


def fill(folder: Path, text: str) -> Suite:
    """Store a good run of every repetition of the suite, each a little different."""
    (folder / "many.toml").write_text(text, encoding="utf-8")
    known = {
        "precision": Option("precision", "str", "fp32", ("fp32", "tf32", "amp")),
        "batch_size": Option("batch_size", "int", 1),
    }
    suite = parse(text, "many", "many.toml", known, metrics=(), flags=())
    data, store = template(folder), Store(folder / "results" / "many")
    rng, count, size = random.Random(1), 0, 0
    for cell in cells(suite):
        found = {"key": cell.key, "axes": dict(cell.axes), "options": dict(cell.options)}
        for seed in suite.seeds_of(cell):
            run = {**data["run"], "seed": seed, "config": dict(cell.trainer_options)}
            run["precision"] = {**run["precision"], "requested": cell.precision}
            run["precision"]["effective"] = cell.precision
            run["world_size"] = cell.ranks
            run["peak_memory_bytes_per_rank"] = [1 << 30] * cell.ranks
            noise, best = rng.gauss(0, 0.01), rng.gauss(0.65, 0.004)
            run["epochs"] = [
                {
                    **epoch,
                    "timed_seconds": 0.4 * (1 + noise),
                    "hr_at_k": best - 0.3 / epoch["epoch"],
                }
                for epoch in run["epochs"]
            ]
            one = {**data, "suite": "many", "cell": found, "seed": seed, "run": run}
            text = sealed(json.dumps(one, indent=1))
            path = store.path(cell.key, seed, 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            count, size = count + 1, size + len(text)
    print(f"{count} records of {len(cells(suite))} cells, {size / count / 1024:.1f} KiB each")
    return suite


def plan(folder: Path) -> None:
    """10,000 stored runs, then what the commands take."""
    sizes = ", ".join(str(1024 + n) for n in range(400))
    fill(folder, MANY.format(sizes=sizes))
    for words in (("plan",), ("run", "--no-report"), ("status",), ("check",)):
        seconds, used, out = bench(folder, words[0], "many.toml", *words[1:])
        last = next(line for line in reversed(out.splitlines()) if "smallest" not in line)
        memory = used.ru_maxrss / 1024
        print(f"bench {' '.join(words)}: {seconds:.2f} s, {memory:.0f} MiB at most ({last[:90]})")


def report(folder: Path) -> None:
    """2,400 stored runs, then the report with its pictures."""
    fill(folder, WIDE)
    seconds, used, _ = bench(folder, "report", "many.toml")
    print(f"bench report: {seconds:.2f} s, {used.ru_maxrss / 1024:.0f} MiB at most")


def overhead(folder: Path) -> None:
    """Three runs of 60 s each, and what the sweep added."""
    (folder / "long.toml").write_text(LONG, encoding="utf-8")
    bench(folder, "run", "long.toml", "--no-report", "--seeds", "1", STUB_SECONDS="0.1")
    seconds, used, _ = bench(
        folder, "run", "long.toml", "--no-report", "--rerun", "all", STUB_SECONDS="60"
    )
    loaded = [a for a in Store(folder / "results" / "long").load().attempts if a.wall_seconds > 30]
    walls = [attempt.wall_seconds for attempt in loaded]
    stub = sum(wall - 60 for wall in walls) / len(walls)
    between = (seconds - sum(walls)) / len(walls)
    print(f"{len(walls)} runs of 60 s: {seconds:.2f} s altogether")
    print(f"  start and end of a run's processes, interpreter included: {stub:.2f} s")
    print(f"  the sweep around a run, its own start and end included: {between:.2f} s")
    print(f"  together {100 * (stub + between) / 60:.2f} % of 60 s")
    print(f"  processor: {used.ru_utime + used.ru_stime:.2f} s of {seconds:.0f} s, runs included")
    print(f"  memory of the sweep: {used.ru_maxrss / 1024:.0f} MiB at most")


def main(words: Sequence[str]) -> None:
    """Measure one thing in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("plan", "report", "overhead"))
    chosen = parser.parse_args(words).what
    with tempfile.TemporaryDirectory() as folder:
        {"plan": plan, "report": report, "overhead": overhead}[chosen](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
