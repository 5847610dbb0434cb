from __future__ import annotations

import math
from dataclasses import replace

import pytest
from sample_records import as_attempt, make_run

from bench.analysis import metrics
from bench.stats.summary import Missing
from ncf.record import Epoch


def with_epochs(*epochs):
    return replace(make_run(), epochs=epochs)


def test_throughput_divides_samples_and_seconds_of_the_same_steps():
    # 10 steps of 100 samples and 1 s each, of which 3 are warm-up
    run = with_epochs(
        Epoch(
            1,
            steps=10,
            samples=1000,
            train_seconds=10.0,
            timed_samples=700,
            timed_seconds=7.0,
            loss=0.5,
        )
    )

    assert metrics.throughput(run) == 100.0


def test_throughput_weighs_epochs_by_their_steps_and_ignores_evaluation():
    run = with_epochs(
        Epoch(1, 2, 200, 9.0, 100, 1.0, 0.5, eval_seconds=50.0, hr_at_k=0.1),
        Epoch(2, 2, 200, 1.0, 200, 1.0, 0.4, eval_seconds=50.0, hr_at_k=0.2),
    )

    assert metrics.throughput(run) == 150.0


@pytest.mark.parametrize("seconds", [0.0, math.nan, math.inf])
def test_throughput_of_a_zero_or_unknown_duration_is_missing(seconds):
    run = with_epochs(Epoch(1, 1, 100, 1.0, 100, seconds, 0.5))

    assert metrics.throughput(run) == Missing("no timed steps")


def test_a_run_without_timed_steps_has_no_throughput():
    assert isinstance(metrics.throughput(with_epochs()), Missing)
    assert isinstance(metrics.throughput(with_epochs(Epoch(1, 1, 9, 1.0, 0, 0.0, 0.5))), Missing)


def test_best_epoch_is_the_first_of_equals():
    run = make_run(hit_rates=(0.5, 0.7, None, 0.7, 0.6))

    assert metrics.best_hr(run) == 0.7
    assert metrics.epochs_to_best(run) == 2.0


def test_time_to_best_counts_training_and_evaluation_up_to_that_epoch():
    run = with_epochs(
        Epoch(1, 1, 9, 10.0, 9, 8.0, 0.5),
        Epoch(2, 1, 9, 5.0, 9, 5.0, 0.4, eval_seconds=2.0, hr_at_k=0.6),
        Epoch(3, 1, 9, 5.0, 9, 5.0, 0.3, eval_seconds=2.0, hr_at_k=0.5),
    )

    assert metrics.time_to_best(run) == 17.0


def test_a_run_that_was_never_evaluated_says_so():
    run = make_run(hit_rates=(None, None))

    for measure in (metrics.BEST_HR, metrics.TIME_TO_BEST, metrics.EPOCHS_TO_BEST):
        assert measure.of(as_attempt(run)) == Missing("never evaluated")


def test_non_finite_rates_and_losses_are_not_numbers():
    run = make_run(hit_rates=(0.5, math.nan))

    assert metrics.best_hr(run) == 0.5
    assert isinstance(
        metrics.final_loss(with_epochs(Epoch(1, 1, 9, 1.0, 9, 1.0, math.nan))), Missing
    )
    assert isinstance(metrics.final_loss(with_epochs()), Missing)


def test_a_target_of_one_means_all_epochs_and_is_no_target():
    assert metrics.target(make_run(target=1.0)) is None
    assert metrics.target(make_run(target=None)) is None
    assert metrics.reached_target(make_run(target=1.0)) is None


def test_reaching_the_target_exactly_counts():
    assert metrics.reached_target(make_run(target=0.65, hit_rates=(0.5, 0.65))) is True
    assert metrics.reached_target(make_run(target=0.66, hit_rates=(0.5, 0.65))) is False
    assert metrics.reached_target(make_run(target=0.66, hit_rates=(None,))) is False


def test_every_measure_says_which_direction_is_better():
    assert metrics.THROUGHPUT.better == "higher"
    assert metrics.TIME_TO_BEST.better == "lower"
