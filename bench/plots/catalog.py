"""The pictures of a report: a table of all there are, and their files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from matplotlib.figure import Figure as Drawing

from bench.analysis import contrasts
from bench.analysis.grid import has_energy, has_inference, has_roofline, has_work
from bench.analysis.labels import dates_text, machine_text
from bench.analysis.metrics import BEST_HR, PAIRS, THROUGHPUT
from bench.files import write_if_changed
from bench.plots import accuracy, bars, inference, roofline, run_order, scaling
from bench.plots.places import Subject
from bench.plots.style import render
from bench.render.model import Image

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.analysis.grid import Block
    from bench.plots.style import Picture
    from bench.published.figures import Figure
    from bench.suite.model import Contrast, Suite

Scope = Literal["accuracy", "slice", "equivalence", "compare", "block"]
"""What a kind of picture shows: the accuracy or the speed of a block with one value of every axis
but ranks and precision, a comparison that a suite asks for, or a whole block."""

CAPTIONS = {
    "validation-curves": "HR@{k} after each epoch, median over seeds by precision and ranks",
    "best-hr-histogram": "Best HR@{k} of every run with the mean of each precision",
    "throughput": "Training throughput by ranks and precision",
    "strong-scaling": "Strong scaling: throughput over that of 1 rank",
    "run-order": "Throughput of every run in the order in which they were made",
    "energy": "Samples per joule of the GPUs",
    "curves-of-arms": "HR@{k} after each epoch, median over seeds by arm",
    "equivalence": "Best HR@{k} of every run with the mean of each arm",
    "comparison": "Training throughput of what the suite compares, with the ratios",
    "roofline": "Roofline: training FLOP/s of a rank against what the machine allows",
    "inference-throughput": "Inference throughput by batch size",
    "inference-latency": "Latency of an inference call by batch size",
}
"""By the first words of the file's name, in the order of the report."""


def _has_accuracy(subject: Subject) -> bool:
    return subject.has(BEST_HR)


def _has_throughput(subject: Subject) -> bool:
    return subject.has(THROUGHPUT)


Kind = tuple[Scope, Callable[[Subject], bool], Callable[[Subject], Drawing]]
"""What it shows, whether there is anything to draw, and the function that draws it."""

KINDS: dict[str, Kind] = {
    "validation-curves": ("accuracy", _has_accuracy, accuracy.curves),
    "best-hr-histogram": ("accuracy", _has_accuracy, accuracy.histogram),
    "throughput": ("slice", _has_throughput, bars.throughput),
    "strong-scaling": ("slice", lambda s: scaling.can_scale(s.block), scaling.strong_scaling),
    "run-order": ("slice", lambda s: s.has(THROUGHPUT, runs=2), run_order.run_order),
    "energy": ("slice", lambda s: has_energy(s.block), bars.samples_per_joule),
    "curves-of-arms": ("equivalence", _has_accuracy, accuracy.curves),
    "equivalence": ("equivalence", _has_accuracy, accuracy.histogram),
    "comparison": ("compare", _has_throughput, bars.comparison),
    "roofline": ("block", lambda s: has_roofline(s.block), roofline.roofline),
    "inference-throughput": ("block", lambda s: has_inference([s.block]), inference.throughput),
    "inference-latency": ("block", lambda s: has_work(s.block, PAIRS), inference.latencies),
}


def draw(scope: Scope, subject: Subject) -> dict[str, Picture]:
    """The pictures of this scope by kind; those of which the runs have no value are left out."""
    return {
        name: render(draw_one, subject)
        for name, (of, exists, draw_one) in KINDS.items()
        if of == scope and exists(subject)
    }


def subjects(
    suite: Suite, block: Block, figures: Sequence[Figure]
) -> Iterator[tuple[Scope, Subject, str, str]]:
    """What the pictures of a block show, in the order of the report; nothing without good runs.

    Yields:
        The scope, the subject, its part of the grid for the caption, the same for the file's name.
    """
    if block.condition is None or block.span is None:
        return
    where = f"{machine_text(block.condition.machine)}. Runs of {dates_text(block.span)}."
    data = block.condition.dataset.name
    whole = Subject(
        block,
        f"{suite.title} ({data})",
        where,
        figures=figures,
        systems=suite.published_systems,
    )
    full = contrasts.precisions(block)
    margin = _margin(suite, block, full) if full else None
    # A single precision shows as one curve of `curves-of-arms`, one panel of `equivalence`.
    scopes: tuple[Scope, ...] = ("accuracy", "slice")
    if suite.equivalence and len(block.precisions) == 1:
        scopes = ("slice",)
    for part in block.slices():
        rest = ", ".join(f"{name} {value}" for name, value in part.rows[0].rest)
        title = f"{suite.title} ({', '.join([data, rest] if rest else [data])})"
        suffix = "".join(f"-{name}={value}" for name, value in part.rows[0].rest)
        for scope in scopes if part.runs else ():
            yield scope, replace(whole, block=part, title=title, margin=margin), rest, suffix
    asked: tuple[tuple[Scope, tuple[Contrast, ...]], ...] = (
        ("equivalence", suite.equivalence),
        ("compare", suite.compare),
    )
    for scope, comparisons in asked:
        for contrast in comparisons:
            margin = _margin(suite, block, contrast)
            axes = "+".join(contrast.axes)
            yield scope, replace(whole, contrast=contrast, margin=margin), axes, f"-{axes}"
    yield "block", whole, "", ""


def _margin(suite: Suite, block: Block, contrast: Contrast) -> float | None:
    groups = contrasts.groups(block, contrast)
    return contrasts.margin_of(groups, suite.margin_hr, BEST_HR)


def write_all(
    suite: Suite,
    figures: Sequence[Figure],
    blocks: Sequence[Block],
    folder: Path,
    link: str,
) -> tuple[dict[int, list[Image]], list[Path]]:
    """Write the pictures of every block that has runs.

    Args:
        suite: the suite.
        figures: the published figures.
        blocks: the conditions.
        folder: for the files.
        link: the same folder, relative to the report.

    Returns:
        The pictures by index of the block, and the files.

    Raises:
        OSError: a file cannot be written.
    """
    images: dict[int, list[Image]] = {}
    written: list[Path] = []
    for index, block in enumerate(blocks):
        number = f"-{index + 1}" if len(blocks) > 1 else ""
        for scope, subject, part, suffix in subjects(suite, block, figures):
            assert block.condition is not None
            for name, picture in draw(scope, subject).items():
                stem = f"{name}{re.sub(r'[^A-Za-z0-9._=-]+', '_', suffix)}{number}"
                written += write_picture(picture, folder / stem)
                caption = CAPTIONS[name].format(k=block.condition.topk)
                caption += f" ({part})" if part else ""
                image = Image(caption, f"{link}/{stem}.png", f"{link}/{stem}.svg")
                images.setdefault(index, []).append(image)
    return images, written


def write_picture(picture: Picture, stem: Path) -> list[Path]:
    """Write both forms of a picture; returns their paths.

    Raises:
        OSError: a file cannot be written.
    """
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    for path, content in zip(paths, (picture.png, picture.svg), strict=True):
        write_if_changed(path, content)
    return paths


def remove_stale(folder: Path, written: Sequence[Path]) -> None:
    """Delete pictures of an earlier report that this one does not have; leave other files alone."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        ours = path.suffix in (".png", ".svg") and path.name.startswith(tuple(CAPTIONS))
        if ours and path not in written:
            path.unlink()
