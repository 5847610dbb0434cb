from __future__ import annotations

import json
import sys

import pytest
from paths import SUPPORT

from bench.errors import UserError, did_you_mean
from bench.suite.trainer_options import (
    Option,
    arguments,
    ask,
    parse_options,
    parse_versions,
    trainer_options,
    trainer_versions,
)

STUB = str(SUPPORT / "stub_trainer.py")


@pytest.fixture(autouse=True)
def fresh():
    ask.cache_clear()
    yield
    ask.cache_clear()


def test_the_trainer_is_asked_for_its_options_once_per_process(tmp_path):
    count = tmp_path / "count"
    script = tmp_path / "trainer.py"
    script.write_text(
        f"open({str(count)!r}, 'a').write('x')\nprint('{{\"options\": []}}')\n", encoding="utf-8"
    )
    trainer = (sys.executable, str(script))
    assert trainer_options(trainer) == trainer_options(trainer) == {}
    assert count.read_text() == "x"


def test_the_real_trainer_answers_with_options_that_bench_understands():
    options = trainer_options()
    assert options["batch_size"] == Option(
        "batch_size", "int", 1048576, None, options["batch_size"].help
    )
    assert options["precision"].choices == ("fp32", "tf32", "amp")
    assert options["layers"].type == "int_list"


def test_trainer_reports_versions_and_code_without_tensorflow():
    found = trainer_versions()
    assert set(found) >= {"ncf", "code", "python", "numpy"}
    assert len(found["code"]) == 12


def test_a_trainer_that_tells_no_versions_has_none():
    assert parse_versions('{"options": []}') == {}


def test_a_trainer_that_cannot_be_started_is_one_line():
    with pytest.raises(UserError, match="the trainer does not start"):
        trainer_options(("/nonexistent/python", "-m", "ncf"))


def test_a_trainer_that_fails_shows_its_last_line_and_the_way_out():
    with pytest.raises(UserError, match=r"exit code 1: .*no_such_module.*pip install -e"):
        trainer_options((sys.executable, "-m", "no_such_module"))


@pytest.mark.parametrize(
    "printed", ["", "hello", "[]", '{"options": 3}', '{"options": [{"name": "a"}]}']
)
def test_an_answer_that_is_no_list_of_options_is_one_line(printed, tmp_path):
    script = tmp_path / "trainer.py"
    script.write_text(f"print({printed!r})", encoding="utf-8")
    with pytest.raises(UserError, match="printed no list of options"):
        trainer_options((sys.executable, str(script)))


def test_an_option_of_an_unknown_type_is_refused():
    text = json.dumps({"options": [{"name": "a", "type": "complex", "default": 1}]})
    with pytest.raises(ValueError, match="option a has the unknown type 'complex'"):
        parse_options(text)


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("int", 3, 3),
        ("float", 3, 3.0),
        ("float", 1e-8, 1e-8),
        ("str", "x", "x"),
        ("bool", True, True),
        ("int_list", [4, 2], (4, 2)),
    ],
)
def test_a_value_is_taken_in_the_options_own_type(type_, value, expected):
    checked = Option("a", type_, None).check(value, "here")
    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", 3.0),
        ("int", True),
        ("int", "3"),
        ("float", "3"),
        ("float", False),
        ("str", 3),
        ("bool", 1),
        ("bool", "true"),
        ("int_list", 4),
        ("int_list", []),
        ("int_list", [4, 2.5]),
        ("int_list", [True]),
    ],
)
def test_a_value_of_another_type_names_the_place_the_option_and_the_value(type_, value):
    with pytest.raises(UserError, match=r"^smoke\.toml:7: a must be .*, not "):
        Option("a", type_, None).check(value, "smoke.toml:7")


def test_a_value_that_is_no_choice_names_the_choices_and_the_nearest():
    option = Option("precision", "str", "fp32", ("fp32", "tf32", "amp"))
    with pytest.raises(UserError, match=r'fp32, tf32, amp, not "tf-32"; did you mean \'tf32\'\?'):
        option.check("tf-32", "here")


def test_dashes_and_case_do_not_hide_the_nearest_word():
    assert did_you_mean("Batch-Size", ["batch_size", "beta1"]) == "; did you mean 'batch_size'?"
    assert did_you_mean("zzz", ["batch_size"]) == ""


def test_arguments_are_flags_for_true_and_nothing_for_false():
    values = {"batch_size": 16384, "xla": True, "verbose": False, "layers": (4, 2), "eps": 1e-8}
    words = "--batch_size 16384 --xla --layers 4 2 --eps 1e-08"
    assert arguments(values) == words.split()


def test_arguments_reach_the_trainer_as_they_were_meant():
    from ncf.config.train import config_from_arguments

    values = {"data": "d", "layers": (64, 32), "eps": 1e-8, "xla": True, "precision": "amp"}
    config = config_from_arguments(arguments(values))
    assert (config.layers, config.eps, config.xla, config.precision) == (
        (64, 32),
        1e-8,
        True,
        "amp",
    )


def test_trainer_reports_inference_options_and_code_separately():
    assert "batch_sizes" in trainer_options(command="infer")
    assert "batch_sizes" not in trainer_options()
    assert trainer_versions(command="infer")["code"] != trainer_versions()["code"]


def test_a_trainer_without_inference_has_no_options_for_it():
    assert parse_options('{"options": []}', "infer") == {}
    assert parse_versions('{"options": [], "versions": {"a": "1"}}', "infer") == {}
