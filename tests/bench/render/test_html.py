from __future__ import annotations

import re

import chromium
import pytest
from html_outline import OVERFLOWING, Outline
from paths import CSV
from sample_records import CPU_HOST, grid, make_attempt, make_suite

from bench.plots import catalog
from bench.records.store import Store
from bench.render import html
from bench.render.model import Estimate, Heading, Items, Quote, Table, Tabled, Text
from bench.report.build import write_report
from bench.suite.model import cells

SUITE = make_suite(
    title="Holes & <more>",
    axes={"ranks": (1, 2, 4), "precision": ("fp32", "amp")},
    published_systems=("DGX A100 8x A100 40GB",),
    margin_hr=0.006,
)


def write(folder, attempts):
    """Stores attempts, writes the report, and gives its HTML file."""
    store = Store(folder / "results" / SUITE.name)
    for attempt in attempts:
        store.write(attempt)
    written = write_report(SUITE, folder / "results", folder / "plots", CSV)
    return next(path for path in written if path.suffix == ".html")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The report of a sweep with a failed, a missing and an impossible cell."""
    found = [a for a in grid(SUITE) if a.cell.ranks < 4 and (a.cell.ranks, a.seed) != (2, 2)]
    amp = next(c for c in cells(SUITE) if (c.ranks, c.precision) == (2, "amp"))
    found.append(make_attempt(amp, 2, status="oom"))
    return write(tmp_path_factory.mktemp("report"), found)


@pytest.fixture(scope="module")
def text(path):
    return path.read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_every_link_leads_somewhere(path, text):
    outline = Outline(text)

    assert outline.stack == []
    assert len(outline.ids) == len(set(outline.ids))
    for link in outline.links:
        if link.startswith("#"):
            assert link[1:] in outline.ids, link
        else:
            assert (path.parent / link).exists(), link


def test_the_page_needs_nothing_else(text):
    outline = Outline(text)

    assert len(outline.sources) == 5, "curves, histogram, throughput, scaling, order"
    assert all(source.startswith("data:image/") for source in outline.sources)
    assert not re.search(r"(src|href)=.?https?:|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text


def test_every_number_is_linked_to_the_runs_behind_it(text):
    (table,) = re.findall(r'<table aria-label="Best HR@10, median.*?</table>', text)

    numbers = re.findall(r"<td[^>]*>(.*?)</td>", table)
    measured = [n for n in numbers if "n=" in n and "n/a" not in n]
    assert len(measured) == 4
    assert all(re.match(r'<a href="#runs-1-ranks=[12],precision=(fp32|amp)-', n) for n in measured)


def test_failed_and_missing_runs_are_listed(text):

    assert '<span class="failed">oom</span>' in text
    assert "rank 1 ended with oom" in text
    assert "n=2/3, 1 oom" in text
    assert "needs 4 GPUs, or 4 cores" in text
    assert "seed2-a1.json" in text


def test_machine_versions_and_date_are_there(text):

    assert "<strong>Machine</strong>: Example CPU 9000" in text
    assert "tensorflow 2.21.0" in text
    assert "runs of 2026-11-30" in text


def test_a_replaced_run_is_listed_and_said_to_be_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "draw", lambda *_: {})
    attempts = grid(SUITE)
    first = attempts[0]
    again = make_attempt(first.cell, first.seed, first.run, number=2)

    text = write(tmp_path, [*attempts, again]).read_text(encoding="utf-8")

    assert text.count(">a later attempt of this seed counts<") == 1


def test_runs_of_two_machines_are_listed_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "draw", lambda *_: {})
    ours = grid(SUITE)
    other = {**CPU_HOST, "cpu_model": "Other CPU"}
    theirs = [make_attempt(a.cell, a.seed, a.run, number=2, host=other) for a in ours]

    text = write(tmp_path, [*ours, *theirs]).read_text(encoding="utf-8")

    assert "condition 1" in text
    assert len(re.findall(r'<details id="runs-2-', text)) == 6


def test_texts_are_escaped_and_styled():
    table = Table(
        ("a<b", "words"), (("1", "x & <y>"), (Estimate(2.0, "{:.0f}".format), "z")), ("words",)
    )
    nodes = [
        Heading(1, "T <script>"),
        Text("**bold** and *it* of `a*b*<c>` in [x](y.md) 2 * 3 * 4"),
        Quote("q"),
        Items(("one",)),
        Tabled("t", "Title", table),
    ]

    text = html.page(nodes, [], {})

    assert "<title>T &lt;script&gt;</title>" in text
    assert "<strong>bold</strong> and <em>it</em> of <code>a*b*&lt;c&gt;</code>" in text
    assert '<a href="y.md">x</a> 2 * 3 * 4' in text
    assert "a&lt;b" in text
    assert "x &amp; &lt;y&gt;" in text


@pytest.fixture
def browser(tmp_path):
    if chromium.find() is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    one = chromium.Browser(tmp_path / "profile")
    yield one
    one.close()


COLUMN = """
(label, column) => [...document.querySelector(`table[aria-label^="${label}"]`).tBodies[0].rows]
  .map(row => row.children[column].textContent)
"""
CONTRAST = """
(selector => {
  const numbers = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
  const light = rgb => { const [r, g, b] = rgb.map(v => (v /= 255) <= 0.03928 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = light(numbers(getComputedStyle(document.body).backgroundColor));
  const ink = light(numbers(getComputedStyle(document.querySelector(selector)).color));
  return (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
})
"""


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_real_browser(path, browser):
    for dark in (False, True):
        for width in (360, 1200):
            browser.open(path, width=width, dark=dark)
            assert browser.run("innerWidth") == width
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run(f"{OVERFLOWING}({width})") == []
            for part in ("p", "td a", ".spread", ".caption", ".failed"):
                assert browser.run(f"{CONTRAST}({part!r})") >= 4.5, (part, dark)
    browser.open(path, width=1200)

    def column(label, number):
        return browser.run(f"({COLUMN})({label!r}, {number})")

    def click(label, number):
        browser.run(
            f"document.querySelectorAll(`table[aria-label^='{label}'] th button`)[{number}].click()"
        )

    before = [text.split(" ")[0].split("(")[0] for text in column("Training throughput", 2)]
    click("Training throughput", 2)
    up = column("Training throughput", 2)
    assert up[0].startswith("151,120")
    assert up[1].startswith("2")
    assert up[2].startswith("n/a")
    click("Training throughput", 2)
    down = column("Training throughput", 2)
    assert down[0] == up[1]
    assert down[1] == up[0]
    assert down[2].startswith("n/a"), "what is no number stays at the end"
    assert len(before) == 3
    heads = "table[aria-label^='Training throughput'] th"
    assert browser.run(f'document.querySelectorAll("{heads}")[2].ariaSort') == "descending"
    click("Convergence", 1)
    assert column("Convergence", 1)[:3] == ["AMP (bfloat16)"] * 3

    # The same from the keyboard alone.
    browser.run(f'document.querySelectorAll("{heads} button")[1].focus()')
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "FP32 (samples/s)"
    browser.press("Enter")
    assert column("Training throughput", 2) == up
    browser.press("Space")
    assert column("Training throughput", 2) == down
    assert browser.run("document.querySelector('.wide').tabIndex") == 0

    # A number opens the runs behind it.
    browser.run("document.querySelector('td a').click()")
    assert browser.run("document.querySelector('details[open] td').textContent") == "1"
    browser.open(path, width=360)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run(f"{OVERFLOWING}(360)") == []
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.problems == []


@pytest.mark.slow
@pytest.mark.browser
def test_the_browser_test_sees_faults(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        "<meta name=viewport content='width=device-width'><main>"
        "<p style='width:500px'>x</p></main><script>console.error('no'); boom()</script>"
        "<img src='http://localhost:9/x.png' hidden>"
    )

    with pytest.raises(AssertionError):
        browser.open(page, width=360)
    assert len(browser.run(f"{OVERFLOWING}(360)")) == 1
    assert any("no" in problem for problem in browser.problems)
    assert any("Uncaught" in problem for problem in browser.problems)
    assert any("localhost:9" in problem for problem in browser.problems)
