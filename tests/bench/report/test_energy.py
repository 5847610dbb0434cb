from __future__ import annotations

from dataclasses import replace

import pytest
from paths import CSV
from pictures import WHERE, figure_of, slice_pictures, texts
from sample_records import grid, make_attempt, make_suite
from table_cells import shown_rows

from bench.analysis import metrics
from bench.analysis.aggregate import DEFAULT, Notation
from bench.analysis.grid import has_energy
from bench.analysis.group import group
from bench.plots.bars import samples_per_joule
from bench.plots.places import Subject
from bench.plots.run_order import run_order
from bench.records.attempt import attempt_of
from bench.records.store import Store
from bench.report import resources
from bench.report.build import tables
from bench.stats.summary import Missing
from bench.suite.model import cells

SUITE = make_suite(axes={"ranks": (1, 2), "precision": ("fp32", "amp")})


def telemetry(joules, ranks, **epochs):
    return {
        "gpus": [{"rank": rank, "energy_joules": joules} for rank in range(ranks)],
        "epoch_energy_joules": {name.removeprefix("e"): value for name, value in epochs.items()},
    }


def with_energy(attempts, joules=1000.0):
    """Every GPU of a run used so many joules; 8 epochs of 495,285 samples."""
    epochs = {f"e{number}": 100.0 * number for number in range(1, 9)}
    return [replace(a, telemetry=telemetry(joules, a.cell.ranks, **epochs)) for a in attempts]


def block_of(attempts):
    return group(cells(SUITE), SUITE.seeds, attempts).blocks[0]


def test_samples_per_joule_counts_all_gpus():
    one, *_ = with_energy(grid(SUITE))

    assert metrics.joules(one) == 1000.0
    assert metrics.samples_per_joule(one) == 8 * 495_285 / 1000
    assert metrics.joules(replace(one, telemetry=telemetry(500.0, 8))) == 4000.0


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"gpus": []},
        {"gpus": [{"energy_joules": 5.0}, {"energy_joules": None}]},
        {"gpus": [{"energy_joules": 0.0}]},
    ],
)
def test_energy_that_is_not_known_for_every_gpu_is_missing_and_never_zero(facts):
    attempt = replace(grid(SUITE)[0], telemetry=facts)

    assert metrics.joules(attempt) == Missing("not recorded")
    assert metrics.samples_per_joule(attempt) == Missing("not recorded")
    assert metrics.joules_to_best(attempt) == Missing("not recorded")


def test_the_table_shows_efficiency_and_energy_to_the_best():
    attempts = with_energy(grid(SUITE))

    table = resources.energy(block_of(attempts), DEFAULT)

    assert table.headers[1] == "FP32 (samples/J)"
    assert shown_rows(table)[0][1] == "3,962 (3,962 to 3,962), n=3"
    assert shown_rows(table)[1][1] == "1,981 (1,981 to 1,981), n=3"
    assert shown_rows(table)[0][3].startswith("800 (700 to 800), n=3")
    assert shown_rows(resources.energy(block_of(attempts), Notation("best")))[0][3] == (
        "700 (worst 800), n=3"
    )


def test_cells_without_energy_say_so():
    attempts = grid(SUITE)
    some = [*with_energy(attempts[:3]), *attempts[3:]]

    table = resources.energy(block_of(some), DEFAULT)

    assert shown_rows(table)[0][1].endswith("n=3")
    assert shown_rows(table)[1][1] == "n/a (not recorded)"
    assert shown_rows(table)[1][1].item.value is None


def test_energy_is_in_the_report_only_where_it_was_recorded(tmp_path):
    for folder, attempts in (("a", grid(SUITE)), ("b", with_energy(grid(SUITE)))):
        for attempt in attempts:
            Store(tmp_path / folder / SUITE.name).write(attempt)
    without = tables(SUITE, tmp_path / "a", CSV, DEFAULT)
    recorded = tables(SUITE, tmp_path / "b", CSV, DEFAULT)

    assert "energy" not in [table.name for table in without]
    assert "energy" in [table.name for table in recorded]


def test_the_picture_is_drawn_only_where_energy_was_recorded():
    attempts = with_energy(grid(SUITE))
    block = block_of(attempts)

    figure = figure_of(samples_per_joule, Subject(block, "Sample", WHERE))

    assert len(figure.axes[0].patches) == 4
    assert "n = 3" in " ".join(texts(figure))
    without = block_of(grid(SUITE))
    assert has_energy(block)
    assert not has_energy(without)
    assert "energy" in slice_pictures(block)
    assert "energy" not in slice_pictures(without)


def test_run_order_rings_flagged_runs_and_crosses_those_that_slowed_down():
    attempts = grid(SUITE)
    attempts[3] = replace(attempts[3], flags=("busy_host",))
    slow = make_attempt(attempts[5].cell, 3, attempts[5].run, status="invalid", number=2)
    slow = replace(attempt_of(slow.to_dict()), flags=("slowed_down",))
    block = block_of([*attempts, slow])
    figure = figure_of(run_order, Subject(block, "Sample", WHERE))
    everything = " ".join(" ".join(texts(figure)).split())
    assert "flagged: busy_host" in everything
    assert "slowed down by the card itself: invalid" in everything
    marks = {line.get_marker(): list(line.get_xdata()) for line in figure.axes[0].lines[-2:]}
    assert len(marks["o"]) == len(marks["x"]) == 1
    assert "n = 13 runs" in everything
