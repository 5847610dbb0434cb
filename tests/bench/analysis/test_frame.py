"""`bench.frame`: stored runs as a DataFrame, the command that writes it, and its documentation."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from paths import ROOT
from sample_records import grid, make_suite

import bench
from bench.__main__ import main
from bench.analysis import metrics
from bench.errors import UserError
from bench.records.attempt import Failure
from bench.records.store import Store

BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/frame.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.fixture(name="folder")
def a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store(Path("results/sample"))
    for attempt in grid(make_suite()):
        store.write(attempt)
    return store.folder


def test_a_run_is_a_row_with_identity_metrics_and_options(folder):
    data = bench.frame(folder)
    attempts = Store(folder).load().attempts
    assert len(data) == len(attempts)
    assert list(data.columns[:8]) == [
        "suite", "cell", "ranks", "precision", "seed", "attempt", "status", "ok",
    ]  # fmt: skip
    for (_, row), attempt in zip(data.iterrows(), attempts, strict=True):
        assert (row["cell"], row["seed"]) == (attempt.cell.key, attempt.seed)
        assert row["throughput"] == metrics.THROUGHPUT.of(attempt)
        assert all(row[name] == value for name, value in attempt.cell.axes.items())
    assert {metric.name for metric in metrics.ALL} <= set(data.columns)
    assert data.attrs["units"]["throughput"] == "samples/s"
    assert data["started_at"].dt.tz is not None


def test_failed_attempts_are_rows_without_metrics(folder):
    first = Store(folder).load().attempts[0]
    failure = Failure("killed")
    failed = dataclasses.replace(first, attempt=9, status="oom", run=None, failure=failure)
    Store(folder).write(failed)
    row = bench.frame(folder).query("attempt == 9").iloc[0]
    assert (row["ok"], row["status"], row["failure"]) == (False, "oom", "killed")
    assert pd.isna(row["throughput"])


def test_an_epoch_is_a_row_with_elapsed_seconds(folder):
    data = bench.frame(str(folder), level="epoch")
    runs = [attempt.run for attempt in Store(folder).load().attempts]
    assert len(data) == sum(len(run.epochs) for run in runs)
    last = data.groupby(["cell", "seed"], sort=False).tail(1)
    assert list(last["elapsed_seconds"]) == pytest.approx(
        [sum(e.train_seconds + (e.eval_seconds or 0) for e in run.epochs) for run in runs]
    )


def test_several_folders_are_one_table(folder):
    other = Store(Path("results/other"))
    other.write(dataclasses.replace(Store(folder).load().attempts[0], suite="other"))
    assert set(bench.frame([folder, other.folder])["suite"]) == {"sample", "other"}


def test_an_unreadable_record_is_skipped_with_a_warning(folder):
    path = next(folder.glob("records/*/*.json"))
    rows = len(bench.frame(folder))
    path.write_text("{")
    with pytest.warns(UserWarning, match=f"{re.escape(path.name)}: skipped: not JSON") as caught:
        assert len(bench.frame(folder)) == rows - 1
    assert caught[0].filename == __file__


def test_a_folder_without_records_and_an_unknown_level_are_refused(folder):
    with pytest.raises(UserError, match=r"results: not a suite's folder"):
        bench.frame("results")
    with pytest.raises(UserError, match="level must be one of run, epoch"):
        bench.frame(folder, level="step")


@pytest.mark.parametrize(("name", "read"), [("x.parquet", pd.read_parquet), ("x.csv", pd.read_csv)])
def test_the_command_writes_the_table_to_a_file(folder, capsys, name, read):
    assert main(["frame", "sample", "--output", name]) == 0
    data = bench.frame(folder)
    assert capsys.readouterr().out == f"{name}: {len(data)} runs, {len(data.columns)} columns\n"
    assert list(read(name)["throughput"]) == pytest.approx(list(data["throughput"]))


def test_the_command_warns_of_skipped_records_and_refuses_mistakes(folder, capsys):
    next(folder.glob("records/*/*.json")).write_text("{")
    assert main(["frame", "results/sample", "--level", "epoch", "--output", "x.csv"]) == 0
    assert "ncf-bench: warning: results/sample/records/" in capsys.readouterr().err
    assert main(["frame", "sample", "--output", "x.txt"]) == 2
    assert "must end in .parquet or .csv" in capsys.readouterr().err
    assert main(["frame", "none", "--output", "x.csv"]) == 2
    assert "none: neither a folder with records" in capsys.readouterr().err


def test_import_bench_does_not_import_pandas():
    code = "import bench, sys; print('pandas' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stdout == "False\n"


def test_the_examples_in_the_documentation_run(tmp_path, monkeypatch):
    import matplotlib as mpl

    mpl.use("agg")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    variables: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, variables)
    assert len(BLOCKS) == 3
    assert {path.name for path in tmp_path.glob("*.png")} == {"throughput.png", "hit-rate.png"}
    assert len(variables["good"]) == 12
