"""The command `bench`: run, plan, status, report and help, with the stub trainer."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench_folder import HERE, SUITE, a_folder, bench_command, fresh_options  # noqa: F401 - fixtures
from paths import ROOT

from bench.cli import COMMANDS
from bench.cli import common as commands
from bench.cli.common import REPOSITORY_RESULTS
from bench.host import machine as host
from bench.render.model import Heading
from bench.suite.trainer_options import TRAINER
from bench.suites import shipped


def test_a_suite_alone_means_run(bench):
    code, out, err = bench("mine.toml", "--no-report")
    assert (code, err) == (0, "")
    assert "mine: 2 of 2 runs are stored" in out
    again = bench("run", "mine.toml", "--no_report")
    assert again[0] == 0
    assert "nothing to run: 2 of 2 runs are stored" in again[1]


def test_dashes_and_underscores_are_the_same(bench):
    for option in ("--data-root=elsewhere", "--data_root=elsewhere"):
        assert bench("mine.toml", "--no-report", option)[0] == 0
    assert Path("elsewhere/synthetic-tiny-seed1").is_dir()


def test_status_shows_fingerprints_and_flags(bench):
    from bench.records.store import Store

    bench("mine.toml", "--no-report")
    code, out, _ = bench("status", "mine.toml")
    assert code == 0
    assert out.count("fingerprint hardware ") == 1
    assert ": 2 good runs, the last " in out
    assert "flag " not in out
    store = Store(Path("results/mine"))
    attempt = dataclasses.replace(store.load().attempts[0], attempt=2, flags=("busy_host",))
    store.write(attempt)
    assert "flag busy_host: 1 attempts (other programs used more" in bench("status", "mine.toml")[1]
    data = json.loads(bench("status", "mine.toml", "--json")[1])
    assert data["flags"] == {"busy_host": 1}
    assert len(data["fingerprints"]) == 1


def test_rerun_is_planned_and_run(bench):
    bench("mine.toml", "--no-report")
    assert "2 to run, 2 of 2 stored" in bench("plan", "mine.toml", "--rerun", "all")[1]
    assert "nothing to run" in bench("plan", "mine.toml", "--rerun", "failed")[1]
    code, out, _ = bench("mine.toml", "--no-report", "--rerun", "all")
    assert code == 0
    assert "mine: 2 of 2 runs are stored" in out
    assert len(list(Path("results/mine/records").rglob("*.json"))) == 4
    code, _, err = bench("mine.toml", "--rerun", "some")
    assert code == 2
    assert "invalid choice: 'some'" in err


def test_stale_runs_are_named_and_made_again_on_request(bench, monkeypatch):
    bench("mine.toml", "--no-report")
    installed = {"python": "2.7"}  # the stub's records say 3
    monkeypatch.setattr("bench.cli.plan.trainer_versions", lambda *_: installed)
    monkeypatch.setattr("bench.cli.session.trainer_versions", lambda *_: installed)
    assert "1 made by other software or code (--rerun stale)" in bench("plan", "mine.toml")[1]
    assert "nothing to run" in bench("mine.toml", "--no-report")[1], "they stay good until asked"
    code, out, _ = bench("mine.toml", "--no-report", "--rerun", "stale")
    assert (code, out.count("samples/s")) == (0, 2)


def test_records_that_came_with_a_clone_bind_no_changed_suite(bench, folder):
    assert bench("mine.toml", "--no-report")[0] == 0
    (folder / "results" / ".machine-id").unlink()  # git carries neither this nor the plan along
    (folder / "results" / "mine" / "plan.json").unlink()
    (folder / "mine.toml").write_text(f"{SUITE}[train]\nepochs = 3\n", encoding="utf-8")
    code, out, err = bench("mine.toml", "--no-report")
    assert (code, err) == (0, "")
    assert "2 of 2 runs are stored" in out


def test_all_folders_can_be_chosen(bench):
    assert bench("mine.toml", "--no-report", "--results", "r", "--data-root", "d")[0] == 0
    assert Path("r/mine/records").is_dir()
    assert Path("d/synthetic-tiny-seed1").is_dir()
    assert not Path("results").exists()
    assert "0 of 2" not in bench("status", "mine.toml", "--results", "r", "--data-root", "d")[1]


def test_after_the_runs_the_report_is_drawn_and_named(bench, monkeypatch):
    import types

    asked = []

    def write_report(suite, results, plots, csv, notation=None):
        asked.append((suite.name, results, plots, csv.name))
        return [plots / "x.png", results / suite.name / "report.md"]

    fake = types.SimpleNamespace(
        write_report=write_report, published_page=lambda csv, digits: [Heading(1, csv.name)]
    )
    monkeypatch.setitem(sys.modules, "bench.report.build", fake)
    code, out, _ = bench("mine.toml", "--plots", "p")
    assert (code, out.splitlines()[-1]) == (0, "report: results/mine/report.md")
    assert "report: results/mine/report.md" in bench("mine.toml")[1], "also with nothing to run"
    assert asked[0] == ("mine", Path("results"), Path("p"), "ncf_published.csv")
    assert bench("report", "mine.toml")[1].splitlines() == ["plots/x.png", "results/mine/report.md"]
    assert bench("report", "--published")[1].startswith("# ")


def test_published_figures_are_found_in_results_or_repository(tmp_path):
    assert commands.published_csv(tmp_path).is_file()
    mine = tmp_path / "published" / "ncf_published.csv"
    mine.parent.mkdir()
    mine.write_text("source\n")
    assert commands.published_csv(tmp_path) == mine


def test_plan_shows_the_grid_and_changes_nothing(bench, folder):
    code, out, _ = bench("plan", "mine.toml")
    assert code == 0
    assert "| ranks=1 |" in out
    assert "mine: 2 to run, 0 of 2 stored; expected time: unknown (no run is stored yet)\n" in out
    assert "smallest difference that 1 run a cell can show: none" in out
    assert [path.name for path in folder.iterdir()] == ["mine.toml"]
    data = json.loads(bench("plan", "mine.toml", "--json")[1])
    assert (data["to_run"], data["expected_seconds"]) == (2, None)


def test_plan_knows_the_time_from_stored_runs(bench):
    bench("mine.toml", "--no-report", "--ranks", "1")
    _, out, _ = bench("plan", "mine.toml")
    assert "1 to run, 1 of 2 stored; expected time: " in out
    assert "unknown" not in out


def test_the_published_grid_can_be_planned_on_any_machine(bench, monkeypatch):
    monkeypatch.setattr(host, "read_gpus", lambda: ((), None, "no NVIDIA driver answers"))
    code, out, _ = bench("plan", "dgx", trainer=TRAINER)
    assert code == 0
    assert "not available: the suite needs a GPU: no NVIDIA driver answers" in out
    assert "cells are not available here" in out


def test_what_can_run_is_run_although_other_cells_cannot(bench, monkeypatch):
    monkeypatch.setattr(host, "find_horovodrun", lambda: (None, "not installed for this Python"))
    code, out, _ = bench("mine.toml", "--no-report")
    assert code == 0
    assert "not available: 2 ranks need Horovod: not installed for this Python" in out
    assert "mine: 1 of 1 runs are stored" in out
    again = bench("mine.toml", "--no-report")
    assert "nothing to run: 1 of 1 runs are stored; 1 of 2 cells are not available here" in again[1]


def test_without_arguments_help_is_shown(bench):
    with pytest.raises(SystemExit) as left:
        bench()
    assert left.value.code == 0


def test_status_lists_what_is_good_failed_unreadable_and_mixed(bench, monkeypatch):
    monkeypatch.setenv("STUB_DO", "nan")
    bench("mine.toml", "--no-report", "--ranks", "2")
    monkeypatch.delenv("STUB_DO")
    bench("mine.toml", "--no-report")
    (record,) = Path("results/mine/records").glob("ranks=1*/seed1-a1.json")
    record.with_name("seed1-a2.json").write_text("{")
    data = json.loads(record.read_text())
    data["run"]["dataset"]["hash"] = "another"
    record.write_text(json.dumps(data))
    code, out, _ = bench("status", "mine.toml")
    assert code == 0
    assert "| ranks=2 | 1 of 1 | 1 nan" in out
    assert "| ranks=1 | 0 of 1 | -" in out
    assert "1 from another machine or data set" in out
    assert "results/mine: 1 of 2 runs are stored" in out
    assert "good runs from 2 data sets, never pooled: stub-data 0123456789abcdef: 1" in out
    assert "unreadable, not counted: results/mine/records/" in out
    facts = json.loads(bench("status", "mine.toml", "--json")[1])
    assert len(facts["unreadable"]) == 1
    assert facts["lock"] is None


def test_records_from_another_machine_do_not_fill_our_grid(bench):
    # A clone brings records along but not the name of the machine that made them.
    bench("mine.toml", "--no-report")
    Path("results/.machine-id").unlink()
    code, out, _ = bench("mine.toml", "--no-report")
    assert "2 to run, 0 of 2 stored" in out
    assert "1 from another machine or data set" in out
    assert code == 0
    assert len(list(Path("results/mine/records").rglob("*.json"))) == 4
    assert "nothing to run: 2 of 2" in bench("mine.toml", "--no-report")[1]


def test_help_and_planning_load_nothing_heavy():
    code = (
        "import sys; from bench.__main__ import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'tensorflow', 'pandas', 'pyarrow', 'matplotlib', 'scipy', 'numpy', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    for words in (["--help"], ["plan", "smoke"], ["status", "dgx"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )
        assert done.stdout.splitlines()[-1] == "[]", words


def test_the_help_names_every_shipped_suite(bench, capsys):
    with pytest.raises(SystemExit):
        bench("run", "--help")
    text = capsys.readouterr().out
    assert all(name in text for name in shipped())


def test_suites_lists_every_suite_with_needs_and_time(bench):
    code, out, _ = bench("suites", trainer=TRAINER)
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()[::3]] == list(shipped())
    assert "dgx: The published grid: MovieLens 20M" in out
    assert "  needs GPU, 1, 4 or 8 ranks, data ml-20m\n  45 runs, time not known" in out
    assert re.search(
        r"data synthetic 100k\n  12 runs, about \d+ (s|min) as measured on .* 2 cores", out
    )
    facts = {
        suite["name"]: suite for suite in json.loads(bench("suites", "--json", trainer=TRAINER)[1])
    }
    assert (facts["dgx"]["expected_seconds"], facts["dgx"]["measured_on"]) == (None, None)
    assert facts["smoke"]["expected_seconds"] > 0
    assert (facts["seeds"]["device"], facts["seeds"]["runs"]) == ("gpu", 800)


def test_our_own_runs_decide_the_time_of_a_suite(bench):
    measured = json.loads(bench("suites", "--json", trainer=TRAINER)[1])
    folder = Path("results/smoke/records")
    shutil.copytree(REPOSITORY_RESULTS / "smoke" / "records", folder)
    for path in folder.rglob("*.json"):
        path.write_text(
            re.sub(r'"wall_seconds": [\d.]+', '"wall_seconds": 100.0', path.read_text())
        )
    facts = {
        suite["name"]: suite for suite in json.loads(bench("suites", "--json", trainer=TRAINER)[1])
    }
    assert facts["smoke"]["expected_seconds"] == pytest.approx(1200)
    facts["smoke"] = next(suite for suite in measured if suite["name"] == "smoke")
    assert list(facts.values()) == measured


IMPORTS = """
import sys
from bench.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(sum(name.split(".")[0] in ("bench", "ncf") for name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(("option", "text"), [("--help", "exit codes"), ("--version", "Python 3")])
def test_help_and_version_import_at_most_12_of_our_modules(option, text):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, option],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert text in done.stdout
    assert int(done.stderr) <= 12


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_help_page_lists_options_in_groups_and_exit_codes(command, bench, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench(command.name, "--help")
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: ncf-bench {command.name} [-h]")
    assert re.search(r"^(what to run|where|output|statistics):$", text, re.MULTILINE)
    codes = text.partition("exit codes:\n")[2]
    assert re.search(rf"^  0    {re.escape(command.ok)}$", codes, re.MULTILINE)
    assert re.search(rf"^  2    {re.escape(command.error)}$", codes, re.MULTILINE)
    assert ("  1    " in codes) == bool(command.failed)
    assert ("  3    " in codes) == bool(command.inconclusive) == (command.name == "gate")


def test_version_names_the_program_and_its_libraries(bench, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench("--version")
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == ["ncf-bench", "Python", "TensorFlow", "Horovod"]
