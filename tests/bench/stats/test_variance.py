from __future__ import annotations

import math

import pytest
from sample_values import arm
from simulate_gate import MARGIN, STRONG, simulate_calibrated

from bench.analysis import metrics
from bench.stats.decision import REGRESSED, runs_to_find
from bench.stats.variance import measure

SPEED = metrics.gated("throughput")


def test_within_and_between_rounds_are_told_apart():
    rounds = [arm(10, centre, 0.02, seed) for seed, centre in enumerate((0.0, 0.05, -0.05), 1)]

    noise = measure(rounds, robust=True)

    assert noise.sd == pytest.approx(0.02)
    # variance of the three means, less what their runs explain: 0.0025 - 0.0004 / 10
    assert noise.between == pytest.approx(0.0025 - 0.00004)
    assert (noise.rounds, noise.runs) == (3, 30)


def test_rounds_that_agree_have_nothing_between_them():
    assert measure([arm(10, 0.0, 0.02, seed) for seed in (1, 2, 3, 4)], robust=True).between == 0.0


def test_a_slow_run_is_no_noise_but_a_bad_accuracy_is():
    rounds = [arm(10, 0.0, 0.01, 1), arm(10, 0.0, 0.01, 2), [*arm(9, 0.0, 0.01, 3), -0.4]]

    assert measure(rounds, robust=True).runs == 29
    assert measure(rounds, robust=True).sd == pytest.approx(0.01, rel=0.05)
    assert measure(rounds, robust=False).runs == 30


def test_two_rounds_or_single_runs_measure_nothing():
    assert measure([[1.0, 2.0], [1.0, 2.0]], robust=True) is None
    assert measure([[1.0], [1.0], [1.0], [1.0]], robust=True) is None


def test_without_drift_more_runs_help_and_with_drift_they_do_not():
    quiet = measure([arm(10, 0.0, 0.02, seed) for seed in (1, 2, 3, 4)], robust=True)
    centres = (0.0, 0.04, -0.04, 0.02)
    drifting = measure([arm(10, c, 0.02, s) for s, c in enumerate(centres, 1)], robust=True)

    assert quiet.margin(40) == pytest.approx(quiet.margin(10) / 2, rel=0.01)
    assert drifting.margin(40) > 0.9 * drifting.margin(10)
    loss = -math.log1p(-0.05)
    assert quiet.runs_to_find(loss, MARGIN) == runs_to_find(0.02, loss, MARGIN)
    assert drifting.runs_to_find(loss, MARGIN) is None


GATES = 1500


def alarms(rounds):
    """Share of gates of equal sides that say REGRESSED; rounds = 0 is not calibrated."""
    return simulate_calibrated(STRONG, 0.03, 10, 0.0, rounds, GATES)[REGRESSED] / GATES


def test_strong_drift_makes_false_alarms_that_calibration_ends():
    error = (0.01 * 0.99 / GATES) ** 0.5

    assert alarms(0) > 0.01 + 3 * error
    assert alarms(6) <= 0.01 + 3 * error
