"""Pieces on threads: results in order, errors of the work not lost, no work without end."""

from __future__ import annotations

import itertools
import threading

import pytest

from ncf.runtime.threads import in_order


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_pieces(threads: int) -> None:
    assert list(in_order(lambda n: n * n, range(50), threads)) == [n * n for n in range(50)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_a_piece_is_raised(threads: int) -> None:
    def work(n: int) -> int:
        if n == 4:
            raise ValueError("piece 4")
        return n

    with pytest.raises(ValueError, match="piece 4"):
        list(in_order(work, range(10), threads))


def test_few_results_wait_so_memory_stays_small() -> None:
    started = 0
    lock = threading.Lock()

    def work(n: int) -> int:
        nonlocal started
        with lock:
            started += 1
        return n

    results = in_order(work, itertools.count(), 3)
    assert list(itertools.islice(results, 5)) == [0, 1, 2, 3, 4]
    results.close()
    assert started <= 5 + 3 + 1


def test_threads_work_at_the_same_time() -> None:
    meet = threading.Barrier(2, timeout=20)
    assert len(list(in_order(lambda _: meet.wait(), range(2), 2))) == 2
