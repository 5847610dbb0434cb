"""A suite file becomes a grid of cells: their keys, and the order of their runs."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from sample_suite import GOOD, OPTIONS, read
from sample_suite import parse_suite as parse

from bench import suites
from bench.errors import UserError
from bench.records.identity import DataIdentity
from bench.suite.model import DataSpec, cells, make_cell, ordered
from bench.suite.trainer_options import trainer_options


def test_a_whole_file_becomes_a_suite():
    suite = read(GOOD)
    assert suite.name == "example"
    assert suite.title == "Example"
    assert suite.data == DataSpec(synthetic="100k", seed=1)
    assert suite.train == {"epochs": 8, "learning_rate": 1.0}
    assert suite.axes == {"ranks": (1, 2), "precision": ("fp32", "amp")}
    assert suite.seeds == (1, 2, 3)
    assert (suite.timeout_s, suite.order_seed) == (90.0, 5)
    assert (suite.published_systems, suite.margin_hr) == (("DGX-1",), 0.006)


def test_a_table_infer_instead_of_train_makes_a_suite_of_inference():
    text = (
        '[data]\nsynthetic = "1m"\n[infer]\nwork = "ranking"\n[axes]\nprecision = ["fp32", "amp"]\n'
    )
    infer = trainer_options(command="infer")
    suite = parse(text, "i", "i.toml", OPTIONS, infer)
    assert (suite.command, suite.train) == ("infer", {"work": "ranking"})
    assert read(GOOD).command == "train"
    for wrong, said in (
        (
            text.replace("work", "epochs").replace('"ranking"', "3"),
            "unknown option 'epochs' in .infer.",
        ),
        (text + "ranks = [1, 2]\n", "i.toml:7: ranks is not an axis of inference"),
        (text + "[train]\nepochs = 3\n", r"i\.toml:3: write \[train\] or \[infer\], not both"),
    ):
        with pytest.raises(UserError, match=said):
            parse(wrong, "i", "i.toml", OPTIONS, infer)
    with pytest.raises(UserError, match="this trainer has no command infer"):
        read(text)


def test_what_is_left_out_has_a_default():
    suite = read('[data]\nsource = "ml-100k"\n')
    assert (suite.title, suite.seeds, suite.axes, suite.margin_hr) == ("example", (1,), {}, None)
    (cell,) = cells(suite)
    assert (cell.ranks, cell.precision, cell.label) == (1, "fp32", "all")


def test_seeds_may_be_a_list():
    assert read(GOOD.replace("seeds = 3", "seeds = [7, 3]")).seeds == (7, 3)


def test_a_suite_file_is_read_from_anywhere(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD, encoding="utf-8")
    name, where, text = suites.read(str(tmp_path / "mine.toml"))
    assert (name, text) == ("mine", GOOD)
    assert where.endswith("mine.toml")


def test_a_cell_key_is_pinned():
    # Stored records are found by this key: a change of it orphans them all.
    cell = cells(read(GOOD))[3]
    assert cell.key == "ranks=2,precision=amp-26b01dff"
    assert cell.trainer_options == {"epochs": 8, "learning_rate": 1.0, "precision": "amp"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epochs = 8", "epochs = 9"),
        ("learning_rate = 1", "learning_rate = 1\nxla = true"),
        ('synthetic = "100k"', 'synthetic = "tiny"'),
        ('synthetic = "100k"', 'synthetic = "100k"\nseed = 2'),
        ('synthetic = "100k"', 'source = "ml-100k"'),
    ],
)
def test_anything_that_changes_a_run_changes_every_key(old, new):
    before = {cell.key for cell in cells(read(GOOD))}
    assert not before & {cell.key for cell in cells(read(GOOD.replace(old, new)))}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seeds = 3", "seeds = 30"),
        ("order_seed = 5", "order_seed = 6"),
        ("timeout_s = 90", "timeout_s = 900"),
        ("margin_hr = 0.006", "margin_hr = 0.06"),
        ("epochs = 8\nlearning_rate = 1", "learning_rate = 1.0\nepochs = 8"),
        ("ranks = [1, 2]", "ranks = [2, 4, 1]"),
        (
            'ranks = [1, 2]\nprecision = ["fp32", "amp"]',
            'precision = ["amp", "fp32"]\nranks = [2, 1]',
        ),
    ],
)
def test_what_does_not_change_a_run_changes_no_key(old, new):
    before = {cell.key for cell in cells(read(GOOD))}
    assert before <= {cell.key for cell in cells(read(GOOD.replace(old, new)))}


def test_a_key_is_a_file_name_whatever_the_axes_hold():
    cell = make_cell({"layers": (64, 32), "protocol": "a/b c:*"}, {}, DataSpec("tiny"))
    assert cell.key.startswith("layers=64x32,protocol=a_b_c__-")
    long = make_cell({"protocol": "x" * 500}, {}, DataSpec("tiny"))
    assert len(long.key) < 140


def test_the_order_is_blocks_of_every_cell_once_shuffled_and_repeatable():
    suite = read(GOOD.replace("seeds = 3", "seeds = 20"))
    grid = cells(suite)
    runs = ordered(suite, grid, suite.seeds)
    assert runs == ordered(suite, grid, suite.seeds)
    blocks = [runs[at : at + 4] for at in range(0, 80, 4)]
    assert all({cell.key for cell, _ in block} == {cell.key for cell in grid} for block in blocks)
    assert [block[0][1] for block in blocks] == list(suite.seeds)
    first = Counter(block[0][0].key for block in blocks)
    assert len(first) == 4, "every cell leads a block now and then, so drift favours none"
    other = ordered(dataclasses.replace(suite, order_seed=6), grid, suite.seeds)
    assert other != runs


def test_a_part_of_the_grid_keeps_the_order_of_the_whole():
    suite = read(GOOD)
    amp = [cell for cell in cells(suite) if cell.precision == "amp"]
    whole = ordered(suite, cells(suite), suite.seeds)
    assert ordered(suite, amp, (1, 3)) == tuple(
        (cell, seed) for cell, seed in whole if cell in amp and seed in (1, 3)
    )


def test_runs_on_other_data_or_candidates_are_told_apart():
    from sample_records import ML_100K

    suite = read(GOOD)
    cell = cells(suite)[0]
    here = DataIdentity(ML_100K.hash, ML_100K.candidates_hash)
    assert here.differs(ML_100K, cell) is None
    assert "instead of" in here.differs(dataclasses.replace(ML_100K, hash="x"), cell)
    other = dataclasses.replace(ML_100K, candidates_hash="x")
    assert "candidates" in here.differs(other, cell)
    # a cell that sets the protocol draws candidates of its own
    own = make_cell({"protocol": "unique"}, {}, suite.data)
    assert here.differs(other, own) is None
