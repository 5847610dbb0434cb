from __future__ import annotations

import math

import numpy as np
import pytest
import simulate_gate
from sample_values import arm
from simulate_gate import LOSS, MARGIN, NOISES, Noise, simulate

from bench.stats import summary
from bench.stats.decision import (
    ALPHA_GATE,
    EQUIVALENT,
    IMPROVED,
    INCONCLUSIVE,
    MIN_RUNS,
    REGRESSED,
    Question,
    chance,
    decide,
    holm,
    runs_to_find,
)

UP, DOWN = math.log(1.1), math.log(0.9)


def ask(shift, better="higher", *, n=10, sd=0.01, **changes):
    return Question(arm(n, 0.0, sd, 1), arm(n, shift, sd, 2), better, MARGIN, **changes)


def verdict(question):
    return decide([question])[0].verdict


@pytest.mark.parametrize(
    ("shift", "better", "expected"),
    [
        (UP, "higher", IMPROVED),
        (UP, "lower", REGRESSED),
        (DOWN, "higher", REGRESSED),
        (DOWN, "lower", IMPROVED),
        (0.0, "higher", EQUIVALENT),
        (0.0, "lower", EQUIVALENT),
    ],
)
def test_every_direction_of_change_in_either_sense_of_better(shift, better, expected):
    assert verdict(ask(shift, better)) == expected


def test_a_significant_loss_within_the_margin_is_no_regression():
    (answer,) = decide([ask(-0.02, n=30, sd=0.005)])

    assert answer.p < 1e-9
    assert answer.verdict == EQUIVALENT, "identical code has been found 'significantly' slower"


def test_a_loss_beyond_the_margin_that_chance_explains_is_no_regression():
    (answer,) = decide([ask(-0.05, n=8, sd=0.06)])

    assert answer.difference < -MARGIN
    assert answer.p > ALPHA_GATE
    assert answer.verdict == INCONCLUSIVE
    assert answer.needed > 8


def test_wide_interval_decides_only_where_all_of_it_is_beyond_margin():
    assert verdict(ask(-0.12, sd=0.08)) == INCONCLUSIVE
    assert verdict(ask(-0.40, sd=0.08)) == REGRESSED
    assert verdict(ask(0.40, sd=0.08)) == IMPROVED


def test_it_says_how_many_runs_an_open_verdict_needs():
    (answer,) = decide([ask(0.0, sd=0.08)])

    assert answer.verdict == INCONCLUSIVE
    assert answer.needed == pytest.approx(159, abs=2)
    assert verdict(ask(0.0, sd=0.08, n=answer.needed)) == EQUIVALENT


@pytest.mark.parametrize("shift", [0.0, DOWN, UP, math.log(0.5)])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_few_runs_are_inconclusive_whatever_they_say(shift, n):
    (answer,) = decide([ask(shift, n=n, sd=1e-4)])

    assert answer.verdict == INCONCLUSIVE
    assert answer.needed >= MIN_RUNS
    assert answer.reason == "no verdict below 6 runs a side"


def test_trap_37_one_run_has_no_interval_and_no_p_value():
    one = Question([100.0], [90.0], "higher", MARGIN)

    (answer,) = decide([one])

    assert (answer.verdict, answer.low, answer.high, answer.p) == (INCONCLUSIVE, None, None, None)
    assert answer.difference == -10.0
    assert decide([Question([], [1.0] * 9, "higher", MARGIN)])[0].reason == "no run"


def test_holm_multiplies_the_smallest_p_by_all_and_the_next_by_one_less():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.001]) == pytest.approx([1.0, 1.0, 0.003])
    assert holm([]) == []


def test_what_one_question_shows_may_be_chance_among_twenty():
    close = ask(-0.031, n=8, sd=0.0175)

    assert verdict(close) == REGRESSED
    assert decide([close, *[ask(0.0)] * 19])[0].verdict == INCONCLUSIVE


def test_accuracy_needs_not_to_be_worse_and_no_more():
    values = {"n": 20, "sd": 0.01}
    assert verdict(ask(0.025, **values)) == INCONCLUSIVE
    assert verdict(ask(0.025, **values, one_sided=True)) == EQUIVALENT
    assert verdict(ask(-0.025, **values, one_sided=True)) == INCONCLUSIVE
    assert verdict(ask(-0.05, **values, one_sided=True)) == REGRESSED


def test_a_loss_below_the_calibrated_noise_is_no_alarm():
    question = ask(-0.05)

    assert verdict(question) == REGRESSED
    assert verdict(ask(-0.05, alarm=0.06)) == INCONCLUSIVE
    assert verdict(ask(-0.05, between=0.03**2)) == INCONCLUSIVE


def test_a_small_loss_of_accuracy_is_found_ninety_nine_times_in_a_hundred():
    rng, found = np.random.default_rng(1), 0
    for _ in range(500):
        a, b = rng.normal(0.959, 4e-4, 20), rng.normal(0.957, 4e-4, 20)
        question = Question(a, b, "higher", 5e-4, one_sided=True, robust=False)
        found += verdict(question) == REGRESSED
    assert found >= 0.99 * 500


@pytest.mark.parametrize(("sd", "n"), [(0.01, 10), (0.02, 10), (0.03, 16), (0.08, 16)])
def test_the_formula_of_the_chance_agrees_with_counting(sd, n):
    counted = simulate(NOISES[0], sd, n, LOSS, gates=1000)[REGRESSED] / 1000

    assert counted == pytest.approx(chance(n, sd, -math.log1p(-LOSS), MARGIN), abs=0.04)


def test_the_runs_that_find_a_loss_are_told():
    loss = -math.log1p(-LOSS)
    for sd in (0.01, 0.02, 0.03, 0.08):
        n = runs_to_find(sd, loss, MARGIN)
        assert chance(n, sd, loss, MARGIN) >= 0.95
        assert n == MIN_RUNS or chance(n - 1, sd, loss, MARGIN) < 0.95
    assert runs_to_find(0.02, loss, MARGIN, between=0.05**2) is None
    assert runs_to_find(0.02, MARGIN, MARGIN) is None
    assert runs_to_find(0.0, loss, MARGIN) == MIN_RUNS


GATES = 2000


def allowed(share: float) -> float:
    """A share of gates, and three standard errors of counting it."""
    return share + 3 * math.sqrt(share * (1 - share) / GATES)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize(("sd", "n"), simulate_gate.SETTINGS)
def test_no_loss_is_called_a_loss_in_one_gate_of_a_hundred_at_most(noise, sd, n):
    found = simulate(noise, sd, n, 0.0, GATES)

    assert found[REGRESSED] <= allowed(0.01) * GATES


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize(("sd", "n"), [(0.01, 10), (0.02, 10), (0.03, 16)])
def test_a_loss_of_five_percent_is_found_in_nineteen_gates_of_twenty(noise, sd, n):
    found = simulate(noise, sd, n, LOSS, GATES)

    assert found[REGRESSED] >= (1 - allowed(0.05)) * GATES
    assert found[EQUIVALENT] == 0


@pytest.mark.parametrize("loss", [0.0, LOSS])
def test_with_much_noise_and_ten_runs_the_gate_does_not_decide(loss):
    found = simulate(NOISES[3], 0.08, 10, loss, GATES)

    assert found[INCONCLUSIVE] >= 0.95 * GATES


def test_several_cells_together_cry_wolf_no_more_often_than_one():
    found = simulate(NOISES[3], 0.03, 10, 0.0, GATES // 2, cells=4)

    assert found[REGRESSED] <= 0.01 * GATES / 2 + 3 * math.sqrt(0.01 * GATES / 2)


def test_the_same_seed_gives_the_same_counts():
    a, b = (simulate(NOISES[3], 0.02, 10, 0.0, 50) for _ in range(2))
    assert a == b
    drawn = Noise("drift", drift=1.0, memory=0.9).draw(np.random.default_rng(1), 2000, 16, 0.02)
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(0.9, abs=0.03)
    assert summary.TARGET_POWER == 0.95
