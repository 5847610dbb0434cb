"""Recommendations in the ids of the source, from the command line."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from served_model import ids_of, scores_of
from toy import import_tensorflow

from ncf.__main__ import main
from ncf.cli import recommend
from ncf.cli.recommend import Recommendation, read_titles, user_numbers
from ncf.errors import UserError
from ncf.readers.ids import Ids
from ncf.training import checkpoint

tf = import_tensorflow()

pytestmark = pytest.mark.tf


def run(capsys, *words: str) -> str:
    assert main(["recommend", *words]) == 0
    return capsys.readouterr().out


def test_the_best_items_come_in_the_ids_of_the_source(trained, capsys) -> None:
    folder, data, made = trained
    out = run(
        capsys, "--checkpoint", str(folder / "ck"), "--user", "7", "-k", "5", "--format", "json"
    )
    found = json.loads(out)
    scores = scores_of(made, 6, data.n_items)
    assert [one["item"] for one in found] == ids_of(data, np.argsort(-scores, kind="stable")[:5])
    assert [one["rank"] for one in found] == [1, 2, 3, 4, 5]
    assert [one["score"] for one in found] == pytest.approx(sorted(scores)[::-1][:5], abs=1e-5)


def test_seen_items_are_excluded_on_request_and_lists_may_be_short(trained, capsys) -> None:
    folder, data, _ = trained
    words = ["--checkpoint", str(folder / "ck"), "--user", "7", "-k", "40", "--format", "json"]
    everything = {one["item"] for one in json.loads(run(capsys, *words))}
    unseen = json.loads(run(capsys, *words, "--exclude_seen"))
    row = data.train_items[data.train_offsets[6] : data.train_offsets[7]]
    assert len(everything) == 40
    assert everything - {one["item"] for one in unseen} == set(ids_of(data, row))


def test_a_file_of_users_gives_each_a_list_in_its_order(trained, tmp_path, capsys) -> None:
    folder, _, _ = trained
    (tmp_path / "users.txt").write_text("12\n\n3\n", encoding="utf-8")
    words = ["--checkpoint", str(folder / "ck"), "--users", str(tmp_path / "users.txt"), "-k", "2"]
    rows = list(csv.DictReader(io.StringIO(run(capsys, *words, "--format", "csv"))))
    assert [(row["user"], row["rank"]) for row in rows] == [
        ("12", "1"), ("12", "2"), ("3", "1"), ("3", "2"),
    ]  # fmt: skip


def test_titles_stand_beside_the_ids(trained, tmp_path, capsys) -> None:
    folder, data, _ = trained
    lines = [f"{i + 1}|Film ä {i + 1} (19|95)|x" for i in range(data.n_items)]
    (tmp_path / "u.item").write_bytes("\n".join(lines).encode("latin-1"))
    words = ["--checkpoint", str(folder / "ck"), "--user", "7", "-k", "1"]
    words += ["--titles", str(tmp_path / "u.item"), "--titles_encoding", "latin-1"]
    assert "Film ä" in run(capsys, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "07"], "--user 07: no such user among the 60 of the data; did you mean 7?"),
        (["--user", "zebra"], "--user zebra: no such user among the 60 of the data"),
        (["--user", "7", "-k", "41"], "--topk 41: the catalogue has 40 items"),
        (["--user", "7", "-k", "0"], "--topk 0: must be at least 1"),
        (["--users", "absent.txt"], "--users absent.txt: No such file or directory"),
        (["--user", "7", "--titles", "absent.csv"], "--titles absent.csv: No such file"),
        ([], "one of the arguments --user --users is required"),
        (["--user", "7", "--data", "absent"], "absent: no such folder"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, said, trained, capsys) -> None:
    assert main(["recommend", "--checkpoint", str(trained[0] / "ck"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_unknown_users_of_a_file_are_counted_and_named() -> None:
    with pytest.raises(UserError, match=r"--users f: 2 of 3 users are unknown: 9, x"):
        user_numbers(Ids.numbered(5), ["9", "3", "x"], "--users f")


def test_a_model_that_has_diverged_recommends_nothing(trained, tmp_path, capsys) -> None:
    folder, data, made = trained
    values = [np.full(v.shape, np.nan, np.float32) for v in made.flat()]
    meta = {
        **checkpoint.identity_of(data).to_dict(),
        "config": {"factors": 8, "layers": [32, 16, 8]},
    }
    checkpoint.save(tmp_path / "last.npz", made.names(), values, meta)
    words = ["--checkpoint", str(tmp_path), "--data", str(folder / "toy"), "--user", "7"]
    assert main(["recommend", *words]) == 2
    assert "this model has diverged" in capsys.readouterr().err


def test_ids_are_found_byte_by_byte_and_near_ones_are_told() -> None:
    names = ["1", "01", "u-ab", "4000000000", "\u00e9"]
    text = [name.encode() for name in names]
    ids = Ids(
        np.frombuffer(b"".join(text), np.uint8), np.cumsum([0, *map(len, text)]).astype(np.int64)
    )
    assert [ids.find(name) for name in names] == [0, 1, 2, 3, 4]
    assert ids.find("") is None
    assert ids.find("0001") is None
    assert ids.near("001") == ["1", "01"]
    assert ids.near("u_ab") == ["u-ab"]
    assert ids.near("zzzzzz") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("movies.csv", 'movieId,title,genres\n1,"Toy Story, the (1995)",Fun\n'),
        ("movies.dat", "1::Toy Story, the (1995)::Fun\n"),
        ("u.item", "1|Toy Story, the (1995)|01-Jan-1995|\n"),
        ("films.tsv", "\ufeff1\tToy Story, the (1995)\n"),
    ],
)
def test_titles_are_read_from_the_forms_that_ratings_come_with(name, text, tmp_path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_titles(tmp_path / name, "utf-8")["1"] == "Toy Story, the (1995)"


def test_another_encoding_is_named_with_its_line(tmp_path) -> None:
    (tmp_path / "u.item").write_bytes(b"1|a|\n2|caf\xe9|\n")
    with pytest.raises(UserError, match=r"u\.item:2: not utf-8; give --titles_encoding latin-1"):
        read_titles(tmp_path / "u.item", "utf-8")
    assert read_titles(tmp_path / "u.item", "latin-1")["2"] == "caf\u00e9"


def test_a_listing_escapes_what_would_break_it() -> None:
    one = [Recommendation("u|1", 1, "i", 'A "b", c|d', 0.5)]
    assert "u\\|1" in recommend.format_list(one, "markdown", titles=True)
    text = recommend.format_list(one, "csv", titles=True)
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["title"], row["score"]) == ('A "b", c|d', "0.5000")
    assert "title" not in recommend.format_list(one, "csv", titles=False)
