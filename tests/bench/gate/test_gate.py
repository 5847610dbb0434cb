from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import golden
import pytest
from sample_gate import CELL
from sample_records import make_attempt, make_run, make_suite
from sample_values import arm

from bench.gate import report as gate_report
from bench.gate.compare import Terms
from bench.gate.gate import (
    BROKEN,
    FAIL,
    LOST,
    OK,
    OPEN,
    PASS,
    Outcome,
    Policy,
    find_warnings,
    judge,
    play,
)
from bench.gate.samples import side
from bench.stats.decision import EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE, REGRESSED
from bench.suite.model import cells

TWO = cells(make_suite(axes={"ranks": (1, 2), "precision": ("fp32",)}))
SPEED = Terms(("throughput",))


def runs(cell, rates, *, first=1, **run):
    return [
        make_attempt(
            cell, seed, make_run(seed=seed, rate=rate, ranks=cell.ranks, **run), minute=seed
        )
        for seed, rate in enumerate(rates, start=first)
    ]


def speeds(n, factor=1.0, sd=0.01, seed=1):
    return arm(n, 100_000 * factor, 100_000 * sd, seed)


def base(n=10):
    return side("base", [*runs(TWO[0], speeds(n)), *runs(TWO[1], speeds(n))])


def outcome(*factors, n=10, failed=()):
    attempts = [
        attempt
        for cell, factor in zip(TWO, factors, strict=False)
        for attempt in runs(cell, speeds(n, factor, seed=2))
    ]
    return judge(base(), [*attempts, *failed], SPEED)


@pytest.mark.parametrize(
    ("factors", "policy", "code"),
    [
        ((1.0, 1.0), Policy(), OK),
        ((1.3, 1.0), Policy(), OK),
        ((0.8, 1.0), Policy(), LOST),
        ((0.8,), Policy(), LOST),
        ((1.0,), Policy(), OPEN),
        ((1.0,), Policy(not_comparable=PASS), OK),
        ((1.0,), Policy(not_comparable=FAIL), LOST),
        ((0.975, 1.0), Policy(), OPEN),
        ((0.975, 1.0), Policy(inconclusive=PASS), OK),
        ((0.975, 1.0), Policy(inconclusive=FAIL), LOST),
        ((0.975,), Policy(inconclusive=PASS), OPEN),
    ],
)
def test_the_exit_code_is_the_worst_verdict_and_the_policy(factors, policy, code):
    assert outcome(*factors).exit_code(policy) == code


def test_runs_that_failed_are_no_pass():
    failures = [make_attempt(TWO[1], seed, minute=seed) for seed in range(1, 11)]

    broken = outcome(1.0, failed=failures)

    assert broken.broken == (TWO[1].key,)
    assert broken.exit_code(Policy(PASS, PASS)) == BROKEN
    assert outcome(0.8, failed=failures).exit_code(Policy()) == LOST
    one = [make_attempt(TWO[1], 11, minute=20)]
    assert outcome(1.0, 1.0, failed=one).exit_code(Policy()) == OK, "ten others are good"
    assert any("crash" in text for text in find_warnings(base(), outcome(1.0, 1.0, failed=one)))


def test_a_repetition_that_a_later_attempt_made_good_did_not_fail():
    first = [replace(make_attempt(TWO[0], 1, minute=0), attempt=1)]

    assert judge(base(), [*first, *runs(TWO[0], speeds(10))], SPEED).failed == ()


class Runs:
    """Makes runs of given factors; notes what it was asked for."""

    def __init__(self, *factors, sd=0.01):
        self.pools = {
            cell.key: runs(cell, speeds(16, factor, sd, seed=2))
            for cell, factor in zip(TWO, factors, strict=True)
        }
        self.asked, self.made = [], dict.fromkeys(self.pools, 0)

    def __call__(self, size, keys):
        self.asked.append((size, keys))
        for key in self.pools:
            if keys is None or key in keys:
                self.made[key] = size
        return [run for key, pool in self.pools.items() for run in pool[: self.made[key]]]


def test_a_sequential_gate_stops_when_all_is_decided():
    make = Runs(1.0, 0.8)

    found = play(base(16), SPEED, (6, 10, 16), make)

    assert make.asked == [(6, None)]
    assert [line.verdict for line in found.lines] == [EQUIVALENT, REGRESSED]
    assert found.sizes == (6,)


def test_a_sequential_gate_makes_more_runs_of_undecided_cells_only():
    make = Runs(1.0, 0.965, sd=0.012)

    found = play(base(16), SPEED, (6, 10, 16), make)

    assert make.asked[0] == (6, None)
    assert all(keys == {TWO[1].key} for _, keys in make.asked[1:])
    assert make.made[TWO[0].key] == 6
    assert make.made[TWO[1].key] > 6
    assert found.lines[0].answer.n == (16, 6)


def test_what_was_decided_early_stays_decided():
    make = Runs(0.8, 0.97)
    after_first = make.pools[TWO[0].key]

    found = play(base(16), SPEED, (6, 16), make)

    assert len(after_first) == 16
    assert found.lines[0].verdict == REGRESSED
    assert found.lines[0].answer.n == (16, 6)
    assert found.sizes == (6, 16)


def test_a_cell_that_cannot_be_compared_asks_for_no_more_runs():
    make = Runs(1.0, 1.0)
    other = replace(base(16), cells={TWO[0].key: base(16).cells[TWO[0].key]})

    found = play(other, SPEED, (6, 16), make)

    assert [line.verdict for line in found.lines] == [EQUIVALENT, NOT_COMPARABLE]
    assert make.asked == [(6, None)]


def all_verdicts() -> Outcome:
    four = cells(make_suite(axes={"ranks": (1, 2, 4, 8), "precision": ("fp32",)}))
    baseline = side("base", [run for cell in four[:3] for run in runs(cell, speeds(10))])
    tested = [
        run
        for cell, factor in zip(four, (1.0, 0.8, 0.975, 1.0), strict=True)
        for run in runs(cell, speeds(10, factor, seed=2))
    ]
    return judge(baseline, tested, SPEED)


def test_the_summary_for_people():
    found = all_verdicts()

    golden.check(
        "gate.md",
        gate_report.markdown("Gate sample", found.lines, ["Exit code 1."], ["Something odd."]),
    )


def test_the_summary_for_programs():
    data = json.loads(gate_report.as_json(all_verdicts().lines, {"exit_code": 1}))

    assert data["exit_code"] == 1
    by_verdict = {line["verdict"]: line for line in data["lines"]}
    assert set(by_verdict) == {EQUIVALENT, REGRESSED, INCONCLUSIVE, NOT_COMPARABLE}
    assert by_verdict[REGRESSED]["change"] == pytest.approx(0.8, abs=1e-3)
    assert by_verdict[REGRESSED]["n_needed"] is None
    assert by_verdict[INCONCLUSIVE]["n_needed"] > 10
    assert by_verdict[NOT_COMPARABLE]["change"] is None
    assert by_verdict[NOT_COMPARABLE]["differing"] == ["no such cell in the baseline"]


@pytest.mark.parametrize(
    ("failing", "failures", "skipped"),
    [((REGRESSED,), 1, 2), ((REGRESSED, INCONCLUSIVE), 2, 1)],
)
def test_junit_has_a_case_per_line(failing, failures, skipped):
    text = gate_report.junit("sample", all_verdicts().lines, failing, ["ranks=9-<x>"])

    root = ET.fromstring(text)

    (suite,) = root
    assert suite.attrib == {
        "name": "bench gate sample",
        "tests": "5",
        "failures": str(failures),
        "errors": "1",
        "skipped": str(skipped),
    }
    cases = suite.findall("testcase")
    assert sum(case.find("failure") is not None for case in cases) == failures
    assert sum(case.find("skipped") is not None for case in cases) == skipped
    failure = suite.find("testcase/failure")
    assert failure.get("type") == REGRESSED
    assert "-20.0 %" in failure.get("message")


def test_github_annotations_are_escaped():
    lines = gate_report.github_annotations("a,b:c", all_verdicts().lines, ["50 %\nof them"])

    assert [line.partition(" ")[0] for line in lines] == [
        "::error",
        "::warning",
        "::warning",
        "::warning",
    ]
    assert lines[0].startswith("::error title=bench gate a%2Cb%3Ac::ranks 2, precision fp32,")
    assert "-20.0 %25" in lines[0]
    assert lines[-1].endswith("::50 %25%0Aof them")


def told(baseline, attempts, terms=None):
    terms = terms or Terms(("throughput", "best_hr"))
    return find_warnings(baseline, judge(baseline, attempts, terms))


def usual(**run):
    return runs(CELL, speeds(10, seed=2), **run)


def test_nothing_odd_says_nothing():
    assert told(side("base", usual()), usual()) == []


def test_an_accuracy_far_above_the_baseline_is_suspicious():
    baseline = side("base", usual(hit_rates=(0.3, 0.66)))

    (warning,) = told(baseline, usual(hit_rates=(0.3, 0.75)))

    assert "suspiciously high" in warning
    assert told(baseline, usual(hit_rates=(0.3, 0.55))) == []


def test_a_convergence_far_faster_than_the_baseline_is_suspicious():
    slow = side("base", usual(hit_rates=(0.3, 0.4, 0.5, 0.6, 0.66)))

    (warning,) = told(slow, usual(hit_rates=(0.3, 0.66, 0.6, 0.6, 0.6)))

    assert "suspiciously fast: 2 epochs to the best HR, 5 in the baseline" in warning
    fast = side("base", usual(hit_rates=(0.66, 0.6)))
    assert told(fast, usual(hit_rates=(0.3, 0.66))) == []


def test_runs_that_were_set_aside_flagged_or_missed_their_target_are_named():
    rates = [*speeds(9), 60_000.0]
    attempts = [replace(run, flags=("busy_host",)) for run in runs(CELL, rates)]
    assert set(told(side("base", usual()), attempts)) == {
        "ranks 1, precision fp32: 1 run here set aside in throughput, far from the others",
        "ranks 1, precision fp32: 10 runs here are flagged busy_host",
    }
    reached = usual(target=0.6, hit_rates=(0.3, 0.66))
    missed = [*reached[:9], *runs(CELL, [100_000.0], first=10, target=0.6, hit_rates=(0.3, 0.5))]
    assert "ranks 1, precision fp32: 1 of 10 runs here have no time_to_target" in told(
        side("base", reached), missed, SPEED
    )


def test_speeds_that_drift_are_named():
    steady = side("base", usual())
    drifting = runs(CELL, [100_000 + 1000 * step for step in range(10)])

    (warning,) = told(steady, drifting, Terms(("best_hr",)))

    assert "neighbouring runs are alike" in warning
