"""What docs/data.md shows is read by the program that it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from paths import ROOT

from ncf.data import candidates, synthetic
from ncf.readers import table
from ncf.readers.sources import find_sources

TEXT = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
TABLES = [block for block in BLOCKS if "int64" not in block and not block.startswith("(")]


def test_the_examples_are_there() -> None:
    assert len(TABLES) == 4
    assert all(len(block.splitlines()) == 3 for block in BLOCKS)


@pytest.mark.parametrize("block", TABLES, ids=lambda block: block[:12])
def test_every_example_of_a_table_is_read_with_its_times(tmp_path: Path, block: str) -> None:
    (tmp_path / "example").write_text(block, encoding="utf-8")
    path = tmp_path / "example"
    example = table.choose(path, find_sources(path))
    read = example.read()
    assert len(read.users) == 3 - example.layout.has_header
    assert read.times is not None
    assert read.times.min() > 800_000_000


def test_the_presets_have_the_sizes_told() -> None:
    for name, shape in synthetic.PRESETS.items():
        row = f"| `{name}` | {shape.users:,} | {shape.items:,} | {shape.interactions:,} |"
        assert row in TEXT
    base = synthetic.PRESETS["20m"]
    assert f"{16 * base.users:,} users and {32 * base.items:,} items" in TEXT


def test_the_protocols_have_the_numbers_told() -> None:
    for name, number in candidates.PROTOCOLS.items():
        assert re.search(rf"^\| `{name}` \|.*\| {number} \|$", TEXT, re.MULTILINE)
