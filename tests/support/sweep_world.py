"""A sweep without processes: a launcher that runs a job in no time, and the folder around it."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from sample_records import ML_100K, make_run, make_suite

from bench.host.machine import Host
from bench.process.supervise import Ended, Stop
from bench.records.identity import DataIdentity
from bench.records.store import Store
from bench.suite.model import cells
from bench.sweep.data import PreparedData
from bench.sweep.execute import Sweep
from bench.sweep.plan import Selection, make_plan
from bench.sweep.progress import View
from bench.sweep.scheduler import run_sweep
from ncf.record import write_json

SUITE = make_suite(train={"epochs": 8, "batch_size": 16384})
HOST = Host("cpu", 2, 8 << 30, no_gpus="none", machine_id="here", horovodrun="/h")


class FakeLauncher:
    """Runs a job in no time: `outcomes` are taken one after the other, then all is well."""

    def __init__(self, *outcomes):
        self.outcomes, self.jobs = list(outcomes), []

    def command(self, job):
        return ("/usr/bin/python", "-m", "ncf", "train", *job.arguments)

    def launch(self, job, stop, on_line):
        self.jobs.append(job)
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.write_text("$ python -m ncf train\nepoch 1/1  HR@10 0.6\nValueError: bad\n")
        on_line("epoch 1/1  HR@10 0.6")
        what = self.outcomes.pop(0) if self.outcomes else "ok"
        if isinstance(what, Exception):
            raise what
        if what == "stop":
            stop.signals.append("SIGINT")
            return Ended("interrupted", 1.0, job.timeout_s)
        if what != "ok":
            return Ended("finished", 2.0, job.timeout_s, exit_code=what)
        given = dict(zip(job.arguments[::2], job.arguments[1::2], strict=True))
        run = make_run(seed=int(given["--seed"]), ranks=job.ranks, precision=job.precision)
        config = {"epochs": 8, "batch_size": 16384, "precision": job.precision}
        record = dataclasses.replace(run, config=config).to_dict()
        write_json(Path(given["--record"]), record)
        return Ended("finished", 3.0, job.timeout_s, exit_code=0)


@pytest.fixture(name="world")
def a_world(tmp_path):
    return World(tmp_path)


class World:
    def __init__(self, folder):
        self.folder, self.store = folder, Store(folder / "results" / "sample")
        self.out, self.err, self.time = io.StringIO(), io.StringIO(), 0.0

    def go(
        self,
        *outcomes,
        suite=SUITE,
        host=HOST,
        launcher=None,
        rerun=None,
        timeout_s=60.0,
        **options,
    ):
        """Plan and run; gives the sweep's result and the launcher."""
        launcher = launcher or FakeLauncher(*outcomes)
        data = PreparedData(
            self.folder / "data",
            "ml-100k",
            None,
            DataIdentity(ML_100K.hash, ML_100K.candidates_hash),
        )
        sweep = Sweep(
            suite, self.store, data, host, launcher,
            View(self.out, self.err, lambda: self.time), Stop(), timeout_s, **options,
        )  # fmt: skip
        wanted = Selection(rerun=rerun)
        plan = make_plan(suite, wanted, self.store.load().attempts, host, data.identity)
        return run_sweep(sweep, plan), launcher

    def good(self):
        return sorted((a.cell.key, a.seed) for a in self.store.load().attempts if a.ok)


EVERYTHING = sorted((cell.key, seed) for cell in cells(SUITE) for seed in SUITE.seeds)
