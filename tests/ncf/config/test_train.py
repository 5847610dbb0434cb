"""The command line: NVIDIA's names work, mistakes are one line, and every option is used."""

from __future__ import annotations

import ast
import dataclasses

import pytest
from paths import ROOT

from ncf.config.options import describe
from ncf.config.train import TrainConfig, config_from_arguments
from ncf.errors import UserError

NVIDIA = (
    "--data d --epochs 2 --batch-size 1024 --factors 8 --layers 32 16 --negative-samples 2 "
    "--learning-rate 0.01 --topk 5 --seed 3 --target 0.9 --amp --xla --valid-negative 50 "
    "--beta1 0.9 --beta2 0.99 --eps 1e-7 --dropout 0.1 --loss-scale 8192 --checkpoint-dir c "
    "--mode train --no-neg-trick --eval-after 2 --log-path l.json"
)


def test_nvidia_command_line_works_with_dashes_or_underscores() -> None:
    config = config_from_arguments(NVIDIA.split())
    assert config.batch_size == 1024
    assert config.layers == (32, 16)
    assert config.precision == "amp"
    assert config.xla
    assert config.no_neg_trick
    under = ["--" + w[2:].replace("-", "_") if w[:2] == "--" else w for w in NVIDIA.split()]
    assert config_from_arguments(under) == config


def test_the_defaults_are_the_published_ones() -> None:
    config = config_from_arguments(["--data", "d"])
    assert (config.batch_size, config.factors, config.layers) == (1048576, 64, (256, 256, 128, 64))
    assert (config.learning_rate, config.beta1, config.beta2) == (0.0045, 0.25, 0.5)
    assert (config.dropout, config.negative_samples, config.topk) == (0.5, 4, 10)
    assert config.target == 0.9562


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "--data is missing"),
        ("--data d --epochs 0", "--epochs 0: must be at least 1"),
        ("--data d --batch_size -5", "--batch_size -5: must be at least 1"),
        ("--data d --layers 1", "--layers 1: needs positive widths"),
        ("--data d --layers 8 0", "--layers 8 0: needs positive widths"),
        ("--data d --dropout 1", "--dropout 1.0: must lie in"),
        ("--data d --beta1 nan", "--beta1 nan: must lie in"),
        ("--data d --learning_rate inf", "--learning_rate inf: must be a number above 0"),
        ("--data d --target 0", "--target 0.0: must lie in"),
        ("--data d --seed -1", "--seed -1: must lie in"),
        ("--data d --loss_scale 8", "--loss_scale 8 needs --precision amp"),
        ("--data d --amp --loss_scale often", "--loss_scale often: give dynamic, auto or a number"),
        ("--data d --amp_dtype float16", "--amp_dtype float16 needs --precision amp"),
        ("--data d --amp --precision fp32", "--amp and --precision fp32 contradict"),
        ("--data d --precision fp8", "--precision: invalid choice: 'fp8'"),
        ("--data d --epochs two", "--epochs/-e: invalid int value: 'two'"),
        ("--data d --eval_after 31", "--eval_after 31 is beyond --epochs 30"),
        ("--data d --mode test", "--mode test needs --load_checkpoint_path"),
        ("--data d --batchsize 5", "unknown option --batchsize; did you mean --batch"),
        ("--data d --zzz", "unknown option --zzz"),
    ],
)
def test_a_mistake_is_named_with_its_value_and_the_way_out(words: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        config_from_arguments(words.split())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_option_is_read_somewhere_so_that_no_flag_does_nothing() -> None:
    package = ROOT / "ncf"
    read = {
        node.attr
        for file in package.glob("**/*.py")
        if file != package / "config" / "train.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }
    assert {option.name for option in dataclasses.fields(TrainConfig)} <= read


def test_options_describe_themselves_for_other_programs() -> None:
    options = {option["name"]: option for option in describe(TrainConfig)}
    assert options["layers"]["type"] == "int_list"
    assert options["seed"]["type"] == "int"
    assert options["xla"]["type"] == "bool"
    assert options["precision"]["choices"] == ("fp32", "tf32", "amp")
    assert all(option["help"] for option in options.values())


def test_the_echo_names_no_folder_of_this_machine() -> None:
    config = TrainConfig(data="/home/someone/data/ml-20m", checkpoint_dir="/tmp/ck")
    assert config.echo()["data"] == "ml-20m"
    assert config.echo()["checkpoint_dir"] == "ck"
