from __future__ import annotations

from dataclasses import replace

import pytest
from sample_gate import CELL
from sample_records import A100_HOST, ML_20M, ML_100K, make_attempt, make_run, make_suite
from sample_values import arm
from table_cells import shown_rows

from bench.analysis import metrics
from bench.errors import UserError
from bench.gate import report as gate_report
from bench.gate.compare import Terms, compare
from bench.gate.samples import side
from bench.stats.decision import EQUIVALENT, IMPROVED, INCONCLUSIVE, NOT_COMPARABLE, REGRESSED
from bench.suite.model import cells
from ncf.record import Latencies


def of(label="here", *, n=10, rate=100_000.0, hr=0.66, host=None, seed=1, cell=CELL, **run):
    """Runs whose speed spreads by 1 %."""
    spreads = arm(n, 1.0, 0.01, seed)
    attempts = []
    for index, spread in enumerate(spreads, start=1):
        made = make_run(seed=index, rate=rate * spread, hit_rates=(0.3, hr), **run)
        attempts.append(make_attempt(cell, index, made, host=host, minute=index))
    return side(label, attempts)


def only(baseline, tested, **terms):
    (line,) = compare(baseline, tested, Terms(**{"metrics": ("throughput",), **terms}))
    return line


@pytest.mark.parametrize(
    ("rate", "throughput", "time"),
    [
        (100_000.0, EQUIVALENT, EQUIVALENT),
        (80_000.0, REGRESSED, REGRESSED),
        (125_000.0, IMPROVED, IMPROVED),
    ],
)
def test_speed_is_better_when_higher_and_time_when_lower(rate, throughput, time):
    lines = compare(of(), of(rate=rate, seed=2), Terms(("throughput", "time_to_target")))

    assert {line.metric.name: line.verdict for line in lines} == {
        "throughput": throughput,
        "time_to_target": time,
    }
    ratio = lines[0].unscaled(lines[0].answer.difference)
    assert ratio == pytest.approx(rate / 100_000, rel=1e-3)


def test_every_metric_has_a_direction_and_an_unknown_one_is_an_error():
    assert all(one.better in ("higher", "lower") and one.unit for one in metrics.GATED)
    assert set(metrics.DEFAULT) <= set(metrics.NAMES)
    with pytest.raises(UserError, match="unknown metric 'speed'"):
        metrics.gated("speed")
    with pytest.raises(UserError, match="did you mean 'throughput'"):
        metrics.gated("through_put")


def test_memory_energy_latency_and_epochs_are_compared_in_their_direction():
    def attempts(factor):
        call = Latencies("pairs", 1024, 1024, 3, tuple(0.001 * factor for _ in range(20)))
        return [
            replace(
                make_attempt(
                    CELL,
                    seed,
                    replace(
                        make_run(seed=seed),
                        peak_memory_bytes_per_rank=(int(2**30 * factor * spread),),
                        inference=(replace(call, seconds=tuple(s * spread for s in call.seconds)),),
                    ),
                ),
                telemetry={"gpus": [{"energy_joules": 500.0 * factor * spread}]},
            )
            for seed, spread in enumerate(arm(8, 1.0, 0.005, 1), start=1)
        ]

    names = ("peak_memory", "energy", "inference_latency")
    base = side("base", attempts(1.0))
    verdicts = {
        factor: {line.verdict for line in compare(base, side("b", attempts(factor)), Terms(names))}
        for factor in (1.0, 1.2, 0.8)
    }

    assert verdicts == {1.0: {EQUIVALENT}, 1.2: {REGRESSED}, 0.8: {IMPROVED}}


def test_a_missed_target_has_no_time_to_target():
    reached = make_attempt(CELL, 1, make_run(hit_rates=(0.3, 0.66), target=0.6))
    missed = make_attempt(CELL, 1, make_run(hit_rates=(0.3, 0.5), target=0.6))

    assert side("a", [reached]).cells[CELL.key].values("time_to_target")
    assert side("a", [missed]).cells[CELL.key].values("time_to_target") == []


def test_accuracy_has_the_margin_of_its_data():
    small, large = of(hr=0.66), of(hr=0.66, data=ML_20M)

    assert only(small, small, metrics=("best_hr",)).margin == 0.006
    assert only(large, large, metrics=("best_hr",)).margin == 0.0005
    assert only(small, small, metrics=("best_hr",), margins={"best_hr": 0.1}).margin == 0.1


def differing(line):
    assert line.verdict == NOT_COMPARABLE
    assert line.answer.difference is None, "no number where nothing may be compared"
    return gate_report.keys(line)


def test_trap_39_another_gpu_and_number_of_them_are_named():
    eight = {**A100_HOST, "gpus": [{"name": "GPU A", "memory_bytes": 2**35}] * 8}
    one = {**A100_HOST, "gpus": [{"name": "GPU B", "memory_bytes": 2**35}]}
    wide, narrow = (
        cells(make_suite(axes={"ranks": (ranks,), "precision": ("fp32",)}))[0] for ranks in (8, 1)
    )

    line = only(
        of(host=eight, cell=wide, ranks=8), of(host=one, cell=narrow, ranks=1), metrics=("best_hr",)
    )

    assert set(differing(line)) == {"hardware.gpus", "hardware.gpu_count", "cell.ranks"}
    text = gate_report.markdown("Gate", [line], [])
    assert "hardware.gpu_count: 8 in the baseline, 1 here" in text
    assert "8x GPU A" in text
    assert "1x GPU B" in text


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"data": replace(ML_100K, hash="other")}, {"data.hash"}),
        ({"data": replace(ML_100K, protocol="unique")}, {"protocol.protocol"}),
        ({"data": replace(ML_100K, candidates_per_user=999)}, {"protocol.candidates_per_user"}),
        ({"precision": "amp"}, {"cell.precision"}),
        ({"batch": 4096}, {"cell.batch_size"}),
        ({"host": {**A100_HOST, "driver": "999"}}, {"hardware.driver"}),
        ({"host": {**A100_HOST, "machine_id": "another"}}, {"hardware.machine_id"}),
    ],
)
def test_what_differs_is_named(changes, keys):
    line = only(of(host=A100_HOST), of(**{"host": A100_HOST, **changes}))

    assert set(differing(line)) == keys


def test_a_slice_of_a_card_is_no_whole_card():
    whole = {**A100_HOST, "gpus": [{"name": "A100", "memory_bytes": 2**35}]}
    part = {**A100_HOST, "gpus": [{"name": "A100", "memory_bytes": 2**35, "card": "GPU-1"}]}

    assert differing(only(of(host=whole), of(host=part))) == ("hardware.mig_slices",)


def versions(changes):
    found = of()
    ((key, cell),) = found.cells.items()
    facts = {**cell.facts, **{p: {**cell.facts[p], **v} for p, v in changes.items()}}
    return replace(found, cells={key: replace(cell, facts=facts)})


def test_gate_compares_other_code_and_other_software_on_request():
    assert only(of(), versions({"code": {"code": "abc", "ncf": "9"}})).verdict == EQUIVALENT
    newer = versions({"software": {"tensorflow": "2.22.0"}})
    assert differing(only(of(), newer)) == ("software.tensorflow",)
    assert only(of(), newer, across=("software",)).verdict == EQUIVALENT
    assert only(of(), newer, left_out=("software.tensorflow",)).verdict == EQUIVALENT


def test_a_cell_without_a_partner_is_never_a_pass():
    two = cells(make_suite(axes={"ranks": (1, 2), "precision": ("fp32",)}))
    both = side("both", [
        make_attempt(cell, seed, make_run(seed=seed, ranks=cell.ranks))
        for cell in two for seed in range(1, 8)
    ])  # fmt: skip
    one = replace(both, cells={two[0].key: both.cells[two[0].key]})

    fewer, more = (compare(a, b, Terms(("throughput",))) for a, b in ((both, one), (one, both)))

    assert [line.verdict for line in fewer] == [EQUIVALENT, NOT_COMPARABLE]
    assert fewer[1].obstacles == ("no run of this cell here",)
    assert more[1].obstacles == ("no such cell in the baseline",)


def test_few_runs_say_how_many_are_needed():
    line = only(of(n=10), of(n=3))

    assert line.verdict == INCONCLUSIVE
    assert gate_report.told(line) == "INCONCLUSIVE (needs 6 runs a side, 3 more)"


def test_trap_37_one_run_has_no_interval_in_any_form():
    line = only(single(), single())

    assert str(gate_report.change(line)) == "+0.0 %"
    found = gate_report.plain(line)
    assert (found["low"], found["high"], found["p"]) == (None, None, None)
    assert found["n_baseline"] == 1
    assert "p" in gate_report.table([line]).headers
    assert shown_rows(gate_report.table([line]))[0][6] == "n/a"


def single():
    return side("one", [make_attempt(CELL, 1, make_run(rate=100.0))])


def test_trap_45_nothing_is_rounded_before_it_is_divided():
    slow, slower = of(rate=0.0041), of(rate=0.004, seed=1)

    line = only(slow, slower)

    assert line.unscaled(line.answer.difference) == pytest.approx(0.004 / 0.0041, rel=1e-12)
    assert str(gate_report.change(line)).startswith("-2.4 %")
    still = make_run()
    still = replace(still, epochs=tuple(replace(e, timed_seconds=0.0) for e in still.epochs))
    nothing = side("still", [make_attempt(CELL, 1, still)])
    assert nothing.cells[CELL.key].values("throughput") == [], "no speed, not 0"
    line = only(slow, nothing)
    assert line.verdict == INCONCLUSIVE
    assert "n/a (no values)" in shown_rows(gate_report.table([line]))[0]
