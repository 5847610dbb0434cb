"""A suite file with a bit of everything, for tests of reading one."""

from __future__ import annotations

from bench.analysis.metrics import NAMES
from bench.host.samples import FLAGS
from bench.suite.parse import parse
from bench.suite.trainer_options import Option

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


def read(text, name="example"):
    return parse_suite(text, name, f"{name}.toml", OPTIONS)


def parse_suite(text, name, where, options, infer=None):
    """`parse`, with the names of the metrics and flags that there are."""
    return parse(text, name, where, options, infer, metrics=NAMES, flags=tuple(FLAGS))
