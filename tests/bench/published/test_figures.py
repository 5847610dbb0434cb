from __future__ import annotations

import pytest
from paths import CSV
from sample_figures import FIGURES

from bench.errors import UserError
from bench.published import figures as published

HEADER = ",".join(published.COLUMNS)


def gpus(name, gib, count):
    return [{"name": name, "memory_bytes": gib * 2**30}] * count


def test_every_figure_is_read_with_its_digits():
    figure = published.lookup(
        published.select(FIGURES, source="nvidia-ngc-ncf-2019", system="DGX-1 8x V100 16GB"),
        "train_throughput",
        1,
        "amp",
    )

    assert len(FIGURES) == 362
    assert (figure.value, figure.text, figure.unit) == (20027840.0, "20027840", "samples/s")
    assert figure.batch_per_gpu is None


def test_every_source_is_named_in_words_here_and_in_the_readme():
    readme = (CSV.parent / "README.md").read_text(encoding="utf-8")

    for source in published.distinct(FIGURES, "source"):
        assert source in published.SOURCES
        assert source in readme


def test_only_the_pytorch_readme_prints_its_speedups_inverted():
    inverted = [
        source
        for source in published.distinct(FIGURES, "source")
        if published.is_inverted(published.select(FIGURES, source=source))
    ]

    assert inverted == ["nvidia-dle-ncf-pytorch-2021-06"]


def test_a_cell_that_no_source_gives_is_none_not_zero():
    a100 = published.select(FIGURES, system="DGX A100 8x A100 40GB")

    assert published.lookup(a100, "train_throughput", 8, "fp32") is None
    assert published.lookup(a100, "train_throughput", 3, "amp") is None


def test_every_system_names_its_gpus():
    for system in published.distinct(FIGURES, "system"):
        assert published.parse_system(system) is not None

    assert published.parse_system("DGX A100 8x A100 40GB") == (8, "A100", 40)
    assert published.parse_system("a laptop") is None


@pytest.mark.parametrize(
    ("system", "machine", "same"),
    [
        ("DGX A100 8x A100 40GB", gpus("NVIDIA A100-SXM4-40GB", 40, 8), True),
        ("DGX A100 8x A100 40GB", gpus("NVIDIA A100-SXM4-40GB", 40, 4), False),
        ("DGX A100 8x A100 40GB", gpus("NVIDIA A100-SXM4-80GB", 80, 8), False),
        ("DGX A100 8x A100 40GB", gpus("NVIDIA H200", 140, 8), False),
        ("DGX-1 8x V100 16GB", gpus("Tesla V100-SXM2-16GB", 15.8, 8), True),
        ("DGX-1 8x V100 32GB", gpus("Tesla V100-SXM2-32GB", 31.7, 8), True),
        ("DGX-1 8x V100 32GB", gpus("Tesla V100-SXM2-16GB", 15.8, 8), False),
        ("DGX-2 16x V100 32GB", gpus("Tesla V100-SXM3-32GB", 31.7, 8), False),
        ("DGX-1 8x V100 32GB", [{"name": "Tesla V100", "memory_bytes": None}] * 8, False),
        ("DGX-1 8x V100 32GB", [], False),
        ("a laptop", [], False),
    ],
)
def test_a_system_matches_by_model_memory_and_number_of_gpus(system, machine, same):
    assert published.matches(system, machine) is same


def test_a_byte_order_mark_and_blanks_do_not_hide_the_columns(tmp_path):
    path = tmp_path / "p.csv"
    line = "s,training-accuracy,X 1x Y 1GB,1,fp32,best_hr_at_10, 0.50 ,fraction,,,"
    path.write_text(f"\ufeff{HEADER}\r\n{line}\r\n", encoding="utf-8")

    (figure,) = published.read(path)

    assert (figure.source, figure.value, figure.text) == ("s", 0.5, "0.50")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("", "no column 'source'"),
        (HEADER.replace("value", "worth"), "no column 'value'"),
        (f"{HEADER}\na,b,c,1,fp32,m,fast,u,,,\n", "line 2.*'fast'"),
        (f"{HEADER}\na,b,c,one,fp32,m,1,u,,,\n", "line 2.*'one'"),
        (f"{HEADER}\na,b,c\n", "line 2"),
    ],
)
def test_a_broken_file_is_one_line_that_names_it(tmp_path, content, message):
    path = tmp_path / "published.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")

    with pytest.raises(UserError, match=message) as caught:
        published.read(path)

    assert "published.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "gib", "count", "system"),
    [
        ("NVIDIA A100-SXM4-40GB", 40, 8, "DGX A100 8x A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 80, 4, "DGX A100 8x A100 40GB"),
        ("Tesla V100-SXM2-16GB", 16, 1, "DGX-1 8x V100 16GB"),
        ("Tesla V100-SXM3-32GB", 32, 16, "DGX-2 16x V100 32GB"),
        ("NVIDIA H200", 139, 1, None),
        ("NVIDIA A1000", 8, 1, None),
    ],
)
def test_the_nearest_system_has_the_same_model_of_gpu(name, gib, count, system):
    assert published.nearest(FIGURES, gpus(name, gib, count)) == ((system,) if system else ())


def test_a_machine_without_gpus_is_near_to_none():
    assert published.nearest(FIGURES, []) == ()
