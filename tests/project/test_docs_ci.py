"""What docs/ci.md and the workflow tell people to type is what the program takes."""

from __future__ import annotations

import re
import shlex

import pytest
import simulate_gate
from paths import ROOT
from sample_suite import parse_suite as parse

from bench import suites
from bench.analysis import metrics
from bench.cli import parse as command_line
from bench.stats.summary import ALPHA_GATE
from bench.suite.trainer_options import trainer_options

DOCS = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8")
COMMAND = re.compile(r"(?:ncf-bench|run_benchmarks\.sh|-m bench)\s+(.*)")


ROW = re.compile(
    r"^\| (independent|drift|outliers|drift, outliers) \| (\d)% \| (\d+) "
    r"\| ([\d.]+)% \| \d+% \| ([\d.]+)% \| [\d.]+% \|$",
    re.MULTILINE,
)
"""Noise, SD, runs a side, false alarms, losses found."""


def commands(text):
    return [found for line in text.splitlines() if (found := COMMAND.search(line))]


SHOWN = [
    match[1].partition("#")[0].rstrip(" &\\`")
    for block in (*re.findall(r"```sh\n(.*?)```", DOCS, re.DOTALL), WORKFLOW)
    for match in commands(block)
]


@pytest.mark.parametrize("command", SHOWN)
def test_every_command_that_is_shown_is_one(command):
    words = shlex.split(command.replace("$", "").replace("{", "").replace("}", ""))

    command, parsed = command_line(words)

    assert command.name in ("plan", "run", "status", *words)
    assert parsed.results


def test_commands_are_found():
    assert len(SHOWN) > 12


@pytest.mark.parametrize("name", ["docs", "smoke-gate", "short"])
def test_the_suites_of_a_gate_can_reach_a_verdict(name):
    text = {
        "docs": re.search(r"```toml\n(.*?)```", DOCS, re.DOTALL)[1],
        "smoke-gate": (ROOT / ".github" / "suites" / "smoke-gate.toml").read_text("utf-8"),
        "short": suites.read("short")[2],
    }[name]

    suite = parse(text, "nightly", "nightly.toml", trainer_options())

    assert len(suite.seeds) >= 10
    assert suite.gate_looks[0] >= 6
    assert set(suite.gate_metrics) <= set(metrics.NAMES)


def test_every_metric_is_in_the_documents():
    assert all(f"| `{name}`" in DOCS for name in metrics.NAMES)


def test_the_table_of_errors_is_the_simulations():
    """The table in the documents, recounted with fewer gates: within five standard errors."""
    lines = ROW.findall(DOCS)
    assert len(lines) == len(simulate_gate.NOISES) * len(simulate_gate.SETTINGS)
    for _, sd, n, false, found in lines:
        assert float(false) <= 1.0
        if (sd, n) in (("2", "10"), ("3", "16")):
            assert float(found) >= 95.0
    noises = {noise.name: noise for noise in simulate_gate.NOISES}
    for name, sd, n, false, found in lines[::5]:
        for loss, told in ((0.0, false), (simulate_gate.LOSS, found)):
            counted = simulate_gate.simulate(noises[name], int(sd) / 100, int(n), loss, 500, seed=9)
            share = float(told) / 100
            error = max(share * (1 - share), 0.002) ** 0.5 / 500**0.5
            assert counted["REGRESSED"] / 500 == pytest.approx(share, abs=5 * error)


def test_the_level_in_the_documents_is_the_rules():
    assert f"at most {ALPHA_GATE:.1%}".replace("%", " %") in " ".join(DOCS.split())


def test_the_workflow_keeps_the_wheel_of_horovod_and_the_picture_is_there():
    assert "uses: actions/cache@" in WORKFLOW
    for name in ("constraints.txt", "scripts/build_horovod.py", "scripts/horovod_recipe.py"):
        assert f"'{name}'" in WORKFLOW
        assert (ROOT / name).is_file()
    assert "NCF_BENCH_CACHE" in WORKFLOW
    assert (ROOT / "docs" / "gate-power.svg").is_file()
