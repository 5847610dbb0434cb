"""results/<suite>/report.md and plots/<suite>/ from stored records. Thin: reads, calls, writes.

The same records give the same bytes. A file whose content would not change is left alone.
"""

from __future__ import annotations

import base64
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.analysis import grid, metrics
from bench.analysis.aggregate import DEFAULT
from bench.analysis.group import Grouped, group
from bench.analysis.labels import axes_text, counted
from bench.analysis.metrics import BEST_HR, THROUGHPUT, TIME_TO_BEST, Metric
from bench.errors import UserError
from bench.files import write_if_changed
from bench.foreign import run
from bench.host.gpus import Gpu
from bench.host.machine import Host, unavailable
from bench.published import figures as published
from bench.published import tables as published_tables
from bench.records import store
from bench.render import units
from bench.render.formats import markdown_page
from bench.render.html import RunList
from bench.render.model import Estimate, Image, Item, Table, Tabled
from bench.report import foreign as foreign_tables
from bench.report.document import page
from bench.stats.summary import Missing
from bench.suite.model import cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Pool
    from bench.foreign.run import ForeignRun
    from bench.published.figures import Figure
    from bench.records.attempt import Attempt
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


RunColumn = tuple[str, "Metric", units.Formatter]


TRAINING_COLUMNS: tuple[RunColumn, ...] = (
    ("Best HR", BEST_HR, units.hit_rate),
    ("Samples/s", THROUGHPUT, units.count),
    ("Time to best (s)", TIME_TO_BEST, units.seconds),
)


def run_lists(grouped: Grouped, attempts: Sequence[Attempt]) -> list[RunList]:
    """A list per block and cell that has attempts, in the order of the tables."""
    owners: dict[tuple[str, int, int], int] = {}
    homes: dict[str, int] = {}
    for number, block in enumerate(grouped.blocks):
        for pool in block.pools:
            homes.setdefault(pool.tally.cell.key, number)
            owners |= {_run_key(one): number for one in (*pool.attempts, *pool.tally.failed)}
    found: dict[tuple[int, str], list[Attempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda a: (a.seed, a.attempt)):
        key = attempt.cell.key
        owner = owners.get(_run_key(attempt), homes.get(key))
        if owner is not None:  # else its cell is outside the grid
            found[owner, key].append(attempt)
    return [
        _run_list(number + 1, pool, found[number, pool.tally.cell.key])
        for number, block in enumerate(grouped.blocks)
        for pool in block.pools
        if (number, pool.tally.cell.key) in found
    ]


def _run_key(attempt: Attempt) -> tuple[str, int, int]:
    return attempt.cell.key, attempt.seed, attempt.attempt


def _run_list(number: int, pool: Pool, attempts: Sequence[Attempt]) -> RunList:
    cell, columns = pool.tally.cell, _run_columns(pool)
    counted_keys = {_run_key(attempt) for attempt in pool.attempts}
    rows, links = [], []
    for attempt in attempts:
        later = attempt.ok and _run_key(attempt) not in counted_keys
        message = "a later attempt of this seed counts" if later else ""
        message = attempt.failure.message if attempt.failure else message
        message = "; ".join(part for part in (message, ", ".join(attempt.flags)) if part)
        rows.append(
            (
                attempt.seed,
                attempt.attempt,
                attempt.status,
                *(_run_value(attempt, measure, form) for _, measure, form in columns),
                attempt.started_at.replace("T", " ").removesuffix("Z"),
                message,
                "record",
            )
        )
        links.append(f"records/{cell.key}/seed{attempt.seed}-a{attempt.attempt}.json")
    headers = ("Seed", "Attempt", "Status", *(name for name, _, _ in columns), "Started (UTC)")
    left = ("Status", "Started (UTC)", "Message", "Record")
    table = Table((*headers, "Message", "Record"), tuple(rows), left)
    note = counted(len(pool.runs), pool.tally)
    return RunList(number, cell.key, axes_text(cell.axes), note, table, tuple(links))


def _run_columns(pool: Pool) -> tuple[RunColumn, ...]:
    """What a run is worth in three numbers: of training or, where none was trained, inference."""
    pairs, users = (metrics.batches(pool.runs, work) for work in ("pairs", "ranking"))
    if any(run.epochs for run in pool.runs) or not (pairs or users):
        return TRAINING_COLUMNS
    found: list[RunColumn] = []
    if pairs:
        rate = metrics.scores_rate("pairs", pairs[-1])
        median = metrics.latency("pairs", pairs[0], "p50")
        found.append((f"Samples/s at batch {units.count(pairs[-1])}", rate, units.count))
        found.append((f"p50 at batch {units.count(pairs[0])} (ms)", median, units.milliseconds))
    if users:
        ranked = metrics.users_rate(users[-1])
        found.append((f"Users/s, {units.count(users[-1])} a call", ranked, units.compact))
    return tuple(found)


def _run_value(attempt: Attempt, metric: Metric, form: units.Formatter) -> Item:
    if attempt.run is None or not attempt.ok:
        return ""
    value = metric.of(attempt)
    if isinstance(value, Missing):
        return Estimate(None, form, value.reason, unit=metric.unit)
    return Estimate(value, form, n=1, unit=metric.unit)
