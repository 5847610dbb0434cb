"""Every kind of table and picture in one report, in all forms and in a real browser."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import chromium
import pytest
from html_outline import OVERFLOWING, Outline
from paths import CSV
from sample_inference import infer_run
from sample_records import grid, make_attempt, make_suite
from sample_resources import probed, talking

from bench.__main__ import main
from bench.analysis.aggregate import DEFAULT
from bench.cli import report as report_commands
from bench.records.store import Store
from bench.render.formats import tables_text
from bench.report.build import tables, write_report
from bench.suite.model import Contrast, cells

SUITE = make_suite(
    title="Everything",
    axes={"ranks": (1, 2), "formulation": ("reference", "fast"), "precision": ("fp32", "amp")},
    seeds=(1, 2, 3, 4, 5, 6),
    compare=(Contrast({"formulation": "reference"}),),
    equivalence=(Contrast({"formulation": "reference"}),),
    margin_hr="sd",
)
NAMES = {"inference", "latency", "ranking", "comparison", "roofline", "communication", "verdict"}


def attempts():
    """Training runs that were probed, talked, and were timed at inference; one cell failed."""
    found = []
    for one in grid(SUITE):
        formulation = one.cell.axes["formulation"]
        run = probed(one.run, formulation)
        run = talking(run) if one.cell.ranks > 1 else run
        timed = infer_run(one.seed, one.cell.precision, formulation).inference
        found.append(replace(one, run=replace(run, inference=timed)))
    last = cells(SUITE)[-1]
    kept = [one for one in found if one.cell.key != last.key]
    return [*kept, make_attempt(last, 1, status="oom")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The folder with the records."""
    folder = tmp_path_factory.mktemp("everything")
    store = Store(folder / "results" / SUITE.name)
    for attempt in attempts():
        store.write(attempt)
    return folder


@pytest.fixture(scope="module")
def found(stored):
    """All tables of the report."""
    return tables(SUITE, stored / "results", CSV, DEFAULT)


def test_every_part_has_a_table(found):
    assert {one.name for one in found} >= NAMES
    assert [one.title for one in found if one.name == "verdict"] == [
        "Verdict on HR@10",
        "Verdict on HR@10, formulation",
    ]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_csv_has_unrounded_numbers_and_empty_fields(found, name):
    (first, *_) = [one for one in found if one.name == name]

    rows = list(csv.reader(io.StringIO(tables_text([first], "csv"))))

    assert rows[0][0].startswith("# ")
    assert len({len(row) for row in rows[1:]}) == 1
    assert not any("n/a" in field for row in rows[2:] for field in row if "[" in field)


def test_json_keeps_n_and_null(found):
    data = json.loads(tables_text([one for one in found if one.name == "latency"], "json"))

    (table,) = data["tables"]
    column = table["columns"].index("p99 (ms)")
    values = [row[column] for row in table["rows"]]
    assert {value["unit"] for value in values} == {"s"}
    assert any(value["value"] is None and "needs 100" in value["text"] for value in values)
    assert any(value["n"] == 6 and value["low"] < value["value"] for value in values)


def test_latex_escapes_percent_signs(found):
    text = tables_text([one for one in found if one.name == "roofline"], "latex")

    assert r"\%" in text
    assert not re.search(r"(?<!\\)%", text)


def test_regions_of_a_readme_take_the_new_tables(stored, monkeypatch, capsys):
    monkeypatch.chdir(stored)
    monkeypatch.setattr(report_commands, "load_suite", lambda *_: SUITE)
    path = stored / "README.md"
    path.write_text(
        "".join(
            f"<!-- ncf-bench:begin sample {name} -->\n<!-- ncf-bench:end -->\n"
            for name in sorted(NAMES)
        ),
        encoding="utf-8",
    )

    assert main(["report", "--update", "README.md"]) == 0

    capsys.readouterr()
    text = path.read_text(encoding="utf-8")
    assert text.count("*Verdict on HR@10") == 2
    assert "*Roofline (median of runs). Example CPU 9000" in text
    before = path.read_bytes()
    assert main(["report", "--update", "README.md"]) == 0
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def page(stored):
    """The report with its pictures, as HTML."""
    written = write_report(SUITE, stored / "results", stored / "plots", CSV)
    return next(path for path in written if path.suffix == ".html")


@pytest.mark.slow
def test_every_picture_is_in_the_page_and_every_link_leads_somewhere(page):
    outline = Outline(page.read_text(encoding="utf-8"))

    names = {path.stem for path in (page.parents[2] / "plots" / "sample").glob("*.png")}
    assert names >= {
        "inference-throughput",
        "inference-latency",
        "roofline",
        "equivalence-formulation",
        "comparison-formulation",
        "strong-scaling-formulation=fast",
    }
    assert outline.stack == []
    assert len(outline.sources) == len(names)
    for link in (link for link in outline.links if link.startswith("#")):
        assert link[1:] in outline.ids, link


@pytest.mark.slow
@pytest.mark.browser
def test_the_new_parts_in_a_real_browser(page, tmp_path):
    if chromium.find() is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    browser = chromium.Browser(tmp_path / "profile")
    try:
        for width, dark in ((360, True), (360, False), (1200, False)):
            browser.open(page, width=width, dark=dark)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run(f"{OVERFLOWING}({width})") == []
        heads = "table[aria-label^='Inference latency'] th button"
        column = (
            "[...document.querySelector(\"table[aria-label^='Inference latency']\")"
            ".tBodies[0].rows].map(row => row.children[9].dataset.value)"
        )
        browser.run(f'document.querySelectorAll("{heads}")[9].click()')
        up = browser.run(column)
        known = [float(value) for value in up if value]
        assert known == sorted(known)
        assert len(known) < len(up)
        assert not any(up[len(known) :]), "a percentile that cannot be told stays at the end"
        assert browser.problems == []
    finally:
        browser.close()
