"""MovieLens 100k out of the wheel: the right bytes or one clear line."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import fetch_ml100k
import pytest

DATA = b"user_id:token\titem_id:token\n1\t2\n"


@pytest.fixture(autouse=True)
def small_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_ml100k, "SHA256", hashlib.sha256(DATA).hexdigest())


def wheel(folder: Path, data: bytes = DATA, member: str = fetch_ml100k.MEMBER) -> Path:
    path = folder / "recbole-1.2.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, data)
    return path


def fetch(*arguments: object) -> int:
    return fetch_ml100k.main([str(argument) for argument in arguments])


def one_error_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("fetch_ml100k: error: ")
    return lines[0]


def test_the_file_is_taken_out_of_the_wheel(tmp_path: Path) -> None:
    output = tmp_path / "data" / "ml-100k.inter"
    assert fetch("--wheel", wheel(tmp_path), "--output", output) == 0
    assert output.read_bytes() == DATA
    assert [path.name for path in output.parent.iterdir()] == ["ml-100k.inter"]


def test_a_right_file_is_kept_and_pip_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "ml-100k.inter"
    output.write_bytes(DATA)
    monkeypatch.setattr(fetch_ml100k, "download", lambda folder: pytest.fail("asked pip"))
    assert fetch("--output", output) == 0
    assert "already there" in capsys.readouterr().out


def test_another_file_in_its_place_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "ml-100k.inter"
    output.write_bytes(b"mine")
    assert fetch("--wheel", wheel(tmp_path), "--output", output) == 2
    assert output.read_bytes() == b"mine"
    assert "--output" in one_error_line(capsys)


def test_other_bytes_in_the_wheel_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "ml-100k.inter"
    assert fetch("--wheel", wheel(tmp_path, data=DATA + b"9\t9\n"), "--output", output) == 2
    assert "SHA-256" in one_error_line(capsys)
    assert not output.exists()


@pytest.mark.parametrize("kind", ["missing", "no zip", "no member"])
def test_an_unusable_wheel_is_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.whl"
    if kind == "no zip":
        path.write_bytes(b"not a zip")
    if kind == "no member":
        path = wheel(tmp_path, member="other.txt")
    assert fetch("--wheel", path, "--output", tmp_path / "out") == 2
    assert "--data" in one_error_line(capsys)


def test_without_a_network_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "WARNING: retrying\nERROR: No matching distribution found for recbole==1.2.1\n"
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr=said)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    assert fetch("--output", tmp_path / "out") == 2
    line = one_error_line(capsys)
    assert "No matching distribution" in line
    assert "--data ml-100k.zip" in line


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "ml-100k.inter"
    assert fetch("--wheel", wheel(tmp_path), "--output", output) == 2
    assert str(output) in one_error_line(capsys)


@pytest.mark.slow
def test_the_real_wheel_holds_the_real_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    output = tmp_path / "ml-100k.inter"
    assert fetch("--output", output) == 0
    assert len(output.read_text(encoding="utf-8").splitlines()) == 100_001
