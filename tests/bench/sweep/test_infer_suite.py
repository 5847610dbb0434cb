"""A suite of inference, from its file to its report, with the real trainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tf, pytest.mark.slow]
SUITE = """
[data]
synthetic = "tiny"
[infer]
work = "both"
batch_sizes = [1, 64]
ranking_users = [2]
num_batches = 12
warmup_batches = 2
factors = 8
layers = [16, 8]
[axes]
formulation = ["reference", "fast"]
"""


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_suite_of_inference_runs_resumes_and_reports(tmp_path) -> None:
    (tmp_path / "timed.toml").write_text(SUITE, encoding="utf-8")
    done = bench(tmp_path, "run", "timed.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    records = sorted((tmp_path / "results" / "timed" / "records").rglob("*.json"))
    assert len(records) == 2
    attempt = json.loads(records[0].read_text(encoding="utf-8"))
    assert attempt["status"] == "ok"
    assert attempt["command"][3] == "infer"
    work = [(calls["work"], calls["batch_size"]) for calls in attempt["run"]["inference"]]
    assert work == [("pairs", 1), ("pairs", 64), ("ranking", 2)]
    report = (tmp_path / "results" / "timed" / "report.md").read_text(encoding="utf-8")
    assert "Inference latency" in report
    again = bench(tmp_path, "plan", "timed.toml")
    assert "nothing to run: 2 of 2 runs are stored" in again.stdout
    status = json.loads(bench(tmp_path, "status", "timed.toml", "--json").stdout)
    assert [cell["stale"] for cell in status["cells"]] == [[], []]
