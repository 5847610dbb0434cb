"""`ncf-bench report`: tables and pictures from stored records; `scaling`: a prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench import suites
from bench.cli import OK
from bench.cli.common import OUTPUT, WHAT, add_options, load_suite, published_csv, suite_argument
from bench.errors import UserError, did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from bench.analysis.aggregate import Notation
    from bench.cli import Parser
    from bench.render.model import Tabled
    from bench.render.regions import Region

PUBLISHED = "published"
"""Stands for a suite in regions: NVIDIA's tables."""


def report_arguments(parser: Parser) -> None:
    """The options of `report`."""
    from bench.analysis.aggregate import AGGREGATES, DIGITS
    from bench.render.formats import FORMATS

    suite_argument(parser, optional="all suites with records")
    add_options(parser, "results", "plots")
    group = parser.group(OUTPUT)
    group.add_argument(
        "--published", action="store_true", help="print NVIDIA's published tables instead"
    )
    group.add_argument(
        "--aggregate",
        choices=AGGREGATES,
        default="median",
        help="how the runs of a cell become one number; best and mean are conventions of "
        "published tables [median]",
    )
    group.add_argument(
        "--numbers",
        choices=DIGITS,
        default="auto",
        help="samples/s as 20,027,840 (full) or 20.03 M (short) [auto: full below a million]",
    )
    group.add_argument(
        "--format", choices=FORMATS, help="print the tables in this format and write no file"
    )
    group.add_argument(
        "--table", metavar="NAME", help="with --format: only this table, for instance throughput"
    )
    group.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="replace the regions between <!-- ncf-bench:begin SUITE TABLE --> and "
        "<!-- ncf-bench:end --> in this Markdown file, and write nothing else",
    )


def report(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Redraw tables and pictures, print tables, or update a file."""
    from bench.analysis.aggregate import Notation

    notation = Notation(parsed.aggregate, parsed.numbers)
    _check_combinations(parsed)
    if parsed.update:
        return _update(parsed, trainer, notation)
    if parsed.published:
        return _print_published(parsed)
    names = [parsed.suite] if parsed.suite else _suites_with_records(parsed.results)
    if not names:
        raise UserError(
            f"{parsed.results} holds no records of a shipped suite: run one first, for example "
            "`ncf-bench smoke`, or name a suite"
        )
    if parsed.format:
        return _print_tables(parsed, trainer, names, notation)
    from bench.report.build import write_report

    csv = published_csv(parsed.results)
    for name in names:
        suite = load_suite(name, trainer)
        for path in write_report(suite, parsed.results, parsed.plots, csv, notation):
            print(path)
    return OK


def _check_combinations(parsed: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    if parsed.table and not parsed.format:
        raise UserError(
            "--table chooses a table that --format prints: add --format markdown, for instance"
        )
    if parsed.update and (parsed.format or parsed.published):
        raise UserError("--update writes regions of a file: drop --format, --table, --published")
    if parsed.published and (parsed.suite or parsed.aggregate != "median"):
        raise UserError("--published prints published figures only: drop the suite and --aggregate")


def _suites_with_records(results: Path) -> list[str]:
    return [name for name in suites.shipped() if (results / name / "records").is_dir()]


def _print_published(parsed: argparse.Namespace) -> int:
    from bench.render.formats import markdown_page, tables_text
    from bench.report.build import published_page

    nodes = published_page(published_csv(parsed.results), parsed.numbers)
    if parsed.format:
        print(tables_text(_chosen(_tabled(nodes), parsed.table, "published"), parsed.format))
    else:
        print(markdown_page(nodes))
    return OK


def _print_tables(
    parsed: argparse.Namespace, trainer: tuple[str, ...], names: Sequence[str], notation: Notation
) -> int:
    from bench.render.formats import tables_text
    from bench.report.build import tables

    csv = published_csv(parsed.results)
    found: list[Tabled] = []
    for name in names:
        suite = load_suite(name, trainer)
        own = tables(suite, parsed.results, csv, notation)
        found += _chosen(own, parsed.table, suite.name)
    print(tables_text(found, parsed.format))
    return OK


def _tabled(nodes: Sequence[object]) -> list[Tabled]:
    from bench.render.model import Tabled

    return [node for node in nodes if isinstance(node, Tabled)]


def _chosen(tables: Sequence[Tabled], name: str | None, of: str, where: str = "") -> list[Tabled]:
    """The tables of this name, all if it is None.

    Raises:
        UserError: there is none; `where` is the place in the file or the option.
    """
    if name is None:
        return list(tables)
    found = [table for table in tables if table.name == name]
    if not found:
        known = list(dict.fromkeys(table.name for table in tables))
        raise UserError(
            f"{where or '--table'}: {of} has no table {name!r}{did_you_mean(name, known)} "
            f"(it has: {', '.join(known)})"
        )
    return found


def _update(parsed: argparse.Namespace, trainer: tuple[str, ...], notation: Notation) -> int:
    """Replace the regions of a file; nothing is written unless every one of them can be."""
    from bench.files import write_if_changed
    from bench.render.formats import captioned
    from bench.render.regions import replace
    from bench.report.build import published_page, tables

    csv = published_csv(parsed.results)
    made: dict[str, list[Tabled]] = {}

    def render(region: Region) -> str | None:
        if parsed.suite and region.suite != parsed.suite:
            return None
        if region.suite not in made:
            if region.suite == PUBLISHED:
                made[PUBLISHED] = _tabled(published_page(csv, parsed.numbers))
            else:
                made[region.suite] = _of_suite(region)
        found = _chosen(made[region.suite], region.table, region.suite, region.where)
        return "\n\n".join(captioned(one) for one in found)

    def _of_suite(region: Region) -> list[Tabled]:
        try:
            suite = load_suite(region.suite, trainer)
            return tables(suite, parsed.results, csv, notation)
        except UserError as error:
            raise UserError(f"{region.where}: {error}") from None

    file = parsed.update.resolve() if parsed.update.is_symlink() else parsed.update
    try:
        old, mode = file.read_bytes().decode("utf-8"), file.stat().st_mode
    except OSError as error:
        raise UserError(f"--update {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"--update {file}: not UTF-8 text (byte {error.start})") from None
    write_if_changed(file, replace(old, str(parsed.update), render).encode("utf-8"))
    file.chmod(mode)  # the file is the user's: keep its mode
    print(parsed.update)
    return OK


SYSTEM = "DGX A100 8x A100 40GB"


def scaling_arguments(parser: Parser) -> None:
    """The options of `scaling`."""
    parser.group(WHAT).add_argument(
        "--system", default=SYSTEM, metavar="NAME", help=f"published system to predict [{SYSTEM}]"
    )
    add_options(parser, "results", "plots")


def scaling(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """Print the page and draw the picture; trains nothing.

    Raises:
        UserError: nothing is published of the system, or the picture cannot be written.
    """
    from bench.plots.catalog import write_picture
    from bench.plots.scaling import prediction_curves
    from bench.plots.style import render
    from bench.published import figures as published
    from bench.published.scaling_tables import document, known
    from bench.render.formats import markdown_page

    series = known(published.read(published_csv(parsed.results)))
    own = [one for one in series if one.system == parsed.system]
    if not own:
        systems = list(dict.fromkeys(one.system for one in series))
        raise UserError(
            f"--system {parsed.system}: no throughputs of 1 GPU and several are published"
            f"{did_you_mean(parsed.system, systems)} (there are: {', '.join(systems)})"
        )
    print(markdown_page(document(series, parsed.system)))
    picture = render(prediction_curves, own, parsed.system)
    print(*write_picture(picture, parsed.plots / "scaling" / "model"), sep="\n")
    return OK
