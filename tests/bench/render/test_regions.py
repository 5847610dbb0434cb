from __future__ import annotations

import pytest

from bench.errors import UserError
from bench.render.regions import replace

PAGE = """\
# Mine \u00e9
<!-- ncf-bench:begin smoke accuracy -->
old
<!-- ncf-bench:end -->
between, with a tab at the end\t
  <!-- ncf-bench:begin dgx throughput -->
  <!-- ncf-bench:end -->
last line without a line end"""


def shown(region):
    return f"{region.suite}/{region.table}\nsecond line"


def test_only_the_regions_change_and_again_changes_nothing():
    once = replace(PAGE, "README.md", shown)

    assert once == PAGE.replace("old", "\nsmoke/accuracy\nsecond line\n").replace(
        "throughput -->\n", "throughput -->\n\ndgx/throughput\nsecond line\n\n"
    )
    assert replace(once, "README.md", shown) == once


def test_windows_line_ends_stay():
    text = PAGE.replace("\n", "\r\n")

    once = replace(text, "README.md", shown)

    assert once.replace("\r\n", "") == replace(PAGE, "", shown).replace("\n", "")
    assert once.count("\n") == once.count("\r\n")


def test_lines_are_counted_as_editors_do():
    with pytest.raises(UserError, match=r"^x:3: "):
        replace("a\u2028b\x0cc\n\n<!-- ncf-bench:end -->\n", "x", shown)


def test_a_region_can_be_left_alone():
    once = replace(PAGE, "README.md", lambda r: shown(r) if r.suite == "dgx" else None)

    assert once.startswith(PAGE.partition("  <!--")[0])
    assert "dgx/throughput" in once


def test_markers_in_a_code_block_are_examples():
    fenced = "```\n<!-- ncf-bench:begin a b -->\n```\n~~~~md\n<!-- ncf-bench:end -->\n```\n~~~~\n"

    once = replace(fenced + PAGE, "README.md", shown)

    assert once.startswith(fenced)
    assert "a/b" not in once


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("# x\n", "README.md: no region to update; write <!-- ncf-bench:begin smoke accuracy -->"),
        ("x\n<!-- ncf-bench:end -->\n", "README.md:2: ncf-bench:end without a begin before it"),
        ("x\n\n<!-- ncf-bench:begin a b -->\ny\n", "README.md:3: ncf-bench:begin without an end"),
        (
            "<!-- ncf-bench:begin a b -->\n<!-- ncf-bench:begin a b -->\n<!-- ncf-bench:end -->",
            "README.md:2: ncf-bench:begin inside the region that begins at line 1",
        ),
        ("<!-- ncf-bench:begin a -->\n", "README.md:1: a region names a suite and a table"),
        ("<!-- ncf-bench:begin a b c -->\n", "README.md:1: a region names a suite and a table"),
        ("<!-- ncf-bench:start a b -->\n", "README.md:1: a broken marker"),
        ("<!-- ncf-bench:begin a b\n", "README.md:1: a broken marker"),
        ("text <!-- ncf-bench:begin a b -->\n", "README.md:1: a broken marker"),
    ],
)
def test_broken_markers_are_named_with_their_line(broken, message):
    with pytest.raises(UserError) as caught:
        replace(broken, "README.md", shown)

    assert str(caught.value).startswith(message)
