"""`bench compare A B`: a verdict per cell and metric; runs nothing and fails nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench import baseline_commands, terms
from bench.commands import OK
from bench.errors import UserError

if TYPE_CHECKING:
    import argparse

    from bench.baseline import Baseline
    from bench.sides import Side


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench compare`."""
    for name, what in (("a", "what is compared with"), ("b", "what is judged")):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"{what}: a folder with records (results/smoke), a suite's name, or a baseline",
        )
    terms.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """`bench compare`."""
    from bench import gate_report
    from bench.compare import compare

    (old, baseline), (new, _) = (_side(text, parsed.results) for text in (parsed.a, parsed.b))
    lines = compare(old, new, terms.terms(parsed, baseline=baseline))
    if not lines:
        raise UserError(f"{parsed.a} and {parsed.b} have none of the metrics asked for")
    if parsed.json:
        print(gate_report.as_json(lines, {"baseline": old.label, "here": new.label}))
    else:
        about = f"Baseline: {old.label}; here: {new.label}"
        print(gate_report.markdown("Comparison", lines, [about]), end="")
    return OK


def _side(text: str, results: Path) -> tuple[Side, Baseline | None]:
    from bench.sides import side
    from bench.store import load

    if text.endswith(".json"):
        found = baseline_commands.read(Path(text))
        return found.side, found
    folder = Path(text) if (Path(text) / "records").is_dir() else results / text
    if not (folder / "records").is_dir():
        raise UserError(
            f"{text}: neither a folder with records (results/smoke), nor a suite in {results}, "
            "nor a baseline's .json file"
        )
    made = side(str(folder), load(folder).attempts)
    if not made.cells:
        raise UserError(f"{folder} holds no good run to compare")
    return made, None
