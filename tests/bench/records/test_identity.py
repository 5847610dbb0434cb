from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest
from sample_records import A100_HOST, CPU_HOST, ML_100K, grid, make_attempt, make_run, make_suite

from bench.analysis import labels
from bench.analysis.group import group
from bench.gate.baseline import Baseline, Signed, from_text, to_text
from bench.gate.compare import Terms, compare
from bench.gate.report import keys
from bench.gate.samples import side
from bench.published import comparability
from bench.records import identity
from bench.records.identity import (
    Condition,
    Fingerprint,
    differences,
    facts,
    is_stale,
    summary,
)
from bench.render import units
from bench.stats.decision import EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE
from bench.suite.model import cells

SUITE = make_suite(axes={"ranks": (2,), "precision": ("fp32",)}, seeds=(1, 2))
CELL = cells(SUITE)[0]


def attempt(seed=1, **changes):
    run = make_run(seed=seed, ranks=2)
    versions = {**run.versions, "code": "0123456789ab"}
    return replace(make_attempt(CELL, seed, replace(run, versions=versions)), **changes)


def versions(found, **changed):
    return replace(found, run=replace(found.run, versions={**found.run.versions, **changed}))


def data(found, **changed):
    return replace(found, run=replace(found.run, dataset=replace(ML_100K, **changed)))


CHANGES = [
    ("hardware", lambda a: replace(a, host=A100_HOST)),
    ("hardware", lambda a: replace(a, host={**CPU_HOST, "machine_id": "another"})),
    ("software", lambda a: versions(a, tensorflow="2.15.1")),
    ("software", lambda a: versions(a, horovod="0.28.0")),
    ("code", lambda a: versions(a, code="ba9876543210")),
    ("data", lambda a: data(a, hash="another")),
    ("protocol", lambda a: data(a, protocol="unique")),
    ("protocol", lambda a: data(a, candidates_hash="another")),
    ("protocol", lambda a: replace(a, run=replace(a.run, topk=5))),
]


@pytest.mark.parametrize(("part", "change"), CHANGES)
def test_each_part_of_the_fingerprint_follows_its_own_facts(part, change):
    assert Fingerprint.of(attempt()).differs(Fingerprint.of(change(attempt()))) == (part,)


@pytest.mark.parametrize(("part", "change"), CHANGES)
def test_runs_of_different_fingerprints_are_never_pooled(part, change):
    blocks = group(cells(SUITE), SUITE.seeds, [attempt(1), change(attempt(2))]).blocks
    assert [len(block.runs) for block in blocks] == [1, 1]


def test_other_cell_has_another_fingerprint_and_is_not_pooled():
    other = replace(attempt(), cell=replace(CELL, key="ranks=2-00000000"))
    assert Fingerprint.of(attempt()).differs(Fingerprint.of(other)) == ("cell",)


def test_the_same_facts_give_the_same_fingerprint_whatever_the_seed():
    assert Fingerprint.of(attempt(1)) == Fingerprint.of(attempt(2))


def test_one_rank_joins_horovod_runs_but_versions_stay_apart():
    suite = make_suite()
    attempts = grid(suite)
    newer = [
        replace(versions(a, horovod="0.29.0"), finished_at="2027-01-01T00:00:00Z")
        for a in attempts
        if a.cell.ranks == 2 and a.seed == 1
    ]
    assert len(group(cells(suite), suite.seeds, attempts).blocks) == 1
    first, second = group(cells(suite), suite.seeds, attempts + newer).blocks
    assert dict(first.condition.versions)["horovod"] == "0.29.0"
    assert {run.versions["horovod"] for run in first.runs} == {"0.29.0", "not used"}
    assert {run.versions["horovod"] for run in second.runs} == {"0.28.1"}


def test_a_run_is_stale_when_something_that_both_know_has_changed():
    assert not is_stale({"python": "3.12.3", "code": "a"}, {"python": "3.12.3", "numpy": "2"})
    assert is_stale({"python": "3.12.3", "code": "a"}, {"code": "b"})
    assert not is_stale({"tensorflow": "2.17.0"}, {"tensorflow": "2.17.0+nv24.12"})
    assert not is_stale({"python": "3"}, {})


def test_the_summary_counts_good_runs_by_fingerprint():
    failed = make_attempt(CELL, 3, status="oom")
    lines = summary([attempt(1), attempt(2), versions(attempt(1), code="ba9876543210"), failed])
    assert len(lines) == 2
    assert "code 01234567" in lines[0]
    assert "2 good runs" in lines[0]
    assert "code ba987654" in lines[1]


def test_ranks_that_do_not_load_horovod_make_no_line_of_their_own():
    attempts = grid(make_suite())
    assert len(summary(attempts)) == 1
    two = [
        versions(a, horovod="0.29.0") if a.cell.ranks == 2 and a.seed == 1 else a for a in attempts
    ]
    assert len(summary(two)) == 3


def test_each_precision_may_have_seeds_of_its_own_in_the_tables():
    def seeds(cell):
        return (1, 2, 3) if cell.precision == "amp" else (1,)

    suite = make_suite()
    (block,) = group(cells(suite), seeds, grid(suite)).blocks
    planned = {t.cell.precision: t.planned for t in block.tallies}
    assert planned == {"fp32": (1,), "amp": (1, 2, 3)}


LABELS = {
    identity: ("gpus_text", "fact_text"),
    labels: ("plain", "precision_label", "machine_text", "axes_text", "counted", "cell_name"),
    units: ("size", "count", "compact"),
}


def test_no_decision_depends_on_the_words_of_a_label(monkeypatch):
    suite = make_suite(axes={"ranks": (1, 2), "precision": ("fp32", "amp")}, seeds=range(1, 8))
    attempts = [replace(a, host=A100_HOST) for a in grid(suite)]
    other = [replace(a, host=CPU_HOST, attempt=2) for a in attempts[:3]]

    def decisions():
        blocks = group(cells(suite), suite.seeds, attempts + other).blocks
        lines = compare(baseline.side, side("here", attempts), Terms())
        across = compare(baseline.side, side("here", other), Terms())
        return (
            [[len(pool.runs) for pool in block.pools] for block in blocks],
            [(line.key, line.verdict, line.answer.difference) for line in lines],
            [(line.key, line.verdict, keys(line)) for line in across],
            [is_stale(a.run.versions, attempts[0].run.versions) for a in attempts],
            [Fingerprint.of(a) for a in attempts],
            [len(comparability.differences(block, "DGX A100 (8x A100 40GB)")) for block in blocks],
        )

    saved = to_text(Baseline("b", "s", Signed("a", "b", "c"), side("b", attempts)))
    baseline = from_text(saved, "file")
    before = decisions()
    assert {verdict for _, verdict, _ in before[1]} == {EQUIVALENT, INCONCLUSIVE}
    assert NOT_COMPARABLE in {verdict for _, verdict, _ in before[2]}

    modules = [module for name, module in sys.modules.items() if name.startswith("bench.")]
    for home, names in LABELS.items():
        for name in names:
            function = getattr(home, name)
            for module in modules:
                if getattr(module, name, None) is function:
                    monkeypatch.setattr(module, name, lambda *_a, **_k: "other words")
    assert identity.gpus_text(None) == labels.plain(1) == "other words"

    baseline = from_text(saved, "file")
    assert decisions() == before
    assert to_text(replace(baseline, side=side("b", attempts))).replace(
        '"label": "other words"', ""
    ) == re.sub(r'"label": "[^"]*"', "", saved)


@pytest.mark.parametrize(("part", "change"), CHANGES)
def test_pooling_comparison_and_fingerprint_look_at_the_same_facts(part, change):
    old, new = attempt(), change(attempt())
    assert Condition.of(old) != Condition.of(new)
    differing = {item.part for item in differences(facts(old), facts(new))}
    assert differing == ({part} if part != "code" else set())
