"""A picture as it would be saved, and what can be read on it; for tests."""

from __future__ import annotations

import itertools
from unittest import mock

from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.plots import catalog
from bench.plots.places import Subject
from bench.plots.style import render

WHERE = (
    "AMD EPYC 7742 64-Core Processor, 128 cores, 1.0 TiB memory, 8x NVIDIA A100-SXM4-40GB "
    "(40.0 GiB), driver 535.104.05. Runs of 2026-11-30 to 2026-12-01."
)


def figure_of(draw, *arguments):
    """The figure that a function draws, laid out as for a file."""
    figures = []

    def remember(*arguments):
        figures.append(draw(*arguments))
        return figures[0]

    with mock.patch.object(Figure, "savefig"):
        render(remember, *arguments)
    return figures[0]


def slice_pictures(block):
    """The pictures of a block with one value of every axis but ranks and precision, by kind."""
    subject = Subject(block, "Sample", WHERE)
    return {**catalog.draw("accuracy", subject), **catalog.draw("slice", subject)}


def whole_pictures(suite, block, figures=()):
    """The pictures of comparisons and of the whole block, by the names of their files."""
    return {
        f"{name}{suffix}": picture
        for scope, subject, _, suffix in catalog.subjects(suite, block, figures)
        if scope not in ("accuracy", "slice")
        for name, picture in catalog.draw(scope, subject).items()
    }


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
