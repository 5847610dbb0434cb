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
"""Name of NVIDIA's tables, instead of a suite."""


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
    from bench.report.build import published_page, write_report

    _check_combinations(parsed)
    csv = published_csv(parsed.results)
    if parsed.update:
        return _update(parsed, trainer)
    if parsed.published and not parsed.format:
        from bench.render.formats import markdown_page

        print(markdown_page(published_page(csv, parsed.numbers)))
        return OK
    stored = [name for name in suites.shipped() if (parsed.results / name / "records").is_dir()]
    names = [PUBLISHED] if parsed.published else [parsed.suite] if parsed.suite else stored
    if not names:
        raise UserError(
            f"{parsed.results} holds no records of a shipped suite: run one first, for example "
            "`ncf-bench smoke`, or name a suite"
        )
    if parsed.format:
        from bench.render.formats import tables_text

        chosen: list[Tabled] = []
        for name in names:
            chosen += _chosen(_tables(parsed, trainer, name), parsed.table, name)
        print(tables_text(chosen, parsed.format))
        return OK
    for name in names:
        suite = load_suite(name, trainer)
        notation = _notation(parsed)
        for path in write_report(suite, parsed.results, parsed.plots, csv, notation):
            print(path)
    return OK


def _notation(parsed: argparse.Namespace) -> Notation:
    from bench.analysis.aggregate import Notation

    return Notation(parsed.aggregate, parsed.numbers)


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


def _tables(parsed: argparse.Namespace, trainer: tuple[str, ...], name: str) -> list[Tabled]:
    """The tables of a suite; NVIDIA's for the name `published`."""
    from bench.render.model import Tabled
    from bench.report.build import published_page, tables

    csv = published_csv(parsed.results)
    if name == PUBLISHED:
        nodes = published_page(csv, parsed.numbers)
        return [node for node in nodes if isinstance(node, Tabled)]
    return list(tables(load_suite(name, trainer), parsed.results, csv, _notation(parsed)))


def _chosen(tables: Sequence[Tabled], name: str | None, of: str, where: str = "") -> list[Tabled]:
    """The tables of this name, all if it is None.

    Raises:
        UserError: there is none; `where` is the place in the file or the option.
    """
    if name is None:
        return list(tables)
    chosen = [table for table in tables if table.name == name]
    if not chosen:
        names = list(dict.fromkeys(table.name for table in tables))
        raise UserError(
            f"{where or '--table'}: {of} has no table {name!r}{did_you_mean(name, names)} "
            f"(it has: {', '.join(names)})"
        )
    return chosen


def _update(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Replace the regions of a file; nothing is written unless every one of them can be."""
    from bench.files import write_if_changed
    from bench.render.formats import captioned
    from bench.render.regions import replace

    of_suite: dict[str, list[Tabled]] = {}

    def render(region: Region) -> str | None:
        if parsed.suite and region.suite != parsed.suite:
            return None
        if region.suite not in of_suite:
            try:
                of_suite[region.suite] = _tables(parsed, trainer, region.suite)
            except UserError as error:
                raise UserError(f"{region.where}: {error}") from None
        chosen = _chosen(of_suite[region.suite], region.table, region.suite, region.where)
        return "\n\n".join(captioned(table) for table in chosen)

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
    chosen = [item for item in series if item.system == parsed.system]
    if not chosen:
        systems = list(dict.fromkeys(item.system for item in series))
        raise UserError(
            f"--system {parsed.system}: no throughputs of 1 GPU and several are published"
            f"{did_you_mean(parsed.system, systems)} (there are: {', '.join(systems)})"
        )
    print(markdown_page(document(series, parsed.system)))
    picture = render(prediction_curves, chosen, parsed.system)
    print(*write_picture(picture, parsed.plots / "scaling" / "model"), sep="\n")
    return OK
