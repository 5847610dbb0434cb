"""`bench ingest` and `export`: runs of other programs beside ours, and never pooled with them."""

from __future__ import annotations

import json
import shutil

import foreign_logs as logs
import golden
import pytest
from html_outline import Outline
from sample_records import ML_20M, grid, make_attempt, make_suite

from bench.__main__ import main
from bench.cli import exchange
from bench.plots import catalog
from bench.records.store import Store, load


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """`bench` in a folder with records of ours: 20 M samples/s on ml-20m, 1 and 8 ranks."""
    suite = make_suite(
        title="DGX",
        train={"epochs": 5, "batch_size": 1048576},
        axes={"ranks": (1, 8), "precision": ("tf32", "amp")},
    )
    monkeypatch.chdir(tmp_path)
    from bench.cli import report as report_commands

    monkeypatch.setattr(catalog, "draw", lambda *_: {})  # pictures have tests of their own
    for module in (report_commands, exchange):
        monkeypatch.setattr(module, "load_suite", lambda _name, _trainer: suite)
    attempts = grid(
        suite, spread=4e-4, best=0.959, rate=2e7, data=ML_20M, batch=1048576, dtype="float16"
    )
    for attempt in attempts:
        Store(tmp_path / "results" / "sample").write(attempt)

    def run(*words):
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return [f"{name}.json" for name in files]


def table_of(bench):
    data = json.loads(bench("report", "sample", "--format", "json", "--table", "foreign")[1])
    return data["tables"]


def test_ingested_runs_stand_beside_ours_and_are_never_pooled(bench, tmp_path):
    before = bench("report", "sample", "--format", "csv", "--table", "throughput")[1]
    files = write(
        tmp_path,
        **{f"amp{seed}": logs.pytorch(seed=seed, speed=1e8 + seed) for seed in (1, 2, 3)},
        full=logs.pytorch(amp=False, gpus=1, speed=2e7),
        cut=logs.pytorch(seed=9, closing=False),
    )

    code, out, _ = bench(
        "ingest", *files, "--suite", "sample", "--precision", "tf32", "--same-machine",
        "--data", "ml-20m",
    )  # fmt: skip

    assert code == 0
    assert out.splitlines()[-1].startswith("5 new runs in results/sample/foreign")
    assert "cut.json: NVIDIA's NCF for PyTorch, 8 ranks, 3 epochs, cut before" in out
    assert bench("report", "sample", "--format", "csv", "--table", "throughput")[1] == before
    assert len(load(tmp_path / "results" / "sample").attempts) == 12
    bench("report", "sample")
    text = (tmp_path / "results" / "sample" / "report.md").read_text(encoding="utf-8")
    section = text.partition("## Runs of other programs")[2].partition("\n## ")[0]
    golden.check("foreign.md", section)


def test_in_the_html_their_numbers_are_linked_to_their_runs(bench, tmp_path):
    files = write(tmp_path, a=logs.pytorch(seed=1), b=logs.pytorch(seed=2), c=logs.tensorflow())
    bench("ingest", *files, "--suite", "sample")
    bench("report", "sample")

    page = tmp_path / "results" / "sample" / "report.html"
    outline = Outline(page.read_text(encoding="utf-8"))

    theirs = {link for link in outline.links if link.startswith("#runs-0-foreign-")}
    assert theirs == {"#runs-0-foreign-1-8-AMP", "#runs-0-foreign-2-1-full"}
    assert {link[1:] for link in theirs} <= set(outline.ids)
    records = [link for link in outline.links if link.startswith("foreign/")]
    assert len(records) == 3
    assert all((page.parent / link).is_file() for link in records)


def test_ingesting_again_changes_nothing(bench, tmp_path):
    (file,) = write(tmp_path, a=logs.pytorch())
    bench("ingest", file, "--suite", "sample")

    code, out, _ = bench("ingest", file, "--suite", "sample")

    assert code == 0
    assert "there already" in out
    assert "0 new runs" in out
    assert len(list((tmp_path / "results/sample/foreign").iterdir())) == 1


def test_nothing_is_divided_unless_machine_data_and_batch_agree(bench, tmp_path):
    (file,) = write(tmp_path, a=logs.pytorch())
    bench("ingest", file, "--suite", "sample")

    (table,) = table_of(bench)

    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert row["Ours / theirs"]["text"] == "n/a (not comparable)"
    assert row["Ours - theirs"]["text"] == "n/a (their candidates are not known)"
    assert row["Samples/s theirs"]["value"] == 1e8
    bench("report", "sample")
    text = (tmp_path / "results" / "sample" / "report.md").read_text(encoding="utf-8")
    assert "nobody stated that they ran on our machine" in text
    assert "their data are not stated" in text


def test_another_model_is_another_group_and_not_divided(bench, tmp_path):
    small = logs.pytorch(seed=2).replace('"factors": 64', '"factors": 8')
    files = write(tmp_path, a=logs.pytorch(), b=small)
    bench("ingest", *files, "--suite", "sample", "--data", "ml-20m", "--same-machine")

    first, second = (table["rows"][0][-1]["text"] for table in table_of(bench))

    assert sorted([first[:3], second[:3]]) == ["1.0", "n/a"]


def test_two_protocols_are_never_compared(bench, tmp_path):
    (file,) = write(tmp_path, a=logs.pytorch())
    bench(
        "ingest", file, "--suite", "sample", "--candidates", "999", "--data", "ml-20m",
        "--same-machine",
    )  # fmt: skip

    (table,) = table_of(bench)

    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert row["Ours - theirs"]["text"] == "n/a (another metric)"
    assert row["Ours / theirs"]["value"] == pytest.approx(1.03, abs=0.05)


def test_runs_of_different_programs_get_tables_of_their_own(bench, tmp_path):
    files = write(tmp_path, a=logs.pytorch(), b=logs.tensorflow(), c=logs.mlperf())
    bench("ingest", *files, "--suite", "sample")

    tables = table_of(bench)

    assert [table["title"].partition(",")[0] for table in tables] == [
        "MLPerf logs",
        "NVIDIA's NCF for PyTorch",
        "NVIDIA's NCF for TensorFlow",
    ]
    assert tables[0]["rows"][0][0]["text"] == "n/a (not in the log)"
    assert tables[2]["rows"][0][1]["text"] == "full (FP32 or TF32: not stated)"


def test_foreign_runs_alone_make_a_report_too(bench, tmp_path):
    shutil.rmtree(tmp_path / "results" / "sample" / "records")
    (file,) = write(tmp_path, a=logs.pytorch())
    bench("ingest", file, "--suite", "sample")

    assert bench("report", "sample")[0] == 0

    text = (tmp_path / "results" / "sample" / "report.md").read_text(encoding="utf-8")
    assert "There is no good run yet." in text
    assert "**No ratio is given**: there is no good run of ours" in text
    assert "n/a (n=0/3, 3 not run)" in text


def test_a_broken_foreign_record_is_listed(bench, tmp_path):
    folder = tmp_path / "results" / "sample" / "foreign"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text("{")

    bench("report", "sample")

    text = (tmp_path / "results" / "sample" / "report.md").read_text(encoding="utf-8")
    assert "- `foreign/x.json`: not JSON" in text


def test_mistakes_are_one_line(bench, tmp_path):
    write(tmp_path, a="nothing\n")

    for words, message in (
        (("ingest", "none.json", "--suite", "sample"), "none.json: No such file or directory"),
        (("ingest", "a.json", "--suite", "sample"), "a.json: no line of a log"),
        (("ingest", "a.json"), "the following arguments are required: --suite"),
        (
            ("ingest", "a.json", "--suite", "sample", "--candidates", "0"),
            "integer of at least 1; got '0'",
        ),
        (("export", "sample", "--form", "xml", "--output", "o"), "invalid choice: 'xml'"),
        (("export", "sample", "--form", "mllog", "--output", "a.json"), "a.json"),
    ):
        code, _, err = bench(*words)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1


def test_every_good_run_is_exported_to_a_file_of_its_own(bench, tmp_path):
    store = Store(tmp_path / "results" / "sample")
    (one, *_) = load(store.folder).attempts
    store.write(make_attempt(one.cell, 3, status="oom", number=2))

    code, out, _ = bench("export", "sample", "--form", "dllogger", "--output", "logs")

    assert (code, out) == (0, "12 runs written to logs\n")
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert len(names) == 12
    assert names[0].endswith("-seed1-a1.dllogger.log")
    again = [f"logs/{name}" for name in names]
    assert "12 new runs" in bench("ingest", *again, "--suite", "sample")[1]
