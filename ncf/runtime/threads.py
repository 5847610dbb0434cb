"""Pieces of work on a few threads, results in the order of the pieces.

NumPy lets go of the interpreter lock in sorts, searches and copies, so threads help without
processes and copies. The number of threads changes the time and never the result.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], threads: int
) -> Iterator[Result]:
    """Results of `work` in the order of the pieces; few more than `threads` are held at a time."""
    if threads <= 1:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error, or when the caller wants no more
            for future in waiting:
                future.cancel()
