"""Decides when a job of several ranks has stalled. Pure: pulses and a clock in, a verdict out.

Every rank shows a pulse every few seconds. A time limit on a step or a collective cannot tell a
stalled rank from a slow one (a compilation, a large checkpoint), so none is used. What counts is:

- *silent*: a rank whose pulse has stopped. Its process is frozen or lost, or its host is cut off.
- *stalled*: all ranks show a pulse, and for the whole patience none of them has computed or waited
  for a core or a disk. Then nothing will ever move. To blame are those that do not wait inside
  TensorFlow or Horovod, which is where the others wait for them.

A rank that works, however slowly, keeps the whole job alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self


class _Message:
    """A dataclass that ranks exchange as JSON."""

    def to_text(self) -> str:
        """As JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The reverse of `to_text`."""
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True)
class Pulse(_Message):
    """The state of a rank, as it reports it.

    Attributes:
        number: counts up; a number that does not change means a process that does not run.
        idle_s: seconds since the rank last computed or waited for a core or a disk.
        waits: its main thread is inside TensorFlow or Horovod.
        where: the place of its main thread, for people.
        done: it has left the job in order.
        joins: it is looking for the other ranks, which takes until the last one has come.
    """

    number: int
    idle_s: float = 0.0
    waits: bool = False
    where: str = ""
    done: bool = False
    joins: bool = False


@dataclass(frozen=True)
class Verdict(_Message):
    """The job has to end. `ranks` are to blame; `text` says it in one line."""

    kind: Literal["silent", "stalled", "cut"]
    ranks: tuple[int, ...]
    text: str


def cut_off(seconds: float) -> Verdict:
    """The launcher has not answered for so long."""
    return Verdict("cut", (), f"the launcher has not answered for {seconds:.0f} s")


class Keeper:
    """Listens to the pulses of some ranks.

    Args:
        ranks: those to listen to.
        patience_s: how long a rank may be silent, and all of them idle.
        start_s: how long after `now` the first pulse of a rank may take.
        now: seconds of any monotonic clock.
    """

    def __init__(self, ranks: Iterable[int], patience_s: float, start_s: float, now: float) -> None:
        self._patience_s = patience_s
        self._last: dict[int, Pulse | None] = dict.fromkeys(ranks)
        self._deadline = dict.fromkeys(self._last, now + start_s)

    def hear(self, rank: int, pulse: Pulse, now: float) -> None:
        """Take note of a pulse; one that was heard before changes nothing."""
        last = self._last[rank]
        if last is None or last.number != pulse.number or pulse.done:
            self._last[rank] = pulse
            self._deadline[rank] = now + self._patience_s

    def forgive(self, now: float) -> None:
        """Begin anew: the listener itself stood still for a while (a frozen container)."""
        self._deadline = dict.fromkeys(self._last, now + self._patience_s)

    def others(self, rank: int) -> tuple[int, ...]:
        """The other ranks that have not left yet."""
        return tuple(
            r for r, pulse in self._last.items() if r != rank and not (pulse and pulse.done)
        )

    @property
    def finished(self) -> bool:
        """Every rank has left in order."""
        return all(pulse is not None and pulse.done for pulse in self._last.values())

    def silent(self, now: float) -> Verdict | None:
        """The ranks that have shown nothing for too long."""
        missing = tuple(
            rank
            for rank, pulse in self._last.items()
            if now > self._deadline[rank] and not (pulse and pulse.done)
        )
        if not missing:
            return None
        last = self._last[missing[0]]
        seen = f"; it was in {last.where}" if last and last.where else ""
        verb = "gives" if len(missing) == 1 else "give"
        text = f"{_ranks(missing)} {verb} no sign of life{seen}"
        return Verdict("silent", missing, text)

    def stalled(self) -> Verdict | None:
        """Nobody has done anything for too long. While all join, Gloo's own limit applies."""
        pulses = {rank: p for rank, p in self._last.items() if p is not None and not p.done}
        if not pulses or any(pulse is None for pulse in self._last.values()):
            return None
        if min(p.idle_s for p in pulses.values()) < self._patience_s:
            return None
        if all(pulse.joins for pulse in pulses.values()):
            return None
        to_blame = tuple(rank for rank, p in pulses.items() if not p.waits) or tuple(pulses)
        first = pulses[to_blame[0]]
        text = f"{_ranks(to_blame)} stalled: nothing done for {first.idle_s:.0f} s in {first.where}"
        return Verdict("stalled", to_blame, text)


def _ranks(ranks: tuple[int, ...]) -> str:
    """`rank 1`, or `ranks 1, 2 and 5 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:4]))
    return f"ranks {shown}" + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")
