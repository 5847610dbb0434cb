"""`ncf evaluate`: a checkpoint under several protocols, each row with its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_training import run
from table_cells import markdown_rows
from toy import import_tensorflow

from ncf import record
from ncf.__main__ import main

import_tensorflow()

pytestmark = pytest.mark.tf


def evaluate(capsys, folder: Path, *words: str) -> str:
    assert main(["evaluate", "--checkpoint", str(folder / "ck"), *words]) == 0
    return capsys.readouterr().out


def test_sampled_and_full_ranking_stand_in_rows_of_their_own(trained, tmp_path, capsys) -> None:
    path = tmp_path / "run.json"
    out = evaluate(capsys, trained[0], "--protocol", "stored", "full", "--record", str(path))
    assert [row[0] for row in markdown_rows(out)] == ["Protocol", "nvidia", "full"]
    assert "never compare two rows" in out
    result = record.read_run(path)
    sampled, full = result.evaluations or ()
    assert (sampled.protocol, full.protocol) == ("nvidia", "full")
    assert full.scores == 60 * 40
    assert full.recall_at_k == full.hr_at_k
    assert sampled.candidates_hash != full.candidates_hash
    # what pools and compares runs sees the first protocol alone
    assert (result.dataset.protocol, result.epochs[0].hr_at_k) == ("nvidia", sampled.hr_at_k)


def test_evaluate_finds_what_training_found(trained, tmp_path, capsys) -> None:
    data = str(trained[1].folder)
    words = [
        "--epochs",
        "2",
        "--checkpoint_dir",
        str(tmp_path / "ck"),
        "--formulation",
        "reference",
    ]
    whole = run(data, tmp_path, *words)[1]
    found = json.loads(evaluate(capsys, tmp_path, "-k", "5", "--json"))
    best = max(epoch.hr_at_k or 0 for epoch in whole.epochs)
    assert [row["hr_at_k"] for row in found] == [best]
    assert found[0]["popularity_hr_at_k"] == whole.dataset.popularity_hr_at_k


def test_more_candidates_make_it_harder(trained, capsys) -> None:
    few, many = (
        json.loads(evaluate(capsys, trained[0], "--valid_negative", n, "--json"))[0]
        for n in ("10", "200")
    )
    assert few["hr_at_k"] > many["hr_at_k"]
    assert (few["candidates_per_user"], many["candidates_per_user"]) == (10, 200)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--protocol", "full", "full"], "--protocol full full: one is listed twice"),
        (["--protocol", "full", "--valid_negative", "9"], "means nothing with --protocol full"),
        (["--topk", "0"], "--topk 0: must be at least 1"),
        (["--protocol", "ful"], "invalid choice: 'ful'"),
        (["--precision", "tf32"], "--precision tf32 needs an NVIDIA GPU"),
        (["--protocol", "unique", "--valid_negative", "99"], "fewer than 99 items left to sample"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, said, trained, capsys) -> None:
    assert main(["evaluate", "--checkpoint", str(trained[0] / "ck"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
