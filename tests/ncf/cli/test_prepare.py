from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ncf.__main__ import main
from ncf.cli import prepare
from ncf.data import candidates, dataset, synthetic
from ncf.readers import inputs, sniff
from ncf.readers.ids import Ids


def write_table(path: Path, users: int = 30, items: int = 60, per_user: int = 25) -> Path:
    rng = np.random.default_rng(5)
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(users):
        lines += [
            f"{user + 1},{item * 7},{rng.integers(1, 6)},{rng.integers(0, 40)}"
            for item in rng.permutation(items)[:per_user]
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def failure(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of a command that fails with exit code 2."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    *progress, last = captured.err.splitlines()
    assert last.startswith("ncf: error: ")
    assert not any("rror" in line for line in progress)
    return last


def test_a_table_becomes_a_folder_that_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "my.ratings.csv")
    assert main(["prepare", str(table), "--output", str(tmp_path / "d")]) == 0
    data = dataset.verify(tmp_path / "d")
    assert (data.n_users, data.n_test, data.n_train) == (30, 30, 30 * 24)
    assert data.candidates.shape == (30, 100)
    assert data.name == "my.ratings"
    assert data.user_id(29) == "30"
    assert data.item_id(0) == "0"
    out = capsys.readouterr().out
    for text in (
        "rows read       750",
        "chance 0.",
        "popularity 0.",
        "with a tie",
        data.hash,
        "MB",
    ):
        assert text in out


def test_the_manifest_tells_where_the_data_came_from_and_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "r.csv")
    with table.open("a", encoding="utf-8") as file:
        file.write("1,0,5,99\n1,0,5,99\nshort,1,1,1\n")
    arguments = ["prepare", str(table), "--output", str(tmp_path / "d"), "--json"]
    assert main([*arguments, "--protocol", "unique", "--valid-negative", "7", "--seed", "4"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "d" / "manifest.json").read_text(encoding="utf-8"))
    assert told["source"] == {
        "file": "r.csv",
        "member": None,
        "sha256": told["source"]["sha256"],
        "format": "comma-separated, with header",
        "columns": {"user": "userId", "item": "movieId", "timestamp": "timestamp"},
        "known_as": None,
        "known_by": None,
    }
    assert len(told["source"]["sha256"]) == 64
    assert told["split"]["rule"] == "leave-one-out, latest"
    assert told["split"]["tie_rule"] == "file order, stable"
    assert 0 < told["split"]["tied_last_timestamp_share"] < 1
    summary = told["summary"]
    assert summary["rows_read"] == 753
    assert summary["dropped_repeats"] in (1, 2)
    assert (summary["dropped_short_users"], summary["dropped_short_rows"]) == (1, 1)
    assert summary["peak_memory_bytes"] > 1e6
    assert set(summary["seconds"]) == {"read", "split", "candidates"}
    assert told["candidates"]["protocol"] == "unique"
    assert told["candidates"]["per_user"] == 7
    assert told["candidates"]["seed"] == 4
    assert told["candidates"]["effective_mean"] == 7.0
    assert told["hr_at_10"]["chance"] == 1.0


def test_rows_of_other_users_may_come_in_between(tmp_path: Path) -> None:
    header, *lines = write_table(tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    by_place = sorted(range(len(lines)), key=lambda n: (n % 25, n))
    mixed = "\n".join([header, *(lines[n] for n in by_place)])
    (tmp_path / "b.csv").write_text(mixed, encoding="utf-8")
    for name in "ab":
        assert (
            main(["prepare", str(tmp_path / f"{name}.csv"), "--output", str(tmp_path / name)]) == 0
        )
    first, second = dataset.load(tmp_path / "a"), dataset.load(tmp_path / "b")
    assert first.hash == second.hash
    for name in first.manifest["arrays"]:
        assert first.manifest["arrays"][name] == second.manifest["arrays"][name]


def test_without_timestamps_file_order_decides_and_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "user,item\n" + "".join(f"{user},{item}\n" for user in "ab" for item in (3, 1, 2))
    (tmp_path / "r").write_text(text, encoding="utf-8")
    command = ["prepare", str(tmp_path / "r"), "--output", str(tmp_path / "d")]
    assert "no user has 20" in failure(capsys, *command)
    assert "every item" in failure(capsys, *command, "--min_interactions", "2")
    (tmp_path / "r").write_text(text + "c,7\nc,8\n", encoding="utf-8")
    assert main([*command, "--min_interactions", "2"]) == 0
    assert "no timestamps the last in the file" in capsys.readouterr().out
    data = dataset.load(tmp_path / "d")
    assert [data.item_id(item) for item in data.test_items] == ["2", "2", "8"]
    assert data.manifest["split"]["tied_last_timestamp_share"] is None


def test_users_with_a_single_interaction_are_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "r.csv")
    with table.open("a", encoding="utf-8") as file:
        file.writelines(f"lonely{n},5,1,1\n" for n in range(7))
    command = ["prepare", str(table), "--output", str(tmp_path / "d"), "--min_interactions", "1"]
    assert main(command) == 0
    assert "7 users with a single interaction (such as lonely0, lonely1," in capsys.readouterr().out
    data = dataset.load(tmp_path / "d")
    assert data.n_users == data.n_test == 30
    assert data.manifest["summary"]["dropped_single_users"] == 7
    assert data.manifest["summary"]["dropped_single_users_named"][-1] == "lonely4"


def test_nobody_left_says_the_largest_minimum_that_keeps_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "r.csv")
    command = ["prepare", table, "--output", tmp_path / "d"]
    line = failure(capsys, *command, "--min_interactions", 26)
    assert "no user has 26 distinct items (the most is 25); use --min_interactions 25" in line
    table.write_text("user,item\na,1\na,1\nb,2\n", encoding="utf-8")
    assert "each user needs at least 2" in failure(capsys, *command)


def test_users_who_have_every_item_are_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 4 items: `all` has them all, `two` has two of them.
    rows = [("all", item) for item in range(4)] + [("two", 0), ("two", 1)]
    table = tmp_path / "r.csv"
    table.write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows), encoding="utf-8")
    command = ["prepare", table, "--output", tmp_path / "d", "--min_interactions", 2]
    line = failure(capsys, *command)
    assert "1 of 2 test users have every item, so nothing is left to sample (such as all)" in line
    assert "remove these users" in line
    assert not (tmp_path / "d").exists()


def test_too_few_items_for_unique_candidates_says_how_many_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "r.csv")
    command = ["prepare", str(table), "--output", str(tmp_path / "d"), "--protocol", "unique"]
    line = failure(capsys, *command)
    assert "30 of 30 test users" in line
    assert "35 is the most that works for all" in line
    assert "use --valid_negative 35, or pad the rest with --pad_candidates" in line
    assert main([*command, "--valid_negative", "35"]) == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--min_interactions", "0"], "--min_interactions 0: must be at least 1"),
        (["--valid_negative", "0"], "--valid_negative 0: must be at least 1"),
        (["--seed", "-1"], "--seed -1: must not be negative"),
        (["--protocol", "nvida"], "nvida"),
        (["--format", "xml"], "xml"),
        (["--sed", "1"], "--sed"),
    ],
)
def test_a_senseless_option_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    table = write_table(tmp_path / "r.csv")
    assert expected in failure(capsys, "prepare", table, "--output", tmp_path / "d", *words)
    assert not (tmp_path / "d").exists()


def test_an_existing_folder_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["synthesize", "--preset", "tiny", "--output", str(tmp_path / "d")]
    assert main(command) == 0
    assert "exists already; add --force" in failure(capsys, *command)
    missing = ["prepare", tmp_path / "absent.csv", "--output", tmp_path / "d"]
    assert "exists already" in failure(capsys, *missing)
    assert main([*command, "--force", "--seed", "2"]) == 0
    assert dataset.load(tmp_path / "d").manifest["source"]["seed"] == 2


def test_a_bad_table_leaves_no_folder_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.csv").write_text("user,item\n1,2\n1\n", encoding="utf-8")
    line = failure(capsys, "prepare", tmp_path / "r.csv", "--output", tmp_path / "d")
    assert "r.csv line 3: 1 columns, but line 1 has 2" in line
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]


def test_a_place_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    command = ["synthesize", "--preset", "tiny", "--output", tmp_path / "file" / "d"]
    assert "file/d: cannot be written (" in failure(capsys, *command)


def test_generated_data_go_the_same_way_as_real_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["synthesize", "--preset", "tiny", "--output", str(tmp_path / "d")]) == 0
    assert "oracle 0." in capsys.readouterr().out
    data = dataset.verify(tmp_path / "d")
    assert data.name == "synthetic-tiny"
    assert (data.n_users, data.n_items, data.n_train) == (200, 300, 5_800)
    assert data.user_id(199) == "200"
    levels = data.manifest["hr_at_10"]
    assert levels["chance"] < levels["popularity"] < levels["oracle"]


def test_the_same_rows_from_a_zip_and_from_a_file_are_the_same_data(tmp_path: Path) -> None:
    table = write_table(tmp_path / "ratings.csv")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(table, "ml/ratings.csv")
    for name in ("ratings.csv", "x.zip"):
        assert main(["prepare", str(tmp_path / name), "--output", str(tmp_path / f"{name}.d")]) == 0
    first, second = (dataset.load(tmp_path / f"{name}.d") for name in ("ratings.csv", "x.zip"))
    assert first.hash == second.hash
    assert second.manifest["source"]["member"] == "ml/ratings.csv"


def test_archives_are_recognised_by_digest_or_by_counts_and_last_timestamp() -> None:
    md5 = "0e33842e24a9c977be4e0107933c0723"
    assert inputs.recognise_archive(md5, 943, 1682, 100_000, None) == ("ml-100k", "md5")
    assert inputs.recognise_archive("", 943, 1682, 100_000, 893286638.0) == ("ml-100k", "counts")
    # Generated data with the published counts are not the real ones.
    assert inputs.recognise_archive("", 943, 1682, 100_000, 893286639) is None
    assert inputs.recognise_archive("", 943, 1682, 100_000, None) is None
    assert inputs.recognise_archive(md5, 943, 1682, 99_999, 893286638) is None


def test_the_options_offer_what_the_modules_can_do() -> None:
    assert tuple(candidates.PROTOCOLS) == prepare.PROTOCOLS
    assert tuple(synthetic.PRESETS) == prepare.PRESETS
    assert ("auto", *sniff.SEPARATORS) == prepare.FORMATS


def test_numbered_ids_are_the_numbers_from_one() -> None:
    ids = Ids.numbered(12)
    assert [ids.text_of(number) for number in range(12)] == [str(n) for n in range(1, 13)]
    some = ids.take(np.array([11, 0, 9]))
    assert [some.text_of(number) for number in range(len(some))] == ["12", "1", "10"]
    assert len(ids.take(np.array([], np.int64))) == 0
    with pytest.raises(IndexError, match="not between 0 and 11"):
        ids.text_of(12)


def test_help_waits_for_no_heavy_library() -> None:
    code = (
        "import sys, argparse; from ncf.cli import prepare\n"
        "prepare.prepare_arguments(argparse.ArgumentParser())\n"
        "sys.exit(bool({'numpy', 'pyarrow', 'tensorflow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
