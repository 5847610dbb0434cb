"""A folder in which `bench` runs the stub trainer as processes, and what must be true after."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from sample_suite import parse_suite as parse

from bench.process import reaper
from bench.records.store import load
from bench.suite.model import cells

HERE = Path(__file__).parent
MARK = "STUB_WORLD"
SUITE = """\
[data]
synthetic = "tiny"
[train]
epochs = 2
[axes]
ranks = [1, 2]
precision = ["fp32", "amp"]
[repeat]
seeds = {seeds}
[limits]
timeout_s = 30
"""


class World:
    """A folder with a suite, and everything that runs in it."""

    def __init__(self, folder, seeds=3):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "stub.toml").write_text(SUITE.format(seeds=seeds), encoding="utf-8")
        self.env = {
            **os.environ,
            MARK: str(folder),
            "STUB_PYTHON": sys.executable,
            "STUB_TRACE": str(folder / "trace"),
        }

    def start(self, *words, **env):
        return subprocess.Popen(
            [
                sys.executable,
                str(HERE / "drive_bench.py"),
                *(words or ("stub.toml", "--no-report")),
            ],
            cwd=self.folder,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, *words, **env):
        """Run to the end; exit code, stdout, stderr."""
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    @property
    def results(self):
        return self.folder / "results" / "stub"

    def orphans(self):
        return processes_with(f"{MARK}={self.folder}")

    def check_complete(self, seeds, statuses=("ok", "interrupted")):
        """Exactly one good run per cell and seed, nothing half-written, no process left."""
        from stub_trainer import OPTIONS

        from bench.suite.trainer_options import Option

        options = {name: Option(name, kind, default) for name, kind, default, _ in OPTIONS}
        suite = parse((self.folder / "stub.toml").read_text(), "stub", "stub.toml", options)
        loaded = load(self.results)
        good = Counter((a.cell.key, a.seed) for a in loaded.attempts if a.ok)
        wanted = {(cell.key, seed) for cell in cells(suite) for seed in range(1, seeds + 1)}
        assert set(good) == wanted
        assert set(good.values()) == {1}, "no run was made twice"
        assert loaded.unreadable == []
        assert {a.status for a in loaded.attempts} <= set(statuses)
        numbers = Counter((a.cell.key, a.seed) for a in loaded.attempts)
        for attempt in loaded.attempts:
            assert attempt.attempt <= numbers[(attempt.cell.key, attempt.seed)], "no gap in numbers"
        left = [path.name for path in self.results.iterdir()]
        assert sorted(left) == ["logs", "plan.json", "records"]
        assert not list(self.results.rglob("*.tmp"))
        assert self.orphans() == []


def processes_with(variable):
    """Processes with this environment variable, whatever they are."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [pid for pid in pids if variable.encode() in reaper.environment(pid)]


def wait_until(true, seconds=30.0):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        threading.Event().wait(0.02)
    return true()


def close(process):
    process.wait()
    process.stdout.close()
    process.stderr.close()
