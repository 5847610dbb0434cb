"""Where a sweep's runs go: one after the other on the whole machine, or one on each free GPU."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.gpus import Gpu
    from bench.host import Host
    from bench.suite import Suite
    from bench.telemetry import Monitor

Item = TypeVar("Item")


@dataclass(frozen=True)
class Lane:
    """A place for one run at a time. `gpu` is its own; None is the whole machine."""

    slot: int = 0
    gpu: Gpu | None = None
    of: int = 1

    def cores(self, all_cores: int) -> int:
        """Cores that a run in this lane may use."""
        return max(1, all_cores // self.of)


WHOLE = Lane()


def lanes(suite: Suite, host: Host, monitor: Monitor | None) -> tuple[Lane, ...]:
    """One lane per free GPU where a suite measures accuracy; else the whole machine.

    A GPU on which another program is, or of which that cannot be told, is not free. Speed is
    never measured beside another run.
    """
    known = all(gpu.uuid for gpu in host.gpus)
    if suite.measures != "accuracy" or len(host.gpus) < 2 or not known or monitor is None:
        return (WHOLE,)
    cards = monitor.cards(host.gpus, len(host.gpus))
    free = [card.gpu for card in cards if monitor.foreign(card) == set()]
    if len(free) < 2:
        return (WHOLE,)
    return tuple(Lane(slot, gpu, len(free)) for slot, gpu in enumerate(free))


class Queue(Generic[Item]):
    """Items for several lanes, until there is a reason to stop."""

    def __init__(self, items: Sequence[Item], stopped: Callable[[], bool]) -> None:
        self._items, self._stopped = list(enumerate(items)), stopped
        self._lock = threading.Lock()

    def take(self) -> tuple[int, Item] | None:
        """The next item with its number, or None when there is none or no further one may begin."""
        with self._lock:
            if not self._items or self._stopped():
                return None
            return self._items.pop(0)

    def left(self) -> list[Item]:
        """What nobody has taken yet."""
        with self._lock:
            return [item for _, item in self._items]


def work_in(
    places: Sequence[Lane], one: Callable[[Lane], None], on_error: Callable[[], None]
) -> None:
    """Call `one` for every lane, at the same time if there are several.

    Args:
        places: the lanes.
        one: works until nothing is left to do.
        on_error: told at once when a lane fails, so that the others end too.

    Raises:
        BaseException: the first error of a lane, after all have ended.
    """
    if len(places) == 1:
        one(places[0])
        return

    def guarded(lane: Lane) -> None:
        try:
            one(lane)
        except BaseException:
            on_error()
            raise

    with ThreadPoolExecutor(len(places)) as pool:
        futures = [pool.submit(guarded, lane) for lane in places]
    for future in futures:
        future.result()
