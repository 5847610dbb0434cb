"""What the repository shows is what its records say."""

from __future__ import annotations

import shutil

import pytest
from paths import ROOT

from bench.__main__ import main
from bench.analysis.aggregate import DEFAULT
from bench.cli import report as report_commands
from bench.render.formats import markdown_page
from bench.report.build import gather
from bench.suite.trainer_options import TRAINER
from bench.suites import shipped

COMMITTED = [name for name in shipped() if (ROOT / "results" / name / "report.md").is_file()]


def test_the_tables_in_the_readme_are_those_of_the_records(tmp_path, monkeypatch, capsys):
    readme = tmp_path / "README.md"
    shutil.copy(ROOT / "README.md", readme)
    monkeypatch.chdir(ROOT)

    assert main(["report", "--update", str(readme)]) == 0

    capsys.readouterr()
    assert readme.read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8"), (
        "run `python -m bench report --update README.md`"
    )


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_report_follows_from_its_records(name):
    suite = report_commands.load_suite(name, TRAINER)
    material = gather(suite, ROOT / "results", ROOT / "results/published/ncf_published.csv")

    made = markdown_page(material.page(DEFAULT, {})).splitlines()

    stored = (ROOT / "results" / name / "report.md").read_text(encoding="utf-8").splitlines()
    pictures = ("![", "*", "## Pictures")
    # Captions of pictures begin with a star, and so do explanations of tables.
    kept, wanted = (
        [line for line in lines if line and not line.startswith(pictures)]
        for lines in (stored, made)
    )
    assert kept == wanted, f"run `python -m bench report {name}`"
