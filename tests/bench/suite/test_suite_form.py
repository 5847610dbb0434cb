"""The parts of a suite file beyond the plain grid."""

from __future__ import annotations

from collections import Counter

import pytest
from paths import ROOT
from sample_suite import GOOD, read
from sample_suite import parse_suite as parse

from bench.errors import UserError
from bench.suite import parse as suite_file
from bench.suite.model import Rule, cells, ordered
from bench.suite.trainer_options import trainer_options


def keys(text):
    return [cell.label for cell in cells(read(text))]


def test_an_exclude_leaves_cells_out_and_keeps_the_keys_of_the_others():
    text = GOOD + '[[exclude]]\nranks = 2\nprecision = "amp"\n'
    assert keys(text) == [
        "ranks=1,precision=fp32",
        "ranks=1,precision=amp",
        "ranks=2,precision=fp32",
    ]
    assert {cell.key for cell in cells(read(text))} < {cell.key for cell in cells(read(GOOD))}


def test_an_exclude_may_list_several_values():
    assert keys(GOOD + '[[exclude]]\nranks = [2]\nprecision = ["amp", "fp32"]\n') == [
        "ranks=1,precision=fp32",
        "ranks=1,precision=amp",
    ]


def test_override_changes_options_and_keys_of_its_cells():
    suite = read(GOOD + "[[override]]\nwhen = { ranks = 2 }\nepochs = 9\ntimeout_s = 600\n")
    found = {cell.ranks: cell.trainer_options["epochs"] for cell in cells(suite)}
    assert found == {1: 8, 2: 9}
    assert {cell.ranks: suite.timeout_of(cell) for cell in cells(suite)} == {1: 90.0, 2: 600.0}
    plain = {cell.key for cell in cells(read(GOOD))}
    assert {cell.ranks for cell in cells(suite) if cell.key in plain} == {1}


def test_of_two_overrides_the_later_one_wins():
    text = GOOD + (
        "[[override]]\nwhen = { ranks = [1, 2] }\nepochs = 4\ntimeout_s = 5\n"
        '[[override]]\nwhen = { ranks = 2, precision = "amp" }\nepochs = 5\ntimeout_s = 6\n'
    )
    suite = read(text)
    assert [cell.trainer_options["epochs"] for cell in cells(suite)] == [4, 4, 4, 5]
    assert [suite.timeout_of(cell) for cell in cells(suite)] == [5, 5, 5, 6]


def test_every_precision_can_have_seeds_of_its_own():
    suite = read(GOOD.replace("seeds = 3", "seeds = { fp32 = 2, amp = [7, 1, 9] }"))
    assert suite.seeds == (7, 1, 9, 2)
    assert {cell.precision: suite.seeds_of(cell) for cell in cells(suite)} == {
        "fp32": (1, 2),
        "amp": (7, 1, 9),
    }
    runs = ordered(suite, cells(suite), suite.seeds)
    assert Counter((cell.precision, seed) for cell, seed in runs) == {
        ("fp32", 1): 2, ("fp32", 2): 2, ("amp", 7): 2, ("amp", 1): 2, ("amp", 9): 2,
    }  # fmt: skip


def test_the_order_is_in_blocks_shuffled_or_as_listed():
    def order(word):
        suite = read(GOOD.replace("seeds = 3", f'seeds = 3\norder = "{word}"'))
        return [(cell.key, seed) for cell, seed in ordered(suite, cells(suite), suite.seeds)]

    listed = [(cell.key, seed) for cell in cells(read(GOOD)) for seed in (1, 2, 3)]
    assert order("listed") == listed
    assert [seed for _, seed in order("blocks")] == [1] * 4 + [2] * 4 + [3] * 4
    assert sorted(order("shuffled")) == sorted(listed)
    assert [seed for _, seed in order("shuffled")] != [1] * 4 + [2] * 4 + [3] * 4
    assert order("shuffled") == order("shuffled")


def test_limits_launcher_device_telemetry_and_gate_are_read():
    text = GOOD.replace("timeout_s = 90", "retries = 2\nmax_failures = 9\ncooldown_s = 1.5") + (
        '[run]\nlauncher = "horovodrun"\nmeasures = "accuracy"\n[requires]\ndevice = "gpu"\n'
        "[telemetry]\ninterval_s = 5\n[gate]\nmargin_speed = 0.03\n"
    )
    suite = read(text)
    assert (suite.retries, suite.max_failures, suite.cooldown_s) == (2, 9, 1.5)
    assert (suite.launcher, suite.measures, suite.device) == ("horovodrun", "accuracy", "gpu")
    assert (suite.telemetry_s, suite.margin_speed) == (5.0, 0.03)
    assert read(GOOD + "[telemetry]\nenabled = false\n").telemetry_s is None


def test_what_a_file_leaves_out_has_a_default_that_measures_speed_alone():
    suite = read(GOOD)
    assert (suite.retries, suite.max_failures, suite.cooldown_s) == (0, None, 0.0)
    assert (suite.launcher, suite.measures, suite.device) == ("auto", "speed", None)
    assert (suite.telemetry_s, suite.margin_speed, suite.order) == (1.0, None, "blocks")


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        (
            "[[exclude]]\nrank = 2\n",
            "example.toml:26: 'rank' is not an axis of this suite; did you mean",
        ),
        ("[[exclude]]\nranks = 4\n", "example.toml:26: ranks has no value 4 in [axes]"),
        ("[[exclude]]\nranks = [1, 2]\n", "toml:25: [[exclude]] removes every cell"),
        ("[exclude]\nranks = 2\n", "example.toml:25: write each one as a table of its own"),
        ("[[override]]\nepochs = 2\n", "when must name axes, e.g. when = { ranks = 8 }"),
        ("[[override]]\nwhen = { ranks = 2 }\n", "this override changes nothing"),
        ("[[override]]\nwhen = { ranks = 2 }\nprecision = 'amp'\n", "precision is an axis"),
        (
            "[[override]]\nwhen = { ranks = 2 }\nepoch = 2\n",
            "in [override]; did you mean 'epochs'?",
        ),
        (
            "[[override]]\nwhen = { ranks = 2 }\ntimeout_s = 0\n",
            "timeout_s must be a number above 0",
        ),
        (
            "[run]\nlauncher = 'mpi'\n",
            'launcher must be one of auto, horovodrun, mpirun, not "mpi"',
        ),
        ("[run]\nmeasures = 'sped'\n", "did you mean 'speed'?"),
        ("[run]\npacked = true\n", "unknown key 'packed' in [run]"),
        ("[requires]\ndevice = 'tpu'\n", "device must be one of gpu, cpu"),
        ("[telemetry]\nenabled = 1\n", "enabled must be true or false, not 1"),
        ("[telemetry]\ninterval_s = 0\n", "interval_s must be a number above 0"),
        ("[gate]\nmargin_sped = 0.1\n", "did you mean 'margin_speed'?"),
        ("[gates]\n", "unknown key 'gates'; did you mean 'gate'?"),
    ],
)
def test_every_mistake_is_one_line_with_its_place_and_the_way_out(addition, message):
    with pytest.raises(UserError) as caught:
        read(GOOD + addition)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def compared(line):
    suite = read(GOOD.replace("margin_hr = 0.006", line))
    return [dict(one.reference) for one in (*suite.compare, *suite.equivalence)]


def test_comparison_names_axes_or_their_reference_levels():
    assert compared('compare = "precision"') == [{"precision": "fp32"}]
    assert compared('equivalence = { ranks = 2, precision = "amp" }') == [
        {"ranks": 2, "precision": "amp"}
    ]
    assert compared('compare = ["ranks", { precision = "amp" }]') == [
        {"ranks": 1},
        {"precision": "amp"},
    ]
    assert read(GOOD).compare == read(GOOD).equivalence == ()


def test_the_margin_may_be_the_spread_of_the_reference():
    assert read(GOOD.replace("margin_hr = 0.006", 'margin_hr = "sd"')).margin_hr == "sd"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "compare = 'precisoin'",
            "toml:24: compare names 'precisoin', which is not an axis",
        ),
        ("compare = 'precisoin'", "did you mean 'precision'? (there are: ranks, precision)"),
        ("equivalence = { ranks = 4 }", "example.toml:24: ranks has no value 4 in [axes]"),
        ("equivalence = { ranks = 'one' }", 'ranks must be a whole number, not "one"'),
        ("compare = 1", 'compare must name axes, e.g. compare = "precision" or'),
        ("compare = [{}]", "compare must name axes"),
        ("margin_hr = 'se'", 'margin_hr must be a number above 0 or "sd", not "se"'),
        (
            (
                "compare = { ranks = 1, precision = 'fp32' }\n[[exclude]]\nranks = 1\n"
                "precision = 'fp32'"
            ),
            'no cell differs from one with ranks = 1, precision = "fp32" in compare',
        ),
    ],
)
def test_mistakes_in_a_comparison_are_named(line, message):
    with pytest.raises(UserError) as caught:
        compared(line)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seeds = { fp32 = 2 }", "seeds has no entry for amp"),
        ("seeds = { fp32 = 2, amp = 0 }", "seeds must be a count of at least 1"),
        ("seeds = { fp32 = 2, amp = 2, tf32 = 2 }", "unknown key 'tf32' in [repeat.seeds]"),
        ("seeds = 3\norder = 'random'", "order must be one of blocks, shuffled, listed"),
    ],
)
def test_mistakes_in_the_seeds_are_named(line, message):
    with pytest.raises(UserError) as caught:
        read(GOOD.replace("seeds = 3", line))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("retries = -1", "retries must be a whole number from 0, not -1"),
        ("cooldown_s = -1", "cooldown_s must be a number from 0, not -1"),
        ("max_failures = 0", "max_failures must be a whole number from 1, not 0"),
    ],
)
def test_mistakes_in_the_limits_are_named(line, message):
    with pytest.raises(UserError) as caught:
        read(GOOD.replace("timeout_s = 90", line))
    assert message in str(caught.value)


def test_the_example_in_the_documentation_is_a_suite_and_shows_every_key():
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    example = text.partition("```toml\n")[2].partition("```")[0]
    suite = parse(example, "scaling", "docs/running.md", trainer_options())
    assert len(cells(suite)) == 10
    for table, known in suite_file._KEYS.items():
        assert not table or f"[{table}]" in example
        assert all(f"{key} =" in example for key in known or ())
    assert all(f"[[{name}]]" in example for name in suite_file._RULES)


def test_a_rule_matches_when_every_axis_has_one_of_its_values():
    rule = Rule({"ranks": (1, 2), "precision": ("amp",)})
    assert rule.matches({"ranks": 2, "precision": "amp", "epochs": 3})
    assert not rule.matches({"ranks": 2, "precision": "fp32"})
    assert not rule.matches({"ranks": 2})
