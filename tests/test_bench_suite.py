from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from bench import suites
from bench.errors import UserError
from bench.options import Option, trainer_options
from bench.suite import DataIdentity, DataSpec, cells, make_cell, ordered
from bench.suite_file import parse

OPTIONS = {
    option.name: option
    for option in [
        Option("epochs", "int", 30),
        Option("batch_size", "int", 1048576),
        Option("learning_rate", "float", 0.0045),
        Option("layers", "int_list", (256, 128)),
        Option("xla", "bool", False),
        Option("precision", "str", "fp32", ("fp32", "tf32", "amp")),
        Option("seed", "int", None),
        Option("protocol", "str", None, ("nvidia", "unique")),
    ]
}
GOOD = """\
title = "Example"
description = "words"

[data]
synthetic = "100k"

[train]
epochs = 8
learning_rate = 1

[axes]
ranks = [1, 2]
precision = ["fp32", "amp"]

[repeat]
seeds = 3
order_seed = 5

[limits]
timeout_s = 90

[report]
published = ["DGX-1"]
margin_hr = 0.006
"""


def known_options():
    """The trainer's options, and the one that it is still to get."""
    coming = Option("parallel", "str", "user-sharded", ("user-sharded", "replicated"))
    return {"parallel": coming, **trainer_options()}


def read(text, name="example"):
    return parse(text, name, f"{name}.toml", OPTIONS)


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
        (text + "ranks = [1, 2]\n", "i.toml:7: ranks is no axis of inference"),
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


@pytest.mark.parametrize("name", suites.shipped())
def test_the_shipped_suites_fit_the_trainers_options(name):
    stem, where, text = suites.read(name)
    suite = parse(text, stem, where, known_options(), trainer_options(command="infer"))
    assert suite.title
    assert len({cell.key for cell in cells(suite)}) == len(cells(suite))


def test_the_shipped_suites_are_the_promised_grids():
    def grid(name):
        suite = parse(
            suites.read(name)[2], name, name, known_options(), trainer_options(command="infer")
        )
        return suite.data.name, suite.axes["ranks"], suite.axes["precision"], len(suite.seeds)

    assert grid("smoke") == ("synthetic 100k", (1, 2), ("fp32", "amp"), 3)
    assert grid("ml-100k") == ("ml-100k", (1, 2), ("fp32", "amp"), 5)
    assert grid("dgx") == ("ml-20m", (1, 4, 8), ("fp32", "tf32", "amp"), 5)
    assert grid("seeds") == ("ml-20m", (1,), ("fp32", "amp"), 400)
    assert grid("cpu") == ("synthetic 1m", (1, 2), ("fp32", "amp"), 6)


def test_of_the_shipped_suites_only_the_one_for_accuracy_shares_the_machine():
    found = {
        name: parse(
            suites.read(name)[2], name, name, known_options(), trainer_options(command="infer")
        )
        for name in NAMES
    }
    accurate = {name for name in NAMES if found[name].measures == "accuracy"}
    assert accurate == {"seeds", "batching", "batching-1m", "parallel"}
    devices = {name: found[name].device for name in NAMES if found[name].device}
    assert devices == {"dgx": "gpu", "seeds": "gpu", "cpu": "cpu"}


def test_the_suites_about_one_choice_compare_its_levels_with_the_published_way():
    found = {
        name: parse(
            suites.read(name)[2], name, name, known_options(), trainer_options(command="infer")
        )
        for name in NAMES
    }

    speed = found["formulations"]
    assert [dict(one.reference) for one in speed.compare] == [{"formulation": "reference"}]
    assert speed.axes["precision"] == ("fp32", "amp")
    assert (speed.order, speed.measures, len(speed.seeds)) == ("blocks", "speed", 6)
    asked = {
        name: ([dict(one.reference) for one in found[name].equivalence], found[name].margin_hr)
        for name in ("batching", "batching-1m", "parallel")
    }
    assert asked == {
        "batching": ([{"batching": "shuffled"}], 0.006),
        "batching-1m": ([{"batching": "shuffled"}], "sd"),
        "parallel": ([{"ranks": 1, "parallel": "replicated"}], 0.006),
    }
    assert all(len(cells(found[name])) == 2 and len(found[name].seeds) == 40 for name in asked)
    assert found["batching"].train == found["parallel"].train
    assert {**found["batching"].train, "epochs": 16} == found["ml-100k"].train


NAMES = suites.shipped()


BAD = [
    ("unknown table", "[axis]\nranks = [1]", r"example.toml:1: unknown key 'axis'; did you mean"),
    (
        "unknown key",
        "[limits]\ntimeout = 5",
        r":2: unknown key 'timeout' in \[limits\]; did you me",
    ),
    (
        "unknown option",
        "[train]\nbatch_sise = 5",
        r":2: unknown option .*; did you mean 'batch_siz",
    ),
    ("dashed option", "[train]\nbatch-size = 5", r":2: .*did you mean 'batch_size'"),
    (
        "unknown axis",
        "[axes]\nrank = [1]",
        r":2: unknown option 'rank' in \[axes\]; did you mean '",
    ),
    ("wrong type", '[train]\nepochs = "8"', r':2: epochs must be a whole number, not "8"'),
    (
        "wrong choice",
        '[axes]\nprecision = ["fp16"]',
        r":2: precision must be one of fp32, tf32, amp",
    ),
    ("empty axis", "[axes]\nranks = []", r":2: ranks must be a list with at least one value, not "),
    ("no list", "[axes]\nranks = 2", r":2: ranks must be a list with at least one value, not 2"),
    ("duplicate", "[axes]\nranks = [1, 2, 1]", r":2: ranks lists 1 twice"),
    ("equal floats", "[axes]\nlearning_rate = [1, 1.0]", r":2: learning_rate lists 1.0 twice"),
    ("ranks 0", "[axes]\nranks = [0]", r":2: ranks must be 1 or more, not 0"),
    (
        "ranks fixed",
        "[train]\nranks = 2",
        r":2: ranks is not set in \[train\]: write it under \[ax",
    ),
    (
        "seed option",
        "[train]\nseed = 2",
        r":2: seed is not set in \[train\]: write \[repeat\] seeds",
    ),
    ("seed axis", "[axes]\nseed = [2]", r":2: seed is not set in \[axes\]: write \[repeat\] seeds"),
    (
        "amp flag",
        "[train]\namp = true",
        r':2: amp is not set in \[train\]: write precision = "amp"',
    ),
    ("twice", "[train]\nepochs = 8\n[axes]\nepochs = [8]", r":4: epochs stands in \[train\] too"),
    ("seeds 0", "[repeat]\nseeds = 0", r":2: seeds must be a count of at least 1 or a list"),
    ("seeds true", "[repeat]\nseeds = true", r":2: seeds must be a count"),
    ("seeds empty", "[repeat]\nseeds = []", r":2: seeds must be a count"),
    ("seeds repeated", "[repeat]\nseeds = [1, 1]", r":2: seeds lists a seed twice"),
    (
        "seeds negative",
        "[repeat]\nseeds = [-1]",
        r":2: seeds must be a whole number from 0, not -1",
    ),
    ("timeout 0", "[limits]\ntimeout_s = 0", r":2: timeout_s must be a number above 0, not 0"),
    ("timeout inf", "[limits]\ntimeout_s = inf", r":2: timeout_s must be a number above 0"),
    ("margin", '[report]\nmargin_hr = "x"', r":2: margin_hr must be a number above 0"),
    ("published", '[report]\npublished = "DGX"', r":2: published must be a list of texts"),
    ("title", "title = 3", r":1: title must be a text, not 3"),
    ("no table", "train = 3", r"example.toml:1: \[train\] must be a table"),
]


@pytest.mark.parametrize(("text", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_mistake_names_its_line_and_the_way_out(text, message):
    with pytest.raises(UserError, match=message) as caught:
        read(text + '\n[data]\nsynthetic = "tiny"\n')
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'either synthetic = "100k" or source'),
        (
            '[data]\nsynthetic = "tiny"\nsource = "ml-1m"',
            "example.toml:1: write .data. with either",
        ),
        (
            '[data]\nsynthetic = "100"',
            r":2: synthetic must be one of tiny, 100k, .*did you mean '100",
        ),
        ('[data]\nsource = "ml-100"', r":2: source must be one of .*; did you mean 'ml-100k'"),
        ('[data]\nsource = "ml-1m"\nseed = 1.5', ":3: seed must be a whole number"),
        ("data = 3", r"\[data\] must be a table"),
        ("[[data]]\nsource = 'ml-1m'", r"\[data\] must be a table"),
    ],
)
def test_a_suite_says_what_it_trains_on(text, message):
    with pytest.raises(UserError, match=message):
        read(text)


def test_bad_toml_names_file_and_line():
    with pytest.raises(UserError, match=r"example\.toml: not TOML: .*line 3"):
        read('[data]\nsynthetic = "tiny"\nseeds 3\n')


@pytest.mark.parametrize("name", ["published", "baselines", "a b", "", "..", ".lock"])
def test_a_name_that_cannot_be_a_folder_of_results_is_refused(name):
    with pytest.raises(UserError, match="cannot be one"):
        read('[data]\nsynthetic = "tiny"\n', name)


def test_an_unknown_suite_names_the_nearest_and_all():
    with pytest.raises(UserError, match=r"unknown suite 'smok'; did you mean 'smoke'\? .*dgx"):
        suites.read("smok")


def test_a_suite_file_that_is_missing_or_no_text_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml: No such file"):
        suites.read(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe9'")
    with pytest.raises(UserError, match=r"latin\.toml: not UTF-8"):
        suites.read(str(tmp_path / "latin.toml"))


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
