"""results/<suite>/report.md and plots/<suite>/ from stored records. Thin: reads, calls, writes.

The same records give the same bytes. A file whose content would not change is left alone.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.analysis import grid
from bench.analysis.aggregate import DEFAULT
from bench.analysis.group import Grouped, group
from bench.errors import UserError
from bench.files import write_if_changed
from bench.foreign import run
from bench.host.gpus import Gpu
from bench.host.machine import Host, unavailable
from bench.published import figures as published
from bench.published import tables as published_tables
from bench.records import store
from bench.render.formats import markdown_page
from bench.render.model import Image, Tabled
from bench.report import foreign as foreign_tables
from bench.report.document import page
from bench.suite.model import cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.analysis.aggregate import Notation
    from bench.foreign.run import ForeignRun
    from bench.published.figures import Figure
    from bench.render.model import Node
    from bench.suite.model import Cell, Suite


@dataclass(frozen=True)
class Material:
    """What a report is made of: the records in order, and the published figures."""

    suite: Suite
    folder: Path
    loaded: store.Loaded
    grouped: Grouped
    figures: tuple[Figure, ...]
    foreign: tuple[ForeignRun, ...]
    unreadable: tuple[tuple[str, str], ...]
    """Path within the suite's folder, and reason."""

    def page(self, notation: Notation, images: Mapping[int, Sequence[Image]]) -> list[Node]:
        """The report."""
        theirs = foreign_tables.section(self.foreign, self.grouped.blocks[0], notation)
        return page(
            self.suite, self.grouped, self.figures, self.unreadable, images, notation, theirs
        )


def gather(suite: Suite, results_root: Path, published_csv: Path) -> Material:
    """Read what is stored of a suite.

    Raises:
        UserError: nothing is stored, or the published figures cannot be read.
    """
    folder = results_root / suite.name
    loaded = store.load(folder)
    foreign, broken = run.load(folder)
    if not (loaded.attempts or loaded.unreadable or foreign):
        raise UserError(f"{folder}: no records of {suite.name}; make them: bench run {suite.name}")
    figures = published.read(published_csv)
    attempts = [a for a in loaded.attempts if not set(a.flags) & set(suite.without)]
    grouped = group(cells(suite), suite.seeds_of, attempts, partial(_why_not, suite))
    if not suite.published_systems and (machine := grouped.blocks[0].machine) is not None:
        gpus = [{"name": name, "memory_bytes": size} for name, size in machine.gpus]
        metrics = ["train_throughput"]
        if grid.has_inference(grouped.blocks):
            metrics.append("inference_throughput")
        found = (published.nearest(figures, gpus, metric) for metric in metrics)
        systems = dict.fromkeys(system for some in found for system in some)
        suite = replace(suite, published_systems=tuple(systems))
    unreadable = tuple(
        (path.relative_to(folder).as_posix(), why) for path, why in [*loaded.unreadable, *broken]
    )
    return Material(suite, folder, loaded, grouped, figures, tuple(foreign), unreadable)


MOST_SVG_BYTES = 400_000


def write_report(
    suite: Suite,
    results_root: Path,
    plots_root: Path,
    published_csv: Path,
    notation: Notation = DEFAULT,
) -> list[Path]:
    """Draw the tables and pictures of a suite from what is stored.

    Returns:
        The report, the same as HTML, then the pictures.

    Raises:
        UserError: nothing is stored, the published figures cannot be read, or a file cannot be
            written.
    """
    from bench.plots import catalog

    material = gather(suite, results_root, published_csv)
    pictures = plots_root / suite.name
    try:
        link = Path(os.path.relpath(pictures, material.folder)).as_posix()
        images, written = catalog.write_all(
            material.suite, material.figures, material.grouped.blocks, pictures, link
        )
        nodes = material.page(notation, images)
        report = material.folder / "report.md"
        write_if_changed(report, markdown_page(nodes).encode("utf-8"))
        page_file = material.folder / "report.html"
        write_if_changed(page_file, _html(material, nodes).encode("utf-8"))
        catalog.remove_stale(pictures, written)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; the report is not written") from None
    return [report, page_file, *written]


def tables(
    suite: Suite, results_root: Path, published_csv: Path, notation: Notation
) -> list[Tabled]:
    """The tables of a suite's report, without drawing anything."""
    nodes = gather(suite, results_root, published_csv).page(notation, {})
    return [node for node in nodes if isinstance(node, Tabled)]


def published_page(csv: Path, digits: str = "auto") -> list[Node]:
    """All published tables, source by source.

    Raises:
        UserError: the file cannot be read, see `published.read`.
    """
    return published_tables.document(published.read(csv), digits)


def _html(material: Material, nodes: Sequence[Node]) -> str:
    """The report as one file: pictures inline, every run listed."""
    from bench.render import html
    from bench.report.run_lists import run_lists

    pictures = {
        node.png: _data_uri(material.folder / node.svg, material.folder / node.png)
        for node in nodes
        if isinstance(node, Image)
    }
    runs = run_lists(material.grouped, material.loaded.attempts)
    runs += foreign_tables.run_lists(material.foreign)
    return html.page(nodes, runs, pictures)


def _data_uri(svg: Path, png: Path) -> str:
    """The picture itself: sharp at any size, unless so many dots make the SVG too large."""
    content, kind = svg.read_bytes(), "svg+xml"
    if len(content) > MOST_SVG_BYTES:
        content, kind = png.read_bytes(), "png"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _why_not(suite: Suite, host: Mapping[str, Any], cell: Cell) -> str | None:
    """Why the machine of a record cannot run a cell; what the record does not say is no reason."""
    known = Host(
        cpu_model=str(host.get("cpu_model")),
        cores=host.get("cores") or cell.ranks,
        memory_bytes=host.get("memory_bytes"),
        gpus=tuple(_gpu(gpu) for gpu in host.get("gpus") or ()),
        no_gpus=host.get("no_gpus") or "the machine has none",
        horovodrun="not recorded",
    )
    return unavailable(suite, known, cell)


def _gpu(data: Mapping[str, Any]) -> Gpu:
    capability = data.get("compute_capability")
    return Gpu(str(data.get("name")), compute_capability=tuple(capability) if capability else None)
