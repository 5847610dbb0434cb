"""What tests ask of an HTML page: is it closed where it must be, and does anything overflow?"""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br"}


class Outline(HTMLParser):
    """Ids, links, and whether every element is closed where it must be."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.ids, self.links, self.sources = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.sources += [values["src"]] if "src" in values else []
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, tag


OVERFLOWING = """
(width => [...document.querySelectorAll('main *')].filter(e => !e.closest('.wide > *')
  && !e.closest('details:not([open]) > :not(summary)')
  && e.getBoundingClientRect().right > width + 0.5).map(e => e.outerHTML.slice(0, 200)))
"""
