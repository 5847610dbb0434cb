"""Starting again with huge pages: where it helps, never twice, never against the user."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from ncf.__main__ import main
from ncf.runtime import huge_pages

MODE = "always [madvise] never\n"


def test_the_setting_is_added_to_those_that_are_there() -> None:
    added = huge_pages.environment_with_huge_pages({"A": "b"}, MODE, "glibc 2.36")
    assert added == {"A": "b", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    more = huge_pages.environment_with_huge_pages(
        {"GLIBC_TUNABLES": "glibc.malloc.check=1"}, MODE, "glibc 2.41.9000"
    )
    assert more == {"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}


@pytest.mark.parametrize(
    ("environment", "mode", "library"),
    [
        ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}, MODE, "glibc 2.36"),
        ({}, "[always] madvise never\n", "glibc 2.36"),
        ({}, "always madvise [never]\n", "glibc 2.36"),
        ({}, MODE, "glibc 2.34"),
        ({}, MODE, "musl 1.2"),
        ({}, MODE, "glibc"),
        ({}, MODE, ""),
    ],
)
def test_nothing_is_started_again_where_it_would_change_nothing(
    environment: dict[str, str], mode: str, library: str
) -> None:
    assert huge_pages.environment_with_huge_pages(environment, mode, library) is None


def test_a_second_start_finds_the_setting_and_goes_on() -> None:
    once = huge_pages.environment_with_huge_pages({}, MODE, "glibc 2.36")
    assert once is not None
    assert huge_pages.environment_with_huge_pages(once, MODE, "glibc 2.36") is None


@pytest.mark.parametrize("mode", [MODE, "always madvise [never]\n"])
def test_the_command_keeps_its_process_its_words_and_its_exit_code(mode: str) -> None:
    script = f"""
import os, sys
from pathlib import Path
from ncf.runtime import huge_pages
class Mode:
    def read_text(self, encoding): return {mode!r}
huge_pages._MODE = Mode()
os.confstr = lambda name: "glibc 2.36"
print(os.getpid(), "GLIBC_TUNABLES" in os.environ, sys.argv[1:], flush=True)
huge_pages.start_again()
sys.exit(7)
"""
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    done = subprocess.run(
        [sys.executable, "-c", script, "a b", "--c"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [line[1] for line in lines] == (["False", "True"] if mode == MODE else ["False"])
    assert {(line[0], line[2]) for line in lines} == {(lines[0][0], "['a b', '--c']")}


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["train", "--data", "nowhere"], True),
        (["--epochs", "1", "--data", "nowhere"], True),  # train, as with NVIDIA's ncf.py
        (["infer", "--data", "nowhere"], True),
        (["synthesize", "--preset", "nothing"], False),
        (["--version"], False),
    ],
)
def test_what_computes_starts_again_and_nothing_else(
    words: list[str], again: bool, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(huge_pages, "start_again", lambda: started.append(True))
    monkeypatch.setattr("sys.argv", ["ncf", *words])
    with contextlib.suppress(SystemExit):
        main()
    assert started == [True] * again
