from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from paths import SUPPORT

from bench.__main__ import main
from bench.host import machine as host
from bench.records.store import load
from bench.sweep import scheduler as sweep

STUB = (sys.executable, str(SUPPORT / "stub_trainer.py"))
SUITE = """\
[data]
synthetic = "tiny"
[axes]
ranks = [1]
[repeat]
seeds = 7
[gate]
looks = [6]
"""


def settle(folder, monkeypatch):
    """Work in this folder, with the stub trainer and the suite `mine`."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STUB_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT.parent))
    monkeypatch.setenv("STUB_RATE", "20000")
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "STUB_DO"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(host, "find_horovodrun", lambda: (str(SUPPORT / "stub_horovodrun"), None))
    (folder / "mine.toml").write_text(SUITE, encoding="utf-8")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    settle(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def bench(capsys):
    def run(*words):
        code = main(words, trainer=STUB)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data and results with the suite's runs as its baseline, made once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as monkeypatch:
        settle(folder, monkeypatch)
        signed = ("mine", "--name", "first", "--why", "start", "--who", "Me")
        assert main(("run", "mine.toml", "--no-report"), trainer=STUB) == 0
        assert main(("baseline", "save", *signed), trainer=STUB) == 0
        assert main(("baseline", "promote", *signed), trainer=STUB) == 0
    return folder


@pytest.fixture
def promoted(made, folder):
    """The suite's own baseline, in a copy of what was made."""
    for name in ("data", "results"):
        shutil.copytree(made / name, folder / name)
    return Path("results/baselines/mine.json")


def test_the_same_speed_again_is_exit_code_0_on_new_runs(bench, promoted):
    code, out, err = bench("gate", "mine.toml")

    assert code == 0
    assert "## Gate mine: 2 EQUIVALENT" in out
    assert "Baseline **first**: start (Me, " in out
    assert "7 to run" in err
    assert len(load(Path("results/mine")).attempts) == 14, "the old ones are still there"


def test_a_loss_is_exit_code_1_in_every_form(bench, promoted, monkeypatch, tmp_path):
    monkeypatch.setenv("STUB_RATE", "18000")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    (tmp_path / "step.md").write_text("before\n")

    code, out, _ = bench("gate", "mine.toml", "--junit", "j.xml", "--summary", "s.md")

    assert code == 1
    assert "1 REGRESSED, 1 EQUIVALENT" in out
    assert "-10.0 %" in out
    assert "::error title=bench gate mine::ranks 1, throughput: REGRESSED" in out
    assert (tmp_path / "step.md").read_text() == "before\n" + Path("s.md").read_text()
    assert ET.parse("j.xml").getroot()[0].get("failures") == "1"


def test_a_gain_is_no_failure(bench, promoted, monkeypatch):
    monkeypatch.setenv("STUB_RATE", "25000")

    code, out, _ = bench("gate", "mine.toml", "--metrics", "throughput")

    assert code == 0
    assert "1 IMPROVED" in out


def test_json_is_all_of_standard_output(bench, promoted):
    code, out, _ = bench("gate", "mine.toml", "--json", "--sequential")

    data = json.loads(out)
    assert code == data["exit_code"] == 0
    assert data["looks"] == [6]
    assert {line["n_here"] for line in data["lines"]} == {6}
    assert len(load(Path("results/mine")).attempts) == 7 + 6


def test_gate_stored_judges_stored_runs_without_the_baselines_own(bench, promoted):
    code, _, err = bench("gate", "mine.toml", "--stored")
    assert code == 2
    assert "no stored run that is not in the baseline" in err
    bench("run", "mine.toml", "--no-report", "--rerun", "all")

    code, out, _ = bench("gate", "mine.toml", "--stored")

    assert code == 0
    assert "2 EQUIVALENT" in out
    assert len(load(Path("results/mine")).attempts) == 14


def test_few_runs_are_exit_code_3_or_what_the_policy_says(bench, promoted):
    few = ("gate", "mine.toml", "--seeds", "5,6,7", "--metrics", "throughput")

    code, out, _ = bench(*few)
    assert code == 3
    assert "INCONCLUSIVE (needs 6 runs a side, 3 more)" in out
    assert bench(*few, "--inconclusive", "pass")[0] == 0
    assert bench(*few, "--inconclusive", "fail")[0] == 1


def test_another_machine_is_exit_code_3_with_its_keys(bench, promoted):
    text = promoted.read_text().replace('"gpus": []', '"gpus": [[8, "NVIDIA A100", 40.0]]')
    promoted.write_text(text.replace('"gpu_count": 0', '"gpu_count": 8'))

    code, out, _ = bench("gate", "mine.toml")

    assert code == 3
    assert "NOT COMPARABLE (hardware.gpus, hardware.gpu_count)" in out
    assert "hardware.gpu_count: 8 in the baseline, 0 here" in out
    assert bench("gate", "mine.toml", "--not_comparable", "pass")[0] == 0
    assert bench("gate", "mine.toml", "--across", "hardware")[0] == 0


def test_runs_that_fail_are_exit_code_2(bench, promoted, monkeypatch):
    monkeypatch.setenv("STUB_DO", "crash")

    code, out, _ = bench("gate", "mine.toml", "--inconclusive", "pass", "--junit", "j.xml")

    assert code == 2
    assert "runs failed" in out
    assert ET.parse("j.xml").getroot()[0].get("errors") == "1"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gate", "mine.toml", "--baseline", "frist"), "no baseline 'frist'; did you mean 'first'"),
        (("gate", "mine.toml", "--baseline", "no.json"), "no.json: No such file"),
        (("gate", "mine.toml", "--metrics", "speed"), "unknown metric 'speed'"),
        (("gate", "mine.toml", "--margin", "throughput=3"), "number between 0 and 1"),
        (("gate", "mine.toml", "--across", "hardwear"), "did you mean 'hardware'"),
        (("gate", "mine.toml", "--left_out", "gpus"), "expected a fact such as hardware.driver"),
        (
            ("gate", "mine.toml", "--stored", "--sequential"),
            "drop one of the two",
        ),
        (("gate", "mine.toml", "--metrics", "energy"), "have any of energy"),
        (("gate", "mine.toml", "--timeout", "-1"), "expected a number above 0"),
        (("baseline", "save", "mine", "--name", "first", "--why", "x"), "never overwritten"),
        (("baseline", "save", "mine", "--name", "a/b", "--why", "x"), "letters, digits"),
        (("baseline", "save", "mine", "--name", "b"), "needs --why"),
        (("baseline", "save", "other", "--name", "b", "--why", "x"), "no good run to save"),
        (("baseline", "promote", "mine", "--name", "b", "--why", "x"), "no baseline 'b'"),
        (("baseline", "show"), "needs SUITE"),
        (("compare", "mine", "nothing"), "neither a folder with records"),
        (("compare", "mine", "mine.json"), "mine.json: No such file"),
        (("calibrate", "mine.toml", "--rounds", "2"), "at least 3 rounds are needed"),
        (("calibrate", "mine.toml", "--baseline", "none"), "no baseline 'none'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(bench, promoted, words, told):
    code, out, err = bench(*words)

    assert (code, out) == (2, "")
    assert told in err.splitlines()[-1]
    assert "Traceback" not in err


def test_without_a_promoted_baseline_the_way_to_one_is_told(bench):
    code, _, err = bench("gate", "mine.toml")

    assert code == 2
    assert "mine has no promoted baseline" in err
    assert "bench baseline save mine --name NAME --why TEXT" in err


def test_baselines_are_listed_shown_and_promoted_with_their_history(bench, promoted):
    bench("baseline", "save", "mine", "--name", "second", "--why", "new kernel", "--who", "Me")
    bench("baseline", "promote", "mine", "--name", "second", "--why", "faster", "--who", "You")

    listed = bench("baseline", "list")[1]
    shown = bench("baseline", "show", "mine")[1]

    assert [line.split("|")[3].strip() for line in listed.splitlines()[2:]] == ["in use", "", ""]
    assert "second: baseline of mine (results/baselines/mine.json)" in shown
    assert "promoted first by " in shown
    assert "promoted second by You" in shown
    assert "| ranks 1 | throughput" in shown
    assert "first: baseline" in bench("baseline", "show", "mine", "--name", "first")[1]
    own = json.loads(promoted.read_text())
    assert [one["name"] for one in own["promoted"]] == ["first", "second"]


def test_saving_never_rolls_the_promoted_baseline(bench, promoted):
    before = promoted.read_bytes()

    bench("gate", "mine.toml")
    bench("baseline", "save", "mine", "--name", "second", "--why", "x")

    assert promoted.read_bytes() == before


def test_a_baseline_of_few_runs_is_saved_with_a_warning(bench):
    bench("run", "mine.toml", "--no-report", "--seeds", "1,2")

    code, out, _ = bench("baseline", "save", "mine", "--name", "few", "--why", "x")

    assert code == 0
    assert "a cell has 2 runs; below 6 no gate will reach a verdict" in out


def test_two_results_are_compared_without_failing_anything(bench, promoted, monkeypatch):
    monkeypatch.setenv("STUB_RATE", "16000")
    bench("run", "mine.toml", "--no-report", "--rerun", "all")

    code, out, _ = bench("compare", str(promoted), "results/mine", "--metrics", "throughput")
    assert code == 0
    assert "## Comparison: 1 REGRESSED" in out
    data = json.loads(bench("compare", "mine", str(promoted), "--json")[1])
    assert {line["verdict"] for line in data["lines"]} == {"IMPROVED", "EQUIVALENT"}


def test_calibration_is_stored_with_the_baseline_and_used(bench, promoted):
    code, out, err = bench("calibrate", "mine.toml", "--rounds", "3", "--baseline", "own")

    assert code == 0
    assert "round 3 of 3" in err
    assert "21 in 3 rounds" in out
    stored = json.loads(promoted.read_text())
    assert stored["calibrated"]["why"] == "3 rounds"
    noise = stored["cells"][0]["noise"]["throughput"]
    assert (noise["rounds"], noise["runs"]) == (3, 21)
    assert noise["sd"] == pytest.approx(0.0067, rel=0.2)
    assert "Not calibrated" not in bench("gate", "mine.toml")[1]
    assert "Not calibrated" in bench("gate", "mine.toml", "--baseline", "first")[1]


def test_the_noise_of_another_machine_is_not_stored_with_a_baseline(bench, promoted):
    promoted.write_text(promoted.read_text().replace('"cores": ', '"cores": 9'))

    code, _, err = bench("calibrate", "mine.toml", "--rounds", "3", "--baseline", "own")

    assert code == 2
    assert "cannot be stored with it: hardware.cores" in err
    assert json.loads(promoted.read_text())["calibrated"] is None


def test_a_part_of_the_grid_is_gated_without_missing_the_rest(bench, tmp_path):
    (tmp_path / "mine.toml").write_text(SUITE.replace("[1]", "[1, 2]"))
    bench("run", "mine.toml", "--no-report")
    bench("baseline", "save", "mine", "--name", "both", "--why", "x")

    code, out, _ = bench("gate", "mine.toml", "--baseline", "both", "--ranks", "1")

    assert code == 0
    assert "ranks 2" not in out


def test_an_interrupted_gate_has_no_verdict(bench, promoted, monkeypatch):
    monkeypatch.setattr("bench.cli.session.run_sweep", lambda *_: sweep.Result(interrupted=True))

    code, out, err = bench("gate", "mine.toml")

    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "ncf-bench: interrupted"
