"""`ncf infer`: what is timed, what is recorded, what is refused."""

from __future__ import annotations

import json

import pytest
from table_cells import markdown_rows
from toy import import_tensorflow

from ncf import record
from ncf.__main__ import main
from ncf.runtime.code_hash import INFER, code_hash

tf = import_tensorflow()

pytestmark = pytest.mark.tf
SMALL = ["--n_users", "50", "--n_items", "30", "--factors", "8", "--layers", "32", "16", "8"]
QUICK = ["--num_batches", "6", "--warmup_batches", "2", "--seed", "3"]


def infer(tmp_path, *words: str) -> tuple[int, record.RunRecord]:
    path = tmp_path / "run.json"
    code = main(["infer", *QUICK, "--record", str(path), *words])
    return code, record.read_run(path)


@pytest.mark.parametrize("formulation", ["reference", "fast"])
@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_every_batch_size_is_recorded_with_its_calls(
    formulation, precision, tmp_path, capsys
) -> None:
    words = ["--formulation", formulation, "--precision", precision, "--work", "both"]
    code, result = infer(
        tmp_path, *SMALL, *words, "--batch_sizes", "1", "7", "--ranking_users", "2", "--topk", "5"
    )
    assert (code, result.status, result.epochs) == (0, "ok", ())
    found = [(x.work, x.batch_size, x.scores_per_batch, len(x.seconds)) for x in result.inference]
    assert found == [("pairs", 1, 1, 4), ("pairs", 7, 7, 4), ("ranking", 2, 60, 4)]
    assert all(x.warmup_batches == 2 and min(x.seconds) > 0 for x in result.inference)
    assert result.precision.effective == precision
    assert result.config["formulation"] == formulation
    assert result.versions["code"] == code_hash(INFER)
    assert (result.dataset.users, result.dataset.items) == (50, 30)
    rows = markdown_rows(capsys.readouterr().out)
    assert [row[:2] for row in rows if row[0] == "ranking"] == [["ranking", "2"]]


def test_a_checkpoint_brings_its_own_sizes_and_data_are_compared_with_it(
    trained,
    tmp_path,
    capsys,
) -> None:
    folder, data, _ = trained
    words = ["--load_checkpoint_path", str(folder / "ck"), "--batch_sizes", "4"]
    result = infer(tmp_path, *words, "--data", str(data.folder))[1]
    assert (result.config["n_users"], result.config["factors"]) == (60, 8)
    assert result.config["layers"] == [32, 16, 8]
    assert (result.dataset.name, result.dataset.hash) == ("toy", data.hash)
    assert result.dataset.candidates_hash == data.manifest["candidates"]["hash"]
    assert infer(tmp_path, *words)[1].dataset.users == 60
    capsys.readouterr()


def test_figures_come_as_json_on_request(tmp_path, capsys) -> None:
    infer(tmp_path, *SMALL, "--batch_sizes", "3", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["batch_size"], row["n"], row["p99_seconds"]) == (3, 4, None)


def test_the_log_has_parameters_and_every_size(tmp_path, capsys) -> None:
    log = tmp_path / "log.json"
    infer(tmp_path, *SMALL, "--batch_sizes", "3", "5", "--log_path", str(log))
    lines = [json.loads(line.removeprefix("DLLL ")) for line in log.read_text("utf-8").splitlines()]
    assert lines[0]["step"] == "PARAMETER"
    assert ["batch_3_mean_latency" in line["data"] for line in lines] == [False, True, False]


def test_scores_that_are_not_finite_are_no_measurement(tmp_path, monkeypatch, capsys) -> None:
    from ncf.model import neumf as model

    def broken(*sizes):
        made = model_create(*sizes)
        made.output_bias.assign([float("nan")])
        return made

    model_create = model.create
    monkeypatch.setattr(model, "create", broken)
    code, result = infer(tmp_path, *SMALL, "--batch_sizes", "3")
    assert (code, result.status, result.inference) == (3, "nan", ())
    assert "not finite" in (result.reason or "")


def test_another_effective_precision_is_not_measured(tmp_path, monkeypatch, capsys) -> None:
    lied = record.Precision("fp32", "tf32 or float16", "float32")
    monkeypatch.setattr("ncf.model.precision.probe", lambda *_: lied)
    code, result = infer(tmp_path, *SMALL, "--batch_sizes", "3")
    assert (code, result.status, result.inference) == (4, "invalid", ())


def test_an_interrupt_leaves_a_record_of_what_was_measured(tmp_path, monkeypatch, capsys) -> None:
    from ncf.cli import infer as module

    def stopped(found) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_progress", stopped)
    code, result = infer(tmp_path, *SMALL, "--batch_sizes", "3", "5")
    assert (code, result.status, len(result.inference or ())) == (130, "interrupted", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--warmup_batches", "6"], "--warmup_batches 6: of 6 calls nothing is left to time"),
        (["--batch_sizes", "0"], "--batch_sizes 0: must be at least 1"),
        (["--batch_sizes", "4", "4"], "--batch_sizes 4 4: lists a size twice"),
        (["--work", "ranking", "--topk", "31"], "--topk 31: there are only 30 items to rank"),
        (["--amp_dtype", "bfloat16"], "--amp_dtype bfloat16 needs --precision amp"),
        (["--seconds", "0"], "--seconds 0.0: must be a number above 0"),
        (["--load_checkpoint_path", "absent.npz"], "absent.npz: no such file"),
        (["--data", "absent"], "absent: no such folder"),
        (["--batchsizes", "4"], "unknown option --batchsizes; did you mean --batch_sizes?"),
        (["--precision", "tf32"], "--precision tf32 needs an NVIDIA GPU"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, said, capsys) -> None:
    assert main(["infer", *SMALL, *QUICK, *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
