"""The shipped suites: they fit the trainer, and are the grids that the documents promise."""

from __future__ import annotations

import pytest
from sample_suite import parse_suite as parse

from bench import suites
from bench.suite.model import cells
from bench.suite.trainer_options import Option, trainer_options


def known_options():
    """The trainer's options, and the one that it is still to get."""
    coming = Option("parallel", "str", "user-sharded", ("user-sharded", "replicated"))
    return {"parallel": coming, **trainer_options()}


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


def test_only_the_accuracy_suite_shares_the_machine():
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


def test_suites_of_one_choice_compare_with_the_published_level():
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
