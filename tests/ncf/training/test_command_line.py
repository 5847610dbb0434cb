"""The trainer's command line: help without TensorFlow, one line for each mistake."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from toy import toy_folder

from ncf.__main__ import main

BLOCKER = "import sys; sys.modules.update(dict.fromkeys({names!r}, None));"


def ncf_without(modules: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run `ncf WORDS` in a process in which `modules` cannot be imported."""
    code = BLOCKER.format(names=modules) + "from ncf.__main__ import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["prepare", "--help"], ["synthesize", "--help"]]
)
def test_help_needs_no_tensorflow(words: list[str]) -> None:
    done = ncf_without(["tensorflow"], *words)
    assert done.returncode == 0, done.stderr
    assert "usage: ncf" in done.stdout


def test_options_for_other_programs_need_no_heavy_library() -> None:
    done = ncf_without(["tensorflow", "pandas", "pyarrow", "numpy"], "options", "--json")
    options = {option["name"] for option in json.loads(done.stdout)["options"]}
    assert {"batch_size", "layers", "precision", "seed"} <= options


def test_training_without_tensorflow_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    done = ncf_without(["tensorflow"], "train", "--data", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("ncf: error: training needs TensorFlow")
    assert done.stderr.count("\n") == 1


def one_error_line(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0].removeprefix("ncf: error: ")


def test_an_unknown_option_or_command_names_what_is_known(capsys) -> None:
    assert "did you mean --epochs" in one_error_line(capsys, "train", "--epoch", "3")
    assert "'trian'" in one_error_line(capsys, "trian")
    assert "did you mean --preset" in one_error_line(
        capsys, "synthesize", "--preset", "tiny", "--output", "x", "--prest", "tiny"
    )


def test_a_command_line_without_a_command_trains_as_nvidias_script_does(capsys, tmp_path) -> None:
    pytest.importorskip("tensorflow")
    assert "no such folder" in one_error_line(capsys, "--amp", "--data", str(tmp_path / "none"))


@pytest.mark.tf
@pytest.mark.parametrize("name", ["train_items", "test_items", "candidates", "train_offsets"])
def test_a_missing_or_truncated_array_is_named_before_training(capsys, tmp_path, name) -> None:
    pytest.importorskip("tensorflow")
    toy_folder(tmp_path / "data")
    path = tmp_path / "data" / f"{name}.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    line = one_error_line(capsys, "train", "--data", str(tmp_path / "data"))
    assert f"{name}.npy" in line
    assert "ncf prepare" in line
    path.unlink()
    line = one_error_line(capsys, "train", "--data", str(tmp_path / "data"))
    assert f"{name}.npy: missing" in line


@pytest.mark.tf
def test_too_many_candidates_are_refused_with_the_largest_number(capsys, tmp_path) -> None:
    pytest.importorskip("tensorflow")
    toy_folder(tmp_path / "data")
    words = ["--data", str(tmp_path / "data"), "--protocol", "unique", "--valid_negative", "35"]
    assert "28 is the most that works" in one_error_line(capsys, "train", *words)


@pytest.mark.tf
def test_a_record_that_cannot_be_written_is_named_before_any_training(capsys, tmp_path) -> None:
    pytest.importorskip("tensorflow")
    toy_folder(tmp_path / "data")
    (tmp_path / "file").write_text("", encoding="utf-8")
    words = ["--data", str(tmp_path / "data"), "--record", str(tmp_path / "file" / "run.json")]
    line = one_error_line(capsys, "train", *words)
    assert line.startswith("--record ")
    assert "epoch" not in capsys.readouterr().err


@pytest.mark.tf
def test_two_ranks_without_horovod_exit_with_one_line(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    toy_folder(tmp_path / "data")
    place = {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}
    code = BLOCKER.format(names=["horovod", "horovod.tensorflow"])
    code += "from ncf.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--data", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
        check=False,
        env={**os.environ, **place},
    )
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("ncf: error:")]
    assert len(errors) == 1
    assert "2 ranks need Horovod" in errors[0]
    assert "Traceback" not in done.stderr


def test_output_into_a_closed_pipe_is_no_traceback() -> None:
    shell = shutil.which("bash")
    assert shell
    done = subprocess.run(
        [shell, "-c", f"'{sys.executable}' -m ncf options | true"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
