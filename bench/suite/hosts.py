"""Host lists as the launchers take them: `a:8,b:8`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class HostList:
    """Hosts and how many ranks each may have, in the order in which they are filled."""

    slots: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """Ranks that all hosts may have together."""
        return sum(n for _, n in self.slots)

    @property
    def shape(self) -> str:
        """`8+8`: what a record may say, since names are nobody's business."""
        return "+".join(str(n) for _, n in self.slots)

    def most_on_one(self, ranks: int) -> int:
        """The most ranks that share a host when `ranks` fill the list from its beginning."""
        most = 0
        for _, slots in self.slots:
            here = min(slots, ranks)
            most, ranks = max(most, here), ranks - here
        return most

    def __str__(self) -> str:
        """As the launchers take it."""
        return ",".join(f"{name}:{n}" for name, n in self.slots)


def parse(text: str, where: str) -> HostList:
    """Read a host list.

    Args:
        text: `name:slots`, separated by commas.
        where: the option or the place in a file, for messages.

    Raises:
        UserError: a part is no `name:slots`, or a host is listed twice.
    """
    slots: list[tuple[str, int]] = []
    for part in text.split(","):
        name, colon, count = part.strip().partition(":")
        if not colon or not count.isdecimal() or int(count) < 1 or not _NAME.fullmatch(name):
            raise UserError(
                f"{where}: {part.strip()!r} is no host with its number of ranks; "
                "write hosts like a:8,b:8"
            )
        if name in dict(slots):
            raise UserError(f"{where}: {name} is listed twice; write {name}:{count} once")
        slots.append((name, int(count)))
    return HostList(tuple(slots))
