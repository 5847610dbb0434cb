"""Mistakes in a suite file: each is one line that names file, line and the way out."""

from __future__ import annotations

import pytest
from sample_suite import read

from bench import suites
from bench.errors import UserError

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
    ("twice", "[train]\nepochs = 8\n[axes]\nepochs = [8]", r":4: epochs is also set in \[train\]"),
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
