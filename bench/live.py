"""The live part of a terminal: a line per run in progress, and how far the sweep is."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.text import Text


class Live:
    """Lines by name, redrawn in place; the one named "" stands last. Gone when none is left."""

    def __init__(self, stream: TextIO) -> None:
        self._lines: dict[str, str] = {}
        self._screen = Screen(
            console=Console(file=stream),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._screen.start()

    def show(self, name: str, text: str) -> None:
        """Show a line, or another text in its place."""
        self._lines[name] = text
        self._draw()

    def drop(self, name: str) -> bool:
        """Take a line away. True if it was the last run's: the lines are gone then."""
        self._lines.pop(name, None)
        over = set(self._lines) <= {""}
        if over:
            self._screen.stop()
        else:
            self._draw()
        return over

    def say(self, text: str) -> None:
        """A lasting line above the live ones."""
        self._screen.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> None:
        lines = [
            Text(" ".join(f"{name}: {text}".split()), no_wrap=True, overflow="ellipsis")
            for name, text in list(self._lines.items())
            if name
        ]
        if self._lines.get(""):
            lines.append(Text(self._lines[""], no_wrap=True, overflow="ellipsis", style="bold"))
        self._screen.update(Group(*lines), refresh=True)
