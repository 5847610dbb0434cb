"""Silent, stalled, or merely slow: what the pulses of the ranks mean."""

from __future__ import annotations

import pytest

from ncf.ranks.heartbeat import Keeper, Pulse, Verdict, cut_off


def keeper(size: int = 3) -> Keeper:
    return Keeper(range(size), patience_s=30.0, start_s=40.0, now=0.0)


def hear_all(listener: Keeper, now: float, number: int, *pulses: Pulse) -> None:
    for rank, pulse in enumerate(pulses):
        listener.hear(rank, Pulse(number, pulse.idle_s, pulse.waits, pulse.where), now)


BUSY, WAITING = Pulse(0, 0.0), Pulse(0, 35.0, waits=True, where="quick_execute (execute.py:53)")
STUCK = Pulse(0, 31.0, where="run (evaluate.py:7)")


def test_rank_without_heartbeat_is_silent_and_its_last_place_named() -> None:
    listener = keeper()
    hear_all(listener, 1.0, 1, BUSY, STUCK, BUSY)
    for now in range(2, 32):
        listener.hear(0, Pulse(now), now)
        listener.hear(1, Pulse(1, where="x"), now)  # the store still holds the old one
        listener.hear(2, Pulse(now), now)
    assert listener.silent(31.0) is None
    verdict = listener.silent(31.5)
    assert verdict == Verdict(
        "silent", (1,), "rank 1 gives no sign of life; it was in run (evaluate.py:7)"
    )


def test_a_rank_that_never_shows_a_pulse_has_a_little_longer() -> None:
    listener = keeper(2)
    for now in (10.0, 20.0, 30.0, 40.0):
        listener.hear(0, Pulse(int(now)), now)
        assert listener.silent(now) is None
    found = listener.silent(40.5)
    assert found is not None
    assert found.text == "rank 1 gives no sign of life"


def test_ranks_waiting_for_a_working_rank_are_healthy() -> None:
    listener = keeper()
    hear_all(listener, 1.0, 1, Pulse(0, 3000.0, waits=True), BUSY, Pulse(0, 3000.0, waits=True))
    assert listener.stalled() is None


def test_if_nobody_works_the_one_that_does_not_wait_is_to_blame() -> None:
    listener = keeper()
    hear_all(listener, 1.0, 1, WAITING, STUCK, WAITING)
    verdict = listener.stalled()
    assert verdict is not None
    assert (verdict.kind, verdict.ranks) == ("stalled", (1,))
    assert verdict.text == "rank 1 stalled: nothing done for 31 s in run (evaluate.py:7)"


def test_if_all_wait_for_one_another_all_are_to_blame() -> None:
    listener = keeper()
    hear_all(listener, 1.0, 1, WAITING, WAITING, WAITING)
    verdict = listener.stalled()
    assert verdict is not None
    assert verdict.ranks == (0, 1, 2)


def test_nothing_is_stalled_before_every_rank_was_heard() -> None:
    listener = keeper(2)
    listener.hear(0, WAITING, 1.0)
    assert listener.stalled() is None


def test_a_rank_that_left_in_order_is_neither_silent_nor_stalled() -> None:
    listener = keeper(2)
    listener.hear(0, Pulse(1), 1.0)
    listener.hear(1, Pulse(2, done=True), 1.0)
    listener.hear(0, Pulse(2), 100.0)
    assert listener.silent(100.0) is None
    assert listener.others(0) == ()
    assert not listener.finished
    listener.hear(0, Pulse(3, done=True), 101.0)
    assert listener.finished
    assert listener.stalled() is None


def test_a_listener_that_was_frozen_itself_blames_nobody_for_that_time() -> None:
    listener = keeper(2)
    hear_all(listener, 1.0, 1, BUSY, BUSY)
    listener.forgive(500.0)
    assert listener.silent(520.0) is None
    assert listener.silent(531.0) is not None


def test_many_silent_ranks_are_one_short_line() -> None:
    verdict = Keeper(range(9), 30.0, 40.0, 0.0).silent(41.0)
    assert verdict is not None
    assert verdict.text == "ranks 0, 1, 2, 3 and 5 more give no sign of life"


@pytest.mark.parametrize("verdict", [Verdict("stalled", (1, 2), "text"), cut_off(31.2)])
def test_verdicts_and_pulses_travel_as_text(verdict: Verdict) -> None:
    assert Verdict.from_text(verdict.to_text()) == verdict
    pulse = Pulse(3, 1.5, waits=True, where="f (é.py:1)")
    assert Pulse.from_text(pulse.to_text()) == pulse
