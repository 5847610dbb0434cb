"""Training on candidates that came with the data, on padded ones, and what is told of negatives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from toy import import_tensorflow

from ncf import record
from ncf.__main__ import main
from ncf.config.train import config_from_arguments
from ncf.data import candidates, dataset
from ncf.errors import UserError

tf = import_tensorflow()
from ncf.training import train

pytestmark = pytest.mark.tf
SMALL = ["--batch_size", "512", "--factors", "4", "--layers", "8", "4", "--epochs", "1"]
SMALL += ["--formulation", "reference"]  # it traces in half the time


def paper_files(folder: Path, users: int = 20, items: int = 40, per_user: int = 12) -> Path:
    """The NCF paper's three files, every user with 11 given negatives, and 20 items untouched."""
    rng = np.random.default_rng(3)
    texts: dict[str, list[str]] = {"train.rating": [], "test.rating": [], "test.negative": []}
    for user in range(users):
        own, other = np.split(rng.permutation(items), [per_user])
        texts["train.rating"] += [f"{user}\t{item}\t5\t{n}" for n, item in enumerate(own[1:])]
        texts["test.rating"].append(f"{user}\t{own[0]}\t5\t99")
        words = [f"({user},{own[0]})", *map(str, other[:11])]
        texts["test.negative"].append("\t".join(words))
    for ending, lines in texts.items():
        (folder / f"toy.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "toy.train.rating"


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    source = paper_files(folder)
    assert main(["prepare", str(source), "--output", str(folder / "d")]) == 0
    return folder / "d"


def run(data: Path, record_to: Path, *words: str) -> record.RunRecord:
    fixed = ["--data", str(data), "--record", str(record_to), "--seed", "1", *SMALL]
    assert train.run(config_from_arguments([*fixed, *words])) == 0
    return record.read_run(record_to)


def test_given_candidates_are_evaluated_as_stored_with_own_protocol(
    given: Path, tmp_path: Path
) -> None:
    result = run(given, tmp_path / "r.json")
    stored = dataset.load(given)
    assert (result.dataset.protocol, result.dataset.candidates_per_user) == ("given-11", 11)
    assert result.dataset.candidates_hash == dataset.digest(stored.candidates)
    assert result.config["protocol"] == "given-11"
    assert result.dataset.chance_hr_at_k == pytest.approx(10 / 12)


@pytest.mark.parametrize(
    "words", [["--valid_negative", "100"], ["--protocol", "nvidia"], ["--protocol", "mlperf"]]
)
def test_given_candidates_cannot_be_drawn_again(
    given: Path, tmp_path: Path, words: list[str]
) -> None:
    with pytest.raises(UserError, match=f"{' '.join(words)}: the candidates of .* came with"):
        run(given, tmp_path / "r.json", *words)


def test_asking_for_what_is_stored_is_no_change(given: Path, tmp_path: Path) -> None:
    assert run(given, tmp_path / "r.json", "--valid_negative", "11").dataset.protocol == "given-11"


def test_too_few_items_for_other_candidates_is_one_line(tmp_path: Path) -> None:
    source = paper_files(tmp_path)
    folder = tmp_path / "d"
    assert main(["prepare", str(source), "--output", str(folder), "--protocol", "nvidia"]) == 0
    words = ["--protocol", "unique", "--valid_negative", "99"]
    with pytest.raises(UserError) as caught:
        run(folder, tmp_path / "r.json", *words)
    assert str(caught.value).startswith(
        "--protocol unique --valid_negative 99: 20 of 20 test users"
    )
    assert "28 is the most that works for all" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_padded_slots_count_neither_when_stored_nor_when_drawn_again(tmp_path: Path) -> None:
    source = paper_files(tmp_path)
    folder = tmp_path / "d"
    words = ["--protocol", "unique", "--valid_negative", "50", "--pad_candidates"]
    assert main(["prepare", str(source), "--output", str(folder), *words]) == 0
    data = dataset.load(folder)
    assert data.manifest["candidates"]["padded_users"] == 20
    assert data.manifest["candidates"]["effective_mean"] == 28.0
    assert candidates.duplicate_mask(data.candidates, data.test_items).sum(axis=1).tolist() == (
        [28] * 20
    )
    stored = run(folder, tmp_path / "a.json")
    again = run(folder, tmp_path / "b.json", "--valid_negative", "70")
    for result in (stored, again):
        assert result.dataset.effective_candidates_mean == 28.0
        assert result.dataset.chance_hr_at_k == pytest.approx(10 / 29)
    assert again.dataset.candidates_per_user == 70


def test_the_record_and_the_first_line_tell_the_share_of_false_negatives(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cheap = run(given, tmp_path / "a.json", "--epochs", "2")
    first, second = (line for line in capsys.readouterr().err.splitlines() if "epoch" in line)
    exact = run(given, tmp_path / "b.json", "--no_neg_trick")
    assert "false negatives 0.00%" in capsys.readouterr().err
    assert (exact.false_negatives, exact.negatives_checked) == (0, 880)
    assert cheap.negatives_checked == 880  # 20 users x 11 positives x 4
    assert cheap.false_negatives is not None
    share = cheap.false_negatives / 880
    assert abs(share - 11 / 40) < 0.06
    assert f"false negatives {share:.2%}" in first
    assert "false negatives" not in second


def test_records_of_older_programs_have_no_share_and_are_read(given: Path, tmp_path: Path) -> None:
    run(given, tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    del data["false_negatives"], data["negatives_checked"]
    old = record.RunRecord.from_dict(data)
    assert old.false_negatives is None
    assert old.negatives_checked is None
