"""What a conversion tells while it works, and what it cost."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS_BETWEEN_LINES: Final = 2.0


@dataclass
class Stages:
    """Seconds of each stage so far; a line on stderr tells what a stage did when it ends."""

    now: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=dict)
    since: float = 0.0

    def __post_init__(self) -> None:
        self.since = self.now()

    def done(self, stage: str, what: str) -> None:
        """End a stage."""
        self.seconds[stage], self.since = self.now() - self.since, self.now()
        say(f"{what} ({self.seconds[stage]:.1f} s)")


def say(line: str) -> None:
    """Progress goes to stderr, so that stdout holds the result alone."""
    print(line, file=sys.stderr, flush=True)


class Told:
    """Says a line now and then."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._last = now, now()

    def say(self, line: str) -> None:
        """Say it, unless the last line is too fresh."""
        if self._now() - self._last > _SECONDS_BETWEEN_LINES:
            self._last = self._now()
            say(line)


def cost(stages: Stages) -> dict[str, Any]:
    """Seconds of the stages so far and peak memory, for the manifest."""
    from ncf.runtime import environment

    return {
        "seconds": {stage: round(value, 3) for stage, value in stages.seconds.items()},
        "peak_memory_bytes": environment.peak_memory_bytes(on_gpu=False),
    }
