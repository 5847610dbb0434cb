"""A picture as it would be saved, and what can be read on it; for tests."""

from __future__ import annotations

import itertools
from unittest import mock

from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.plots.style import render

WHERE = (
    "AMD EPYC 7742 64-Core Processor, 128 cores, 1.0 TiB memory, 8x NVIDIA A100-SXM4-40GB "
    "(40.0 GiB), driver 535.104.05. Runs of 2026-11-30 to 2026-12-01."
)


def figure_of(make):
    """The figure that a function draws, laid out as for a file."""
    figures = []

    def draw():
        figures.append(make())
        return figures[0]

    with mock.patch.object(Figure, "savefig"):
        render(draw)
    return figures[0]


def visible_texts(figure, monkeypatch):
    """Every text that is really drawn (spare ticks are not) with its place on the page."""
    found = {}
    original = Text.draw

    def spy(self, renderer):
        if self.get_visible() and self.get_text().strip():
            found[self] = self.get_window_extent(renderer)
        original(self, renderer)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", spy)
        figure.canvas.draw()
    return found


def assert_readable(figure, monkeypatch):
    """No text is cut off by the page, none lies on another."""
    boxes = visible_texts(figure, monkeypatch)

    page = figure.bbox
    assert len(boxes) > 5
    for text, box in boxes.items():
        assert page.x0 <= box.x0 < box.x1 <= page.x1, text
        assert page.y0 <= box.y0 < box.y1 <= page.y1, text
    for (text, box), (other, other_box) in itertools.combinations(boxes.items(), 2):
        assert not box.shrunk(0.98, 0.9).overlaps(other_box), (text, other)


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text)]
