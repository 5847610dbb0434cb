"""Percentiles within the data and only where n allows; samples and seconds of the same calls."""

from __future__ import annotations

import pytest
from table_cells import markdown_rows

from ncf.cli.infer import latency_table
from ncf.evaluation.inference import dllogger_names, latency_summary, timed_calls
from ncf.record import Latencies, quantile, tail


def latencies(seconds, batch: int = 100) -> Latencies:
    return Latencies("pairs", batch, batch, 3, tuple(seconds))


class Clock:
    """Advances by a fixed time per call."""

    def __init__(self, seconds: float) -> None:
        self.now, self.step, self.calls = 0.0, seconds, 0

    def __call__(self) -> float:
        return self.now

    def work(self, _input) -> None:
        self.now += self.step
        self.calls += 1


def test_ten_latencies_have_a_p90_within_their_range_and_no_p95() -> None:
    found = latency_summary(latencies([i / 1000 for i in range(1, 11)]))
    assert 0.001 <= found["p90_seconds"] <= found["max_seconds"] == 0.010
    assert found["p90_seconds"] == pytest.approx(0.0091)
    assert (found["p95_seconds"], found["p99_seconds"], found["n"]) == (None, None, 10)


@pytest.mark.parametrize(("q", "fewest"), [(0.90, 10), (0.95, 20), (0.99, 100)])
def test_a_percentile_needs_enough_calls(q, fewest) -> None:
    assert tail([1.0] * (fewest - 1), q) is None
    assert tail([1.0] * fewest, q) == 1.0


def test_no_percentile_leaves_the_data_however_they_are_spread() -> None:
    values = [1e-9, 1e-9, 5e3, 5e3, 5e3]
    for q in (0.0, 0.3, 0.5, 0.99, 1.0):
        assert values[0] <= quantile(values, q) <= values[-1]


def test_samples_and_seconds_come_from_the_same_calls_the_warm_up_left_out() -> None:
    # 10 calls of 100 pairs, 1 s each, 3 of them warm-up: exactly 100 pairs/s.
    clock = Clock(1.0)
    seconds = timed_calls(clock.work, [None], clock, warmup=3, most=10, seconds=1e9)
    assert seconds == (1.0,) * 7
    assert latency_summary(latencies(seconds))["scores_per_second"] == 100.0


def test_a_warm_up_that_leaves_nothing_to_time_is_an_error() -> None:
    clock = Clock(1.0)
    for warmup in (10, 11):
        with pytest.raises(ValueError, match="leaves nothing"):
            timed_calls(clock.work, [None], clock, warmup=warmup, most=10, seconds=1.0)
    assert clock.calls == 0


def test_slow_calls_end_early_and_are_timed_three_times_at_least() -> None:
    clock = Clock(10.0)
    assert len(timed_calls(clock.work, [None], clock, warmup=1, most=200, seconds=5.0)) == 3
    clock = Clock(1.0)
    assert len(timed_calls(clock.work, [None], clock, warmup=1, most=200, seconds=5.0)) == 5
    clock = Clock(1.0)
    assert len(timed_calls(clock.work, [None], clock, warmup=1, most=3, seconds=5.0)) == 2


def test_inputs_are_taken_in_turn() -> None:
    seen: list[int] = []
    timed_calls(seen.append, [1, 2, 3], lambda: 0.0, warmup=2, most=7, seconds=1.0)
    assert seen == [1, 2, 3, 1, 2, 3, 1]


def test_the_table_shows_n_and_says_why_a_percentile_is_missing() -> None:
    text = latency_table([latencies([0.5] * 12), Latencies("ranking", 8, 800, 1, (0.25,) * 100)])
    rows = markdown_rows(text)
    assert rows[1] == [
        "pairs", "100", "200", "", "12", *["500.000"] * 3, "n/a", "n/a", "500.000"
    ]  # fmt: skip
    assert rows[2][:5] == ["ranking", "8", "3,200", "32.0", "100"]
    assert "n/a: too few calls for that percentile (needed: p95 20, p99 100)." in text


def test_the_log_has_the_names_of_nvidias_inference_scripts() -> None:
    names = dllogger_names(latencies([0.5] * 12))
    assert names == {
        "batch_100_mean_throughput": 200.0,
        "batch_100_mean_latency": 0.5,
        "batch_100_p90_latency": 0.5,
    }
