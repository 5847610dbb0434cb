"""What ranks send each other, in the report's part on strong scaling."""

from __future__ import annotations

from dataclasses import replace

import golden
import pytest
from sample_records import grid, make_attempt, make_run, make_suite
from sample_resources import talking
from table_cells import shown_rows

from bench.analysis import metrics
from bench.analysis.aggregate import DEFAULT
from bench.analysis.group import group
from bench.render.formats import markdown_page
from bench.render.model import Tabled
from bench.report import resources
from bench.report.document import page
from bench.stats.summary import Missing
from bench.suite.model import cells

SUITE = make_suite(axes={"ranks": (1, 2), "precision": ("fp32", "amp")}, seeds=(1, 2, 3, 4, 5, 6))


def attempts_of(suite):
    return [
        replace(a, run=talking(a.run, (0.2 + a.seed / 100, 0.5))) if a.cell.ranks > 1 else a
        for a in grid(suite)
    ]


def block_of(suite, attempts):
    return group(cells(suite), suite.seeds, attempts).blocks[0]


def test_shares_are_those_of_each_rank_and_of_all():
    run = talking(make_run(ranks=2))

    assert metrics.waiting_shares(run) == [0.1, 0.25]
    assert metrics.waiting_share(run) == pytest.approx(0.7 / 4)
    assert metrics.step_seconds(run) == 0.1
    assert metrics.reduced_bytes(run) == 7_340_032


@pytest.mark.parametrize(
    ("waiting", "steps"), [((), ()), ((0.1,), (1.0, 1.0)), ((0.0, 0.0), (0.0, 0.0))]
)
def test_no_time_is_no_share(waiting, steps):
    run = talking(make_run(ranks=2), waiting, steps)

    assert metrics.waiting_shares(run) == []
    assert metrics.waiting_share(run) == Missing("no time measured")
    assert metrics.waiting_share(make_run()) == Missing("not recorded")


def test_the_table_stands_in_the_part_on_throughput():
    grouped = group(cells(SUITE), SUITE.seeds, attempts_of(SUITE))
    text = markdown_page(page(SUITE, grouped, (), (), {}, DEFAULT))

    part = text.partition("## Training throughput")[2].partition("\n\n## ")[0]
    golden.check("communication.md", f"## Training throughput{part}\n")


def test_one_rank_has_no_line_and_failures_stay_readable():
    kept = [a for a in attempts_of(SUITE) if (a.cell.ranks, a.cell.precision) != (2, "amp")]
    failed = make_attempt(cells(SUITE)[3], 1, status="crash")

    table = resources.communication(block_of(SUITE, [*kept, failed]))

    assert [row[0] for row in shown_rows(table)] == ["2", "2"]
    row = dict(zip(table.headers, shown_rows(table)[1], strict=True))
    assert row["All-reduced a step"] == "n/a (no good run)"
    assert row["Waiting"] == "n/a (n=0/6, 1 crash, 5 not run)"
    assert (row["Mode"], row["Waiting by rank"]) == ("n/a", "n/a")


def test_runs_that_did_not_tell_it_have_no_such_table():
    nodes = page(SUITE, group(cells(SUITE), SUITE.seeds, grid(SUITE)), (), (), {}, DEFAULT)

    assert not [n for n in nodes if isinstance(n, Tabled) and n.name == "communication"]
