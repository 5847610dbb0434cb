"""`bench report` with its options, on stored records and without a trainer."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

import golden
import pytest
from paths import CSV
from sample_records import A100_HOST, ML_20M, grid, make_attempt, make_suite
from table_cells import shown_rows

from bench.__main__ import main
from bench.analysis.aggregate import Notation
from bench.analysis.group import group
from bench.cli import report as report_commands
from bench.plots import catalog
from bench.records.store import Store
from bench.render.model import markdown
from bench.report.published import side_by_side
from bench.report.training import accuracy, convergence, throughput
from bench.suite.model import cells

MEAN, BEST = Notation("mean"), Notation("best")


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Runs `bench report ...` in a folder with records of the made-up suite `sample`."""
    suite = make_suite(margin_hr=0.006)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "draw", lambda *_: {})  # pictures have tests of their own
    monkeypatch.setattr(report_commands, "load_suite", lambda name, _trainer: load(name))
    attempts = grid(suite)
    attempts.append(make_attempt(cells(suite)[0], 1, status="oom", number=2))
    for attempt in attempts:
        Store(tmp_path / "results" / "sample").write(attempt)

    def load(name):
        if name != "sample":
            raise report_commands.UserError(f"unknown suite {name!r}")
        return suite

    def run(*words):
        code = main(["report", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("form", ["csv", "json", "latex"])
def test_all_tables_in_every_form(bench, form):
    code, out, _ = bench("sample", "--format", form)

    assert code == 0
    # The last digits of a float differ between versions of Python and of numpy.
    text = re.sub(r"\d+\.\d{9,}(e-?\d+)?", lambda match: f"{float(match[0]):.8g}", out)
    golden.check(f"tables.{form}", text)


def test_json_holds_numbers_and_null_for_what_does_not_exist(bench):
    data = json.loads(bench("sample", "--format", "json", "--table", "throughput")[1])

    (table,) = data["tables"]
    cell = table["rows"][0][table["columns"].index("FP32 (samples/s)")]
    assert cell["n"] == 3
    assert 140_000 < cell["low"] < cell["value"] < cell["high"] < 160_000
    assert cell["unit"] == "samples/s"


def test_one_run_has_null_spread_in_json_and_empty_fields_in_csv(tmp_path, bench):
    shutil.rmtree(tmp_path / "results" / "sample" / "records")
    for attempt in grid(make_suite(seeds=(1,))):
        Store(tmp_path / "results" / "sample").write(attempt)

    data = json.loads(bench("sample", "--format", "json", "--table", "throughput")[1])
    cell = data["tables"][0]["rows"][0][2]
    assert (cell["low"], cell["high"], cell["n"]) == (None, None, 1)
    assert "spread n/a" in cell["text"]
    verdict = json.loads(bench("sample", "--format", "json", "--table", "verdict")[1])
    gap = verdict["tables"][0]["rows"][0][4]
    assert (gap["low"], gap["high"]) == (None, None)
    text = bench("sample", "--format", "csv", "--table", "throughput")[1]
    assert "FP32 (samples/s) low" not in text


def test_csv_is_read_back_with_unrounded_numbers(bench):
    text = bench("sample", "--format", "csv", "--table", "accuracy")[1]

    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][0].startswith("# Best HR@10")
    assert rows[1][:5] == ["Ranks", "FP32 (fraction)", "FP32 low", "FP32 high", "FP32 n"]
    assert float(rows[2][1]) == pytest.approx(0.6575, abs=5e-5)
    assert rows[2][1] != "0.6575"
    assert rows[4] == ["popularity", "0.4104", "", "", "", "0.4104", "", "", ""]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(bench, tmp_path):
    body = bench("sample", "--format", "latex")[1]
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}"
    text = f"{head}{body}\\end{{document}}"
    (tmp_path / "x.tex").write_text(text)
    subprocess.run(["pdflatex", "-halt-on-error", "x.tex"], check=True, capture_output=True)


def test_published_tables_come_in_every_form_too(bench):
    text = bench("--published", "--format", "csv", "--table", "throughput")[1]

    assert "20027840.0" in text
    assert "2.101" in text
    assert bench("--published", "--numbers", "full")[1].count("20,027,840") == 1
    assert "20.03 M" in bench("--published", "--numbers", "short")[1]


def test_an_unknown_table_is_one_line_with_the_nearest_name(bench):
    code, _, err = bench("sample", "--format", "csv", "--table", "thruput")

    assert code == 2
    assert "--table: sample has no table 'thruput'; did you mean 'throughput'?" in err
    assert bench("sample", "--table", "throughput")[0] == 2


def block_of(suite, attempts):
    return group(cells(suite), suite.seeds, attempts).blocks[0]


def test_the_mean_of_runs_is_shown_with_its_deviation():
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32",)})
    block = block_of(suite, grid(suite))
    best = [max(epoch.hr_at_k for epoch in run.epochs) for run in block.runs]

    text = shown_rows(accuracy(block, MEAN))[0][1]

    expected = f"{statistics.mean(best):.4f} (SD {statistics.stdev(best):.4f}), n=3"
    assert text == expected


def test_the_best_run_is_the_highest_rate_and_the_shortest_time():
    suite = make_suite()
    block = block_of(suite, grid(suite))

    assert shown_rows(throughput(block, BEST))[0][2] == "155,387 (worst 147,893), n=3"
    assert shown_rows(convergence(block, BEST))[0][2] == "26.8 (worst 31.8), n=3"


def test_ratios_of_means_and_bests_divide_unrounded_and_have_no_interval():
    suite = make_suite()
    block = block_of(suite, grid(suite))

    table = throughput(block, BEST)

    column = table.headers.index("Speed-up AMP/FP32")
    assert shown_rows(table)[0][column] == "1.25"
    assert shown_rows(table)[0][column].item.value == pytest.approx(194_368 / 155_387, rel=1e-5)


@pytest.mark.parametrize("aggregate", ["median", "mean", "best"])
def test_the_heading_says_which_aggregate(bench, tmp_path, aggregate):
    assert bench("sample", "--aggregate", aggregate)[0] == 0

    text = (tmp_path / "results" / "sample" / "report.md").read_text(encoding="utf-8")
    name = {"median": "median of runs", "mean": "mean of runs", "best": "best run"}[aggregate]
    assert f"## Training accuracy ({name})" in text
    assert f"## Training throughput ({name})" in text
    golden.check(f"report_{aggregate}.md", text)


def test_short_and_full_numbers(bench):
    short = bench("sample", "--numbers", "short", "--format", "markdown")[1]
    full = bench("sample", "--numbers", "full", "--format", "markdown")[1]

    assert "151.12 k" in short
    assert "151,120" in full


def test_means_are_compared_over_the_epochs_of_the_source():
    suite = make_suite(
        train={"epochs": 3, "batch_size": 1048576}, axes={"ranks": (1,), "precision": ("amp",)}
    )
    attempts = grid(suite, rate=2e7, data=ML_20M, batch=1048576, dtype="float16")

    def slow_first(attempt):
        first, *others = attempt.run.epochs
        slower = replace(first, timed_seconds=2 * first.timed_seconds)
        return replace(attempt, host=A100_HOST, run=replace(attempt.run, epochs=(slower, *others)))

    from bench.published.figures import read, select

    figures = select(
        read(CSV), source="nvidia-dle-ncf-pytorch-2021-06", system="DGX A100 8x A100 40GB"
    )
    block = block_of(suite, [slow_first(attempt) for attempt in attempts])

    def ours(notation):
        table = side_by_side(block, figures, notation)
        return shown_rows(table)[0][table.headers.index("Samples/s ours")].item.value

    assert ours(MEAN) == pytest.approx(4 / 3 * ours(Notation()), rel=0.1)
    golden.check("side_by_side_mean.md", markdown(side_by_side(block, figures, MEAN)) + "\n")


README = """\
# Mine

<!-- ncf-bench:begin sample accuracy -->
<!-- ncf-bench:end -->

Text.

<!-- ncf-bench:begin sample throughput -->
old
<!-- ncf-bench:end -->
<!-- ncf-bench:begin published inference -->
<!-- ncf-bench:end -->
The end.
"""


def test_regions_of_a_readme_are_updated_and_again_change_nothing(bench, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(README, encoding="utf-8")

    code, out, _ = bench("--update", "README.md")

    once = path.read_bytes()
    assert (code, out) == (0, "README.md\n")
    golden.check("updated.md", once.decode("utf-8"))
    assert bench("--update", "README.md")[0] == 0
    assert path.read_bytes() == once
    assert not Path("plots").exists(), "nothing else is written"


def test_only_the_regions_of_a_named_suite_are_updated(bench, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(README, encoding="utf-8")

    assert bench("sample", "--update", "README.md")[0] == 0

    assert path.read_text(encoding="utf-8").endswith(README.partition("old\n")[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("<!-- ncf-bench:end -->\n\nText", "Text"), "README.md:6: ncf-bench:begin inside"),
        (("sample accuracy", "sample acuracy"), "README.md:3: sample has no table 'acuracy'"),
        (("sample accuracy", "smple accuracy"), "README.md:3: unknown suite 'smple'"),
        (("ncf-bench", "ncf_bench"), "README.md: no region to update"),
    ],
)
def test_file_that_cannot_be_updated_is_named_and_unchanged(bench, tmp_path, change, message):
    path = tmp_path / "README.md"
    path.write_text(README.replace(*change), encoding="utf-8")

    code, _, err = bench("--update", "README.md")

    assert code == 2
    assert err.startswith(f"ncf-bench: error: {message}")
    assert err.count("\n") == 1
    assert path.read_text(encoding="utf-8") == README.replace(*change)


def test_a_link_stays_a_link_and_the_mode_stays(bench, tmp_path):
    path = tmp_path / "real.md"
    path.write_text(README, encoding="utf-8")
    path.chmod(0o600)
    (tmp_path / "README.md").symlink_to(path)

    assert bench("--update", "README.md")[0] == 0

    assert (tmp_path / "README.md").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert "151,120" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "--table", "throughput"),
        ("--update", "README.md", "--format", "csv"),
        ("--published", "sample"),
        ("--published", "--aggregate", "best"),
    ],
)
def test_an_option_that_would_change_nothing_is_a_mistake(bench, words):
    code, out, err = bench(*words)

    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_one_line(bench):
    assert bench("--update", "none.md")[2] == (
        "ncf-bench: error: --update none.md: No such file or directory\n"
    )
