from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import foreign_logs as logs
import golden
import pytest
from sample_records import ML_20M, grid, make_attempt, make_run, make_suite
from test_bench_html import Outline

from bench import export, foreign_commands, plots
from bench.__main__ import main
from bench.errors import UserError
from bench.foreign import ForeignError, ForeignRun, best_hr, throughput, time_to_best
from bench.foreign_logs import read
from bench.measures import best_hr as our_best_hr
from bench.measures import time_to_best as our_time_to_best
from bench.stats import Missing
from bench.store import Store, load


def test_a_pytorch_log_is_read_figure_by_figure():
    (run,) = read(logs.pytorch(), "runs/a.json")

    assert (run.program, run.finished, run.file) == ("nvidia-pytorch", True, "a.json")
    assert (run.seed, run.world_size, run.amp, run.global_batch, run.topk) == (
        1,
        8,
        True,
        2**20,
        10,
    )
    assert run.precision == "amp"
    assert [epoch.epoch for epoch in run.epochs] == [1, 2, 3]
    assert best_hr(run) == 0.95
    assert throughput(run) == 1e8
    assert time_to_best(run) == 42.0
    assert run.closing["best_epoch"] == 2, "counted from 1, as everything else here"
    assert run.epochs[0].loss == 0.12
    assert run.started_at == "2020-09-13T12:26:40Z"


def test_a_tensorflow_log_is_read_figure_by_figure():
    (run,) = read(logs.tensorflow(), "b.json")

    assert (run.program, run.finished, run.amp) == ("nvidia-tensorflow", True, False)
    assert (run.candidates, run.target_hr) == (100, 0.9562)
    assert [epoch.epoch for epoch in run.epochs] == [10, 11]
    assert best_hr(run) == 0.958
    assert run.epochs[0].ndcg == 0.7
    assert throughput(run) == 1.5e7
    assert time_to_best(run) == Missing("the log leaves out epochs")


def test_an_mlperf_log_is_read_figure_by_figure():
    (run,) = read(logs.mlperf(), "c.out")

    assert (run.program, run.finished, run.seed, run.global_batch) == ("mlperf", True, 7, 2**20)
    assert [epoch.hr for epoch in run.epochs] == [0.6, 0.636]
    assert [epoch.train_seconds for epoch in run.epochs] == [5.0, 5.0]
    assert time_to_best(run) == 12.0
    assert throughput(run) == Missing("not in the log")


def test_what_a_log_does_not_say_is_none_and_nothing_is_guessed():
    (run,) = read(logs.pytorch(amp=False), "a.json")
    (other,) = read(logs.mlperf(), "c.out")

    assert run.precision is None, "FP32 or TF32: the log cannot tell"
    assert run.candidates is None
    assert (other.world_size, other.amp, other.precision, other.candidates) == (None,) * 4
    assert run.to_dict()["candidates"] is None


def test_repeated_runs_in_one_file_are_several():
    text = logs.pytorch(seed=1) + logs.pytorch(seed=2) + logs.pytorch(seed=3)

    runs = read(text, "a.json")

    assert [run.seed for run in runs] == [1, 2, 3]
    assert len({run.digest for run in runs}) == 3
    assert [run.world_size for run in read(logs.mlperf() * 2, "c.out")] == [None, None]


def test_our_own_logs_are_recognised_and_counted_from_one():
    options = {"precision": "amp", "amp_dtype": "auto", "batch_size": 8192, "seed": 3, "topk": 10}
    text = "\n".join(
        [
            logs.dll([], options, kind="PARAMETER"),
            logs.dll(1, {"epoch": 1, "train_epoch_time": 2.0, "hr@10": 0.5, "loss": 0.3}),
            logs.dll([], {"best_accuracy": 0.5, "best_epoch": 1}),
        ]
    )

    (run,) = read(text, "ours.log")

    assert (run.program, run.amp, run.precision) == ("ncf-bench", True, "amp")
    assert [epoch.epoch for epoch in run.epochs] == [1]
    assert run.closing["best_epoch"] == 1


def test_our_own_logs_say_which_full_precision_was_used():
    options = {"precision": "tf32", "amp_dtype": "auto", "world_size": 4}

    (run,) = read(logs.dll("PARAMETER", options), "ours.log")

    assert (run.amp, run.precision, run.world_size) == (False, "tf32", 4)


def test_a_log_that_was_cut_is_kept_but_not_finished():
    whole = logs.pytorch(closing=False)

    (run,) = read(whole + whole.splitlines()[-1][:40], "cut.json")

    assert not run.finished
    assert len(run.epochs) == 3


def test_not_a_number_becomes_none():
    (run,) = read(logs.pytorch(rates=(0.9, math.nan)), "nan.json")

    assert [epoch.hr for epoch in run.epochs] == [0.9, None]
    json.dumps(run.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "x.log: no line of a log"),
        ("", "x.log: no line of a log"),
        ("DLLL {broken\nDLLL {}\n", "x.log:1: not JSON after DLLL"),
        (logs.mlperf("bert"), "x.log: a log of 'bert', not of NCF"),
    ],
)
def test_what_is_no_log_of_ncf_is_one_line(text, message):
    with pytest.raises(UserError) as caught:
        read(text, "x.log")

    assert str(caught.value).startswith(message)


def test_records_of_foreign_runs_are_read_back():
    (run,) = read(logs.tensorflow(), "b.json")
    data = json.loads(json.dumps(run.to_dict()))

    assert ForeignRun.from_dict(data).to_dict() == run.to_dict()
    assert ForeignRun.from_dict({**data, "later": 1}).seed is None
    for broken in ({**data, "kind": "attempt"}, {**data, "schema_version": 9}, {"kind": "foreign"}):
        with pytest.raises(ForeignError):
            ForeignRun.from_dict(broken)


def ours(**changes):
    run = make_run(rate=1e6, hit_rates=(0.5, None, 0.7, 0.6), ranks=2, precision="amp", **changes)
    epochs = tuple(
        epoch if epoch.hr_at_k is not None else replace(epoch, eval_seconds=None)
        for epoch in run.epochs
    )
    config = {**run.config, "amp_dtype": "auto", "precision": "amp"}
    return replace(run, config=config, epochs=epochs)


@pytest.mark.parametrize("form", export.FORMS)
def test_what_is_exported_is_read_back(form):
    run = ours(target=0.65)

    (back,) = read("\n".join(export.lines(run, form)), "out.log")

    assert back.finished
    assert (back.seed, back.world_size, back.amp, back.global_batch) == (1, 2, True, 16384)
    assert back.candidates == 100
    assert [epoch.epoch for epoch in back.epochs] == [1, 2, 3, 4]
    assert [epoch.hr for epoch in back.epochs] == [0.5, None, 0.7, 0.6]
    assert best_hr(back) == our_best_hr(run)
    assert time_to_best(back) == pytest.approx(our_time_to_best(run), abs=1e-2)
    expected = [epoch.samples / epoch.train_seconds for epoch in run.epochs]
    assert [epoch.samples_per_second for epoch in back.epochs] == pytest.approx(expected)
    seconds = [epoch.train_seconds for epoch in back.epochs]
    assert seconds == pytest.approx([epoch.train_seconds for epoch in run.epochs], abs=2e-3)


def test_exported_dllogger_has_what_nvidias_scripts_take_from_it():
    # qa/generate_tables.py: the last line's data, and the line whose step is "PARAMETER".
    lines = [json.loads(line.removeprefix("DLLL ")) for line in export.lines(ours(), "dllogger")]

    assert {"best_accuracy", "best_train_throughput", "time_to_target"} <= set(lines[-1]["data"])
    parameters = [line for line in lines if line["step"] == "PARAMETER"]
    assert [line["data"]["batch_size"] for line in parameters] == [16384]
    assert [line["data"]["hr@10"] for line in lines if "hr@10" in line["data"]] == [0.5, 0.7, 0.6]


def test_exported_mllog_says_whether_the_target_was_reached():
    status = {}
    for target in (0.65, 0.75, 1.0):
        last = json.loads(export.lines(ours(target=target), "mllog")[-1].removeprefix(":::MLLOG "))
        assert last["key"] == "run_stop"
        status[target] = last["metadata"]["status"]

    assert status == {0.65: "success", 0.75: "aborted", 1.0: "success"}


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """`bench` in a folder with records of ours: 20 M samples/s on ml-20m, 1 and 8 ranks."""
    suite = make_suite(
        title="DGX",
        train={"epochs": 5, "batch_size": 1048576},
        axes={"ranks": (1, 8), "precision": ("tf32", "amp")},
    )
    monkeypatch.chdir(tmp_path)
    from bench import report_commands

    monkeypatch.setattr(plots, "draw", lambda *_: {})  # pictures have tests of their own
    for module in (report_commands, foreign_commands):
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
        (("ingest", "a.json", "--suite", "sample", "--candidates", "0"), "must be at least 1"),
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
