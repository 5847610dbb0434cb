"""The pictures of a report: which there are, what they are called, and their files. Thin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.analysis import contrasts
from bench.analysis.labels import dates_text, machine_text
from bench.analysis.metrics import BEST_HR
from bench.render.model import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.analysis.grid import Block
    from bench.plots.style import Picture
    from bench.published.figures import Figure
    from bench.suite.model import Suite

CAPTIONS = {
    "validation-curves": "HR@{k} after each epoch, median over seeds by precision and ranks",
    "best-hr-histogram": "Best HR@{k} of every run with the mean of each precision",
    "curves-of-arms": "HR@{k} after each epoch, median over seeds by arm",
    "equivalence": "Best HR@{k} of every run with the mean of each arm",
    "throughput": "Training throughput by ranks and precision",
    "comparison": "Training throughput of what the suite compares, with the ratios",
    "strong-scaling": "Strong scaling: throughput over that of 1 rank",
    "inference-throughput": "Inference throughput by batch size",
    "inference-latency": "Latency of an inference call by batch size",
    "roofline": "Roofline: training FLOP/s of a rank against what the machine allows",
    "run-order": "Throughput of every run in the order in which they were made",
    "energy": "Samples per joule of the GPUs",
}
"""By the first words of the file's name."""


@dataclass(frozen=True)
class Sources:
    """What pictures are made of beside the runs of a block."""

    suite: Suite
    figures: tuple[Figure, ...]


def write_all(
    sources: Sources,
    blocks: Sequence[Block],
    folder: Path,
    link: str,
    write: Callable[[Path, bytes], None],
) -> tuple[dict[int, list[Image]], list[Path]]:
    """Write the pictures of every block that has runs.

    Args:
        sources: the suite and the published figures.
        blocks: the conditions.
        folder: for the files.
        link: the same folder, relative to the report.
        write: writes one file.

    Returns:
        The pictures by index of the block, and the files.
    """
    images: dict[int, list[Image]] = {}
    written: list[Path] = []
    for index, block in enumerate(blocks):
        number = f"-{index + 1}" if len(blocks) > 1 else ""
        for name, suffix, caption, picture in _of_block(sources, block):
            stem = f"{name}{suffix}{number}"
            for kind, content in (("png", picture.png), ("svg", picture.svg)):
                path = folder / f"{stem}.{kind}"
                write(path, content)
                written.append(path)
            links = (f"{link}/{stem}.png", f"{link}/{stem}.svg")
            images.setdefault(index, []).append(Image(caption, *links))
    return images, written


def remove_stale(folder: Path, written: Sequence[Path]) -> None:
    """Delete pictures of an earlier report that this one does not have; leave other files alone."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        ours = path.suffix in (".png", ".svg") and path.name.startswith(tuple(CAPTIONS))
        if ours and path not in written:
            path.unlink()


def _of_block(sources: Sources, block: Block) -> Iterator[tuple[str, str, str, Picture]]:
    """Name, rest of the file's name, caption and picture: first those of each slice."""
    from bench.plots import bars as plots
    from bench.plots import catalog as whole_plots
    from bench.plots import scaling as scaling_plots

    if not block.runs:
        return
    suite = sources.suite
    assert block.condition is not None
    assert block.span is not None
    where = f"{machine_text(block.condition.machine)}. Runs of {dates_text(block.span)}."
    data, k = block.condition.dataset.name, block.condition.topk
    lines = scaling_plots.published_lines(sources.figures, suite.published_systems)
    full = contrasts.precisions(block)
    compared = contrasts.groups(block, full) if full else ()
    margin = contrasts.margin_of(compared, suite.margin_hr, BEST_HR)
    for part in block.slices():
        if not part.runs:
            continue
        rest = ", ".join(f"{name} {value}" for name, value in part.rows[0].rest)
        suffix = "".join(f"-{name}={value}" for name, value in part.rows[0].rest)
        title = f"{suite.title} ({data}{', ' if rest else ''}{rest})"
        drawn = plots.draw(part, title, where, margin, lines)
        if suite.equivalence and len(block.precisions) == 1:
            drawn.pop("best-hr-histogram", None)  # one panel of `equivalence` each,
            drawn.pop("validation-curves", None)  # and one curve of `curves-of-arms`
        for name, picture in drawn.items():
            caption = CAPTIONS[name].format(k=k) + (f" ({rest})" if rest else "")
            yield name, _plain(suffix), caption, picture
    whole = whole_plots.draw(suite, block, f"{suite.title} ({data})", where, sources.figures)
    for name, picture in whole.items():
        kind = next(kind for kind in CAPTIONS if name.startswith(kind))
        rest = name[len(kind) :].lstrip("-")
        caption = CAPTIONS[kind].format(k=k) + (f" ({rest})" if rest else "")
        yield kind, _plain(name[len(kind) :]), caption, picture


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", text)
