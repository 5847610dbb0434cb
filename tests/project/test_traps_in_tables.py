"""What went wrong for others who printed such tables; one test a trap, by its number."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sample_records import A100_HOST, ML_20M, ML_100K, grid, make_attempt, make_run, make_suite
from table_cells import shown_rows, verdict_table

from bench.analysis.group import group
from bench.analysis.metrics import throughput
from bench.published.comparability import differences
from bench.render import units
from bench.render.formats import markdown_page, tables_text
from bench.render.model import Tabled
from bench.report import training as tables
from bench.report.document import page
from bench.stats import summary as stats
from bench.stats.summary import Missing
from bench.suite.model import cells
from ncf.record import Epoch

SUITE = make_suite(axes={"ranks": (1,), "precision": ("fp32", "amp")}, seeds=(1,), margin_hr=0.006)


def block_of(suite, attempts):
    return group(cells(suite), suite.seeds, attempts).blocks[0]


def report_of(suite, attempts):
    grouped = group(cells(suite), suite.seeds, attempts)
    return page(suite, grouped, (), (), {})


def test_trap_37_one_run_has_no_spread_no_significance_and_null_in_json():
    full, mixed = cells(SUITE)
    attempts = [
        make_attempt(full, 1, make_run(rate=100.0)),
        make_attempt(mixed, 1, make_run(rate=100.0, precision="amp")),
    ]
    block = block_of(SUITE, attempts)

    assert shown_rows(tables.throughput(block))[0][2] == "100 (spread n/a), n=1"
    verdict = verdict_table(block, 0.006)
    row = dict(zip(verdict.headers, shown_rows(verdict)[0], strict=True))
    assert row["Verdict"] == "INCONCLUSIVE (an arm with one run has no spread)"
    assert (row["KS p"], row["Mann-Whitney p"]) == ("n/a", "n/a")
    found = [node for node in report_of(SUITE, attempts) if isinstance(node, Tabled)]
    data = json.loads(tables_text(found, "json"))
    cell = next(t for t in data["tables"] if t["name"] == "throughput")["rows"][0][2]
    assert (cell["low"], cell["high"], cell["n"]) == (None, None, 1)
    assert cell["value"] == pytest.approx(100.0)


def test_trap_45_a_zero_baseline_a_zero_duration_and_a_small_ratio():
    assert stats.ratio(5.0, 0.0) == Missing("baseline is 0")
    assert units.show(stats.ratio(5.0, 0.0), units.ratio) == "n/a (baseline is 0)"
    assert units.show(stats.ratio(1.0, 250.0), units.ratio) == "0.0040", "not 0.00"
    assert stats.ratio(0.004, 0.0041) == pytest.approx(0.9756, abs=1e-4), "unrounded parts"
    one = make_run()
    still = replace(one, epochs=tuple(replace(e, timed_seconds=0.0) for e in one.epochs))
    assert throughput(still) == Missing("no timed steps")
    full, mixed = cells(SUITE)
    attempts = [
        make_attempt(full, 1, still),
        make_attempt(mixed, 1, make_run(precision="amp")),
    ]
    row = shown_rows(tables.throughput(block_of(SUITE, attempts)))[0]
    assert row[2] == "n/a (no timed steps)"
    number = row[2].item
    assert (number.value, number.n, number.unit) == (None, 0, "samples/s")
    assert row[4] == "n/a (baseline: no timed steps)"


def test_trap_47_percentiles_stay_within_the_data_and_need_enough_of_it():
    ten = [value / 1000 for value in range(1, 11)]

    assert stats.tail(ten, 0.90) == pytest.approx(0.0091)
    assert stats.tail(ten, 0.95) == Missing("p95 needs 20 values, n=10")
    assert stats.tail(ten, 0.99) == Missing("p99 needs 100 values, n=10")
    assert stats.tail(ten[:9], 0.90) == Missing("p90 needs 10 values, n=9")
    for n in (10, 20, 100, 101, 1000):
        values = [0.001 * (i % 7 + 1) for i in range(n)]
        for q, fewest in stats.FEWEST.items():
            found = stats.tail(values, q)
            assert isinstance(found, Missing) == (n < fewest)
            assert isinstance(found, Missing) or min(values) <= found <= max(values)
    assert units.show(stats.tail(ten, 0.99), units.milliseconds).startswith("n/a (p99 needs 100")


def test_trap_49_samples_and_seconds_come_from_the_same_steps():
    # 10 steps of 1 s and 100 samples, of which 3 warm up.
    epoch = Epoch(1, 10, 1000, 10.0, 700, 7.0, 0.4)

    assert throughput(replace(make_run(), epochs=(epoch,))) == 100.0
    assert throughput(replace(make_run(), epochs=(epoch, replace(epoch, epoch=2)))) == 100.0


def test_trap_55_protocols_have_their_own_tables_and_no_comparison():
    protocols = make_suite(
        axes={"ranks": (1,), "precision": ("fp32",), "protocol": ("nvidia", "mlperf")}, seeds=(1,)
    )
    attempts = []
    for cell in cells(protocols):
        kind = str(cell.axes["protocol"])
        n = 100 if kind == "nvidia" else 999
        data = replace(ML_100K, protocol=kind, candidates_per_user=n, candidates_hash=kind)
        attempts.append(make_attempt(cell, 1, make_run(data=data)))

    grouped = group(cells(protocols), protocols.seeds, attempts)
    text = markdown_page(report_of(protocols, attempts))

    assert len(grouped.blocks) == 2, "never in one table"
    assert "among 1 + 100 candidates (protocol `nvidia`)" in text
    assert "among 1 + 999 candidates (protocol `mlperf`)" in text
    dgx = make_suite(axes={"ranks": (8,), "precision": ("amp",)}, train={"epochs": 2})
    theirs = replace(ML_20M, protocol="mlperf", candidates_per_user=999)
    ours = [
        replace(a, host=A100_HOST) for a in grid(dgx, data=theirs, batch=1048576, dtype="float16")
    ]
    assert differences(block_of(dgx, ours), "DGX A100 8x A100 40GB") == [
        "another metric (HR@10, protocol mlperf, 999 candidates)"
    ]
