"""`bench scaling`: the model of a step against the published rows, and what it predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.common import OK, published_csv
from bench.errors import UserError, did_you_mean
from bench.plots import scaling

if TYPE_CHECKING:
    import argparse

SYSTEM = "DGX A100 8x A100 40GB"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench scaling`."""
    parser.add_argument("--plots", type=Path, default=Path("plots"), metavar="DIR", help="[plots]")
    parser.add_argument(
        "--system", default=SYSTEM, metavar="NAME", help=f"whose scaling to predict [{SYSTEM}]"
    )


def run(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """Print the page and draw the picture; trains nothing.

    Raises:
        UserError: nothing is published of the system, or the picture cannot be written.
    """
    from bench.files import write_if_changed
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
    picture = render(lambda: scaling.prediction_curves(own, parsed.system))
    folder = parsed.plots / "scaling"
    for ending, content in (("png", picture.png), ("svg", picture.svg)):
        write_if_changed(folder / f"model.{ending}", content)
        print(folder / f"model.{ending}")
    return OK
