"""The table of commands: every command can be imported and documents its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncf.__main__ import main
from ncf.cli import COMMANDS, Command


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_help_page_lists_the_exit_codes(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(command.function())
    with pytest.raises(SystemExit) as done:
        main([command.name, "--help"])
    assert done.value.code == 0
    page = capsys.readouterr().out
    assert page.startswith(f"usage: ncf {command.name}")
    assert "exit codes:\n  0    done\n  2    invalid input" in page
    assert "\n  130  interrupted" in page


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    page = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n    {command.name}" in page
        assert command.help in " ".join(page.split())


def test_version_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out.startswith("ncf 0.")


def test_options_may_be_abbreviated_except_those_of_train_and_infer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["synthesize", "--pre", "tiny", "--out", str(tmp_path / "d")]) == 0
    for name in ("train", "infer"):
        assert main([name, "--dat", str(tmp_path / "d")]) == 2
        assert f"did you mean --data? (see `ncf {name} --help`)" in capsys.readouterr().err
