"""The alpha-beta model on numbers worked out by hand, and against the published rows."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

from bench.__main__ import main
from bench.published import figures as published
from bench.published.scaling_model import (
    ML_20M,
    Fit,
    Machine,
    NoFitError,
    Sizes,
    adam_seconds,
    fit,
    held_bytes,
    reduce_seconds,
    reduced_bytes,
    step,
)
from bench.published.scaling_tables import CASES, given, known, layout, strong, weak
from bench.render.formats import tables_text
from bench.render.model import Tabled

FIGURES = published.read(ROOT / "results" / "published" / "ncf_published.csv")
A100 = "DGX A100 8x A100 40GB"
TINY = Sizes(users=100, items=10, gmf=2, mlp=3, layers=(6, 4, 2))
"""5 parameters a user or item; MLP (6 + 1) 4 + (4 + 1) 2 = 38; output 2 + 2 + 1 = 5."""
PLAIN = Machine(memory_bytes_s=1e6, launch_s=0.01, hop_s=0.0, network_hop_s=0.0)


def test_the_tables_of_a_small_model_are_counted_by_hand():
    assert (TINY.user_parameters, TINY.shared_parameters) == (500, 50 + 38 + 5)
    assert reduced_bytes(TINY, "replicated") == 4 * 593
    assert reduced_bytes(TINY, "user-sharded") == 4 * 93


def test_on_movielens_20m_five_sixths_of_the_gradients_belong_to_users():
    assert round(reduced_bytes(ML_20M, "replicated") / 1e6) == 127  # as measured, design section 8
    assert round(reduced_bytes(ML_20M, "user-sharded") / 1e6) == 21
    assert reduced_bytes(ML_20M, "user-sharded") <= reduced_bytes(ML_20M, "replicated") / 5


def test_adam_moves_28_bytes_per_parameter():
    assert adam_seconds(TINY, PLAIN, 4, "replicated") == pytest.approx(593 * 28 / 1e6)
    assert adam_seconds(TINY, PLAIN, 4, "user-sharded") == pytest.approx((125 + 93) * 28 / 1e6)


def test_ring_all_reduce_bytes_by_number_of_gpus():
    assert reduce_seconds(1000, 1, PLAIN, 100.0) == 0.0
    assert reduce_seconds(1000, 2, PLAIN, 100.0) == pytest.approx(10.0)
    assert reduce_seconds(1000, 4, PLAIN, 100.0) == pytest.approx(15.0)


def test_every_hop_costs_its_latency_and_hosts_are_joined_by_a_tree():
    slow = Machine(1e6, 0.0, hop_s=1.0, gpus_per_host=4, network_bytes_s=50.0, network_hop_s=10.0)
    assert reduce_seconds(0, 3, slow, 100.0) == pytest.approx(2 * 2 * 1.0)
    assert reduce_seconds(0, 16, slow, 100.0) == pytest.approx(2 * 3 * 1.0 + 2 * 2 * 10.0)
    # beyond one host the slower of ring and network decides
    assert reduce_seconds(1000, 8, slow, 100.0) == pytest.approx(6.0 + 20.0 + 1.75 * 1000 / 50)


def test_the_fit_finds_the_numbers_that_made_the_throughputs():
    truth = Fit(sample_s=1e-3, ring_bytes_s=50_000.0)
    rates = {n: 1000 / step(truth, PLAIN, TINY, n, 1000, "replicated").seconds for n in (1, 4, 8)}
    found = fit(rates, 4, 1000, TINY, PLAIN)
    assert found.sample_s == pytest.approx(1e-3)
    assert found.ring_bytes_s == pytest.approx(50_000.0)
    again = step(found, PLAIN, TINY, 8, 1000, "replicated")
    assert 1000 / again.seconds == pytest.approx(rates[8])
    # 1000 samples a step on 8 GPUs: 0.125 s, 593 * 28 / 1e6 s, 0.01 s, 1.75 * 2372 / 50,000 s
    assert again.seconds == pytest.approx(0.125 + 0.016604 + 0.01 + 0.08302)


def test_a_scaling_better_than_ideal_cannot_be_fitted():
    with pytest.raises(NoFitError):
        fit({1: 100.0, 4: 500.0}, 4, 1000, TINY, PLAIN)


def test_user_sharded_sends_less_and_pays_for_uneven_users():
    made = Fit(1e-3, 50_000.0)
    replicated = step(made, PLAIN, TINY, 8, 1000, "replicated")
    sharded = step(made, PLAIN, TINY, 8, 1000, "user-sharded")
    assert sharded.reduce == pytest.approx(replicated.reduce * 93 / 593)
    assert sharded.adam < replicated.adam
    assert sharded.compute == pytest.approx(1.01 * replicated.compute)
    assert step(made, PLAIN, TINY, 1, 1000, "user-sharded").compute == pytest.approx(1.0)


def test_model_is_within_10_percent_of_rows_not_fitted():
    series = known(FIGURES)
    errors = {
        (one.source, one.system, one.precision, n): one.error(n)
        for one in series
        for n in one.checks
    }
    assert len(errors) == 10
    assert max(abs(error) for error in errors.values()) < 0.1
    a100 = errors["nvidia-dle-ncf-tf1-2020-06", A100, "tf32", 8]
    assert a100 == pytest.approx(0.0016, abs=5e-4)  # by hand: 90.02 M against 89.88 M


def test_the_fitted_rows_come_out_as_published():
    for one in known(FIGURES):
        for ranks in (1, one.few):
            assert one.rate(ranks) == pytest.approx(one.rates[ranks])


def test_a_gpu_of_which_nothing_is_published_is_not_guessed_at():
    assert given(FIGURES, "DGX H100 8x H100 80GB", "fp32") is None
    assert given((), A100, "tf32") is None


def test_memory_is_four_floats_a_parameter_and_falls_with_the_ranks():
    assert held_bytes(TINY, 1) == 16 * 593
    assert held_bytes(TINY, 5) == 16 * (100 + 93)
    assert held_bytes(TINY, 5, items_sharded=True) == pytest.approx(16 * 593 / 5)


def markdown(table) -> str:
    text = tables_text([Tabled("x", "x", table)], "markdown")
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def test_the_document_shows_what_the_program_prints():
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    a100 = [one for one in known(FIGURES) if one.system == A100 and one.precision == "tf32"]
    for table in (strong(a100[0]), weak(a100[0]), layout(CASES)):
        assert markdown(table) in text
    errors = re.findall(r"[+-]\d+\.\d %", text)
    for one in known(FIGURES):
        for n in one.checks:
            assert f"{100 * one.error(n):+.1f} %" in errors


def test_the_command_prints_fits_and_predictions_and_draws_them(tmp_path, capsys):
    assert main(["scaling", "--plots", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "+0.2 %" in out
    assert "Weak scaling" in out
    assert sorted(p.name for p in (tmp_path / "scaling").iterdir()) == ["model.png", "model.svg"]


def test_an_unknown_system_is_one_line_with_the_known_ones(capsys):
    assert main(["scaling", "--system", "DGX A100 8x A100 80GB"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "did you mean 'DGX A100 8x A100 40GB'?" in err
