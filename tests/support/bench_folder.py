"""A folder with a suite for the stub trainer, and `bench` there as a user calls it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.host import machine as host
from bench.suite.trainer_options import ask

HERE = Path(__file__).parent
STUB = (sys.executable, str(HERE / "stub_trainer.py"))
SUITE = """\
[data]
synthetic = "tiny"
[axes]
ranks = [1, 2]
[repeat]
seeds = 1
"""


@pytest.fixture(name="folder", autouse=True)
def a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STUB_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1]))
    monkeypatch.setattr(host, "find_horovodrun", lambda: (str(HERE / "stub_horovodrun"), None))
    (tmp_path / "mine.toml").write_text(SUITE, encoding="utf-8")
    return tmp_path


@pytest.fixture(name="bench")
def bench_command(capsys):
    def run(*words, trainer=STUB):
        code = main(words, trainer=trainer)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(autouse=True)
def fresh_options():
    ask.cache_clear()
