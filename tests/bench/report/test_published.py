from __future__ import annotations

from dataclasses import replace

import pytest
from sample_figures import FIGURES
from sample_records import A100_HOST, ML_20M, grid, make_suite
from table_cells import shown_rows

from bench.analysis.group import group
from bench.published.comparability import differences
from bench.published.figures import select
from bench.report.published import orientation, side_by_side
from bench.suite.model import cells

A100 = "DGX A100 8x A100 40GB"
PYTORCH = select(FIGURES, source="nvidia-dle-ncf-pytorch-2021-06", system=A100)


def dgx_block(change=lambda attempt: attempt, **axes):
    suite = make_suite(axes={"ranks": (1, 4), "precision": ("tf32", "amp"), **axes})
    attempts = grid(
        suite, spread=0, noise=0, best=0.96, rate=2e7, data=ML_20M, batch=1048576, dtype="float16"
    )
    attempts = [change(replace(attempt, host=A100_HOST)) for attempt in attempts]
    return group(cells(suite), suite.seeds, attempts).blocks[0]


def with_run(**fields):
    return lambda attempt: replace(attempt, run=replace(attempt.run, **fields))


def test_the_published_machine_and_task_have_no_differences():
    assert differences(dgx_block(), A100) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: replace(a, host={**A100_HOST, "gpus": []}), "another machine (no GPU)"),
        (
            lambda a: replace(a, host={**A100_HOST, "gpus": A100_HOST["gpus"][:1]}),
            "another machine (1x NVIDIA A100-SXM4-40GB (40.0 GiB))",
        ),
        (
            with_run(dataset=replace(ML_20M, users=943)),
            "other data (ml-20m, theirs is MovieLens 20M)",
        ),
        (
            with_run(dataset=replace(ML_20M, name="synthetic-20m")),
            "other data (synthetic-20m, theirs is MovieLens 20M)",
        ),
        (
            with_run(dataset=replace(ML_20M, candidates_per_user=999)),
            "another metric (HR@10, protocol nvidia, 999 candidates)",
        ),
        (with_run(global_batch=65536), "another global batch (65,536, theirs is 1,048,576)"),
        (with_run(config={"factors": 8}), "another model size or number of negatives"),
    ],
)
def test_whatever_keeps_numbers_from_meaning_the_same_is_named(change, reason):
    assert differences(dgx_block(change), A100) == [reason]


def test_ours_stand_beside_theirs_with_dashes_where_they_say_nothing():
    table = side_by_side(dgx_block(), PYTORCH)

    by_cell = {(row[0], row[1]): row[2:] for row in shown_rows(table)}
    assert by_cell["1", "TF32"][1] == "0.958925"
    assert by_cell["1", "TF32"][3:] == (
        "20.00 M (20.00 M to 20.00 M), n=3",
        "22.59 M",
        "0.89 (0.89 to 0.89)",
    )
    assert by_cell["4", "AMP (float16)"][1:3] == ("-", "-")
    assert by_cell["4", "AMP (float16)"][4:] == ("-", "-")
    # they have 8 GPUs, this suite has not
    assert by_cell["8", "TF32"] == (
        "n/a (not in the suite)", "0.958938", "-", "n/a (not in the suite)", "110.16 M", "-",
    )  # fmt: skip


def test_a_cell_of_ours_without_good_runs_keeps_the_published_figure():
    suite = make_suite(axes={"ranks": (1, 8), "precision": ("amp",)})
    attempts = [
        replace(a, host=A100_HOST)
        for a in grid(suite, best=0.96, data=ML_20M, batch=1048576)
        if a.cell.ranks == 1
    ]
    block = group(cells(suite), suite.seeds, attempts).blocks[0]

    table = side_by_side(block, PYTORCH)

    row = next(row for row in shown_rows(table) if row[0] == "8")
    assert row[2:5] == ("n/a (n=0/3, 3 not run)", "0.959089", "-")


def test_orientation_shows_the_training_tables_of_the_system():
    accuracy, throughput = orientation(PYTORCH)

    assert shown_rows(accuracy)[0][2:4] == ("0.958925", "0.958892")
    assert shown_rows(throughput)[1][2:5] == ("110.16 M", "142.90 M", "1.30")
    assert orientation(select(FIGURES, system="DGX A100 1x A100 40GB")) == []
