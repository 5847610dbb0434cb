"""docs/architecture.md names modules that exist, and its picture shows every room."""

from __future__ import annotations

import re

import draw_rooms
import pytest
from paths import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "rooms.svg").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:bench|ncf|tests|tools)/[\w/]+\.py)", TEXT)))
ROOMS = [
    (package, name)
    for package in ("bench", "ncf")
    for name in sorted(
        {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        | {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}
    )
]


def walk(title: str) -> list[str]:
    """The modules in the table of a section, in their order."""
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/.]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize("path", PATHS)
def test_named_modules_exist(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("title", ["From a rating to a gradient", "From a record to a table cell"])
def test_a_walk_names_at_most_12_modules(title: str) -> None:
    assert 6 <= len(walk(title)) <= 12


@pytest.mark.parametrize(("package", "room"), ROOMS)
def test_every_room_is_drawn(package: str, room: str) -> None:
    boxes = re.findall(r'<rect class="(\w+)" [^>]*>\n<text class="room" [^>]*>(\w+)<', PICTURE)
    assert (package, room) in boxes


def test_the_picture_shows_the_layers() -> None:
    assert draw_rooms.draw() == PICTURE, "run: python tools/draw_rooms.py"
