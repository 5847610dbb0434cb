from __future__ import annotations

import pytest
from simulate_gate import LOOKS, LOSS, NOISES, simulate_sequential

from bench.errors import UserError
from bench.stats.decision import EQUIVALENT, REGRESSED, information, looks, spend


def test_the_looks_spend_the_level_and_no_more():
    spent = spend(0.01, LOOKS, baseline=16)

    assert sum(spent) == pytest.approx(0.01)
    assert all(part > 0 for part in spent)
    # Half the information of 16 against 16 would be 16 / 3 runs; a quarter of the level is then
    # spent (rho = 2): Kim and DeMets 1987.
    assert information(16 / 3, 16) / information(16, 16) == pytest.approx(0.5)
    assert spend(0.01, (16 / 3, 16), 16)[0] == pytest.approx(0.0025)


def test_one_look_spends_everything():
    assert spend(0.01, (10,), 10) == [0.01]


def test_looks_end_with_the_seeds_and_begin_where_a_verdict_is_possible():
    assert looks((6, 10), 16, "x") == LOOKS
    assert looks((6, 16), 16, "x") == (6, 16)
    assert looks((), 16, "x") == (16,)
    for given in ((3, 10), (10, 6), (6, 20)):
        with pytest.raises(UserError, match="looks must grow, from at least 6"):
            looks(given, 16, "suite: [gate] looks")


GATES = 2000


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("sd", [0.01, 0.02, 0.03, 0.08])
def test_looking_early_cries_wolf_no_more_often(noise, sd):
    verdicts, _ = simulate_sequential(noise, sd, 0.0, GATES)

    assert verdicts[REGRESSED] <= GATES * 0.01 + 3 * (GATES * 0.01) ** 0.5


def test_a_loss_of_five_percent_is_still_found_and_with_fewer_runs():
    for sd, share, most in ((0.01, 0.99, 6.5), (0.02, 0.95, 10.5)):
        verdicts, runs = simulate_sequential(NOISES[3], sd, LOSS, GATES)
        assert verdicts[REGRESSED] >= share * GATES - 3 * (0.05 * GATES) ** 0.5
        assert runs < most


def test_a_loss_of_the_margin_is_not_called_equivalent_more_often():
    verdicts, _ = simulate_sequential(NOISES[0], 0.02, 1 - 1 / 1.03, GATES)

    assert verdicts[EQUIVALENT] <= GATES * 0.05 + 3 * (GATES * 0.05) ** 0.5
