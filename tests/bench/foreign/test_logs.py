"""Logs of other programs: read figure by figure, kept as records, and written in their forms."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import foreign_logs as logs
import pytest
from sample_records import make_run

from bench.analysis.metrics import best_hr as our_best_hr
from bench.analysis.metrics import time_to_best as our_time_to_best
from bench.errors import UserError
from bench.foreign import logs as export
from bench.foreign.logs import read
from bench.foreign.run import best_hr, read_run, throughput, time_to_best
from bench.stats.summary import Missing
from ncf.record import RecordError


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
    data = run.to_dict()

    def read_back(**changes):
        return read_run(json.dumps({**data, **changes}).encode())

    assert read_back() == run
    assert read_back(later=1).seed is None
    for change in ({"kind": "attempt"}, {"schema_version": 9}, {"schema_version": None}):
        with pytest.raises(RecordError, match=next(iter(change))):
            read_back(**change)
    with pytest.raises(RecordError, match=r"Expected `int \| null`, got `str` - at `\$.seed`"):
        read_back(seed="1")


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
