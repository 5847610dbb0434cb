"""Progress of a command on stderr, and what its stages cost."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS_BETWEEN_LINES: Final = 2.0


@dataclass
class Stages:
    """Seconds of each stage so far; a line on stderr reports each stage when it ends."""

    now: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=dict)
    since: float = 0.0
    last_line: float = 0.0

    def __post_init__(self) -> None:
        self.since = self.last_line = self.now()

    def progress(self, line: str) -> None:
        """Print a line of the current stage, at most one every 2 s."""
        if self.now() - self.last_line > _SECONDS_BETWEEN_LINES:
            self.last_line = self.now()
            say(line)

    def done(self, stage: str, result: str) -> None:
        """End a stage and print its result."""
        self.seconds[stage], self.since = self.now() - self.since, self.now()
        self.last_line = self.since
        say(f"{result} ({self.seconds[stage]:.1f} s)")

    def cost(self) -> dict[str, Any]:
        """Seconds of the stages so far and peak memory, for the manifest."""
        from ncf.runtime import environment

        return {
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()},
            "peak_memory_bytes": environment.peak_memory_bytes(on_gpu=False),
        }


def say(line: str) -> None:
    """Print a line of progress on stderr, so that stdout has the result alone."""
    print(line, file=sys.stderr, flush=True)
