"""`ncf-bench baseline save|list|show|promote`: files under results/baselines/."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.cli import OK
from bench.cli.common import OUTPUT, WHAT, add_options, signature
from bench.errors import UserError
from bench.gate.baseline import FOLDER, _all, find, own_path, read, saved_path

if TYPE_CHECKING:
    import argparse

    from bench.cli import Parser
    from bench.gate.baseline import Baseline
    from bench.render.model import Table


def baseline_arguments(parser: Parser) -> None:
    """The options of `baseline`."""
    what = parser.group(WHAT)
    what.add_argument(
        "action",
        choices=_ACTIONS,
        help="save: store the good runs of a suite under a new name; promote: make one the "
        "suite's default, which gates use; list; show",
    )
    what.add_argument("suite", nargs="?", metavar="SUITE", help="suite of the runs or baselines")
    what.add_argument("--name", metavar="NAME", help="of the baseline")
    what.add_argument(
        "--every", action="store_true", help="with save: every good run, not only the last per seed"
    )
    add_options(parser, "results")
    parser.group(OUTPUT).add_argument("--why", metavar="TEXT", help="reason to store")
    add_options(parser, "who")


def baseline(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """Run one of the actions."""
    return _ACTIONS[parsed.action](parsed)


def _save(parsed: argparse.Namespace) -> int:
    from bench.files import write_new
    from bench.gate.baseline import Baseline, to_text
    from bench.gate.samples import side
    from bench.records.store import load
    from bench.stats.summary import MIN_RUNS

    suite, name = _needed(parsed, "suite"), _needed(parsed, "name")
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name[0] in ".-":
        raise UserError(f"--name {name!r}: letters, digits, . _ - only; it becomes a file's name")
    signed = signature(parsed, _needed(parsed, "why"))
    found = side(suite, load(parsed.results / suite).attempts, every=parsed.every)
    if not found.cells:
        raise UserError(
            f"{parsed.results / suite} has no good run to save; run `ncf-bench run {suite}`"
        )
    path = saved_path(parsed.results, suite, name)
    try:
        write_new(path, to_text(Baseline(name, suite, signed, found)))
    except FileExistsError:
        raise UserError(
            f"{path} exists; a baseline is never overwritten: choose a --name"
        ) from None
    runs = sum(len(cell.runs) for cell in found.cells.values())
    print(f"{path}: {len(found.cells)} cells, {runs} runs")
    fewest = min(len(cell.runs) for cell in found.cells.values())
    if fewest < MIN_RUNS:
        print(f"warning: a cell has {fewest} runs; below {MIN_RUNS} no gate will reach a verdict")
    print(f"gates use it with --baseline {path}, or after `ncf-bench baseline promote {suite}`")
    return OK


def _promote(parsed: argparse.Namespace) -> int:
    from bench.gate.baseline import to_text
    from ncf.record import write_text

    suite, name, signed = (
        _needed(parsed, "suite"),
        _needed(parsed, "name"),
        signature(parsed, _needed(parsed, "why")),
    )
    chosen = read(find(parsed.results, suite, name))
    path = own_path(parsed.results, suite)
    before = read(path) if path.exists() else None
    write_text(path, to_text(chosen.promote(signed, before)))
    print(f"{path}: {name}" + (f", in place of {before.name}" if before else ""))
    return OK


def _list(parsed: argparse.Namespace) -> int:
    from bench.render.model import Table, markdown

    paths = _all(parsed.results, parsed.suite)
    if not paths:
        raise UserError(
            f"{parsed.results / FOLDER} has no baseline; save one with `ncf-bench baseline save "
            "SUITE --name NAME --why TEXT`"
        )
    rows = []
    for path in paths:
        one = read(path)
        runs = [len(cell.runs) for cell in one.side.cells.values()]
        rows.append(
            (
                one.suite,
                one.name,
                "in use" if path.parent.name == FOLDER else "",
                one.saved.when[:10],
                one.saved.who,
                one.saved.why,
                f"{min(runs)} to {max(runs)}" if min(runs) < max(runs) else str(runs[0]),
                "yes" if one.calibrated else "no",
                str(path),
            )
        )
    headers = ("Suite", "Name", "", "Saved", "Who", "Why", "Runs a cell", "Calibrated", "File")
    print(markdown(Table(headers, tuple(rows), headers)))
    return OK


def _show(parsed: argparse.Namespace) -> int:
    from bench.records.identity import fact_text
    from bench.render.model import markdown

    path = find(parsed.results, _needed(parsed, "suite"), parsed.name)
    one = read(path)
    print(f"{one.name}: baseline of {one.suite} ({path})\n")
    print(f"saved by {one.saved.who}, {one.saved.when}: {one.saved.why}")
    for item in one.promoted:
        print(f"promoted {item.name} by {item.who}, {item.when}: {item.why}")
    if one.calibrated:
        print(f"calibrated by {one.calibrated.who}, {one.calibrated.when}: {one.calibrated.why}")
    for cell in one.side.cells.values():
        parts = " ".join(f"{part} {value}" for part, value in cell.fingerprint.items())
        hardware = (fact_text(name, value) for name, value in cell.facts["hardware"].items())
        print(f"\n{cell.label}: {parts}\n{', '.join(hardware)}")
    print(f"\n{markdown(summary(one))}")
    return OK


def summary(baseline: Baseline) -> Table:
    """Median, spread and noise of every metric of every cell."""
    from bench.analysis import metrics
    from bench.render import units
    from bench.render.model import Table
    from bench.stats.summary import summarize

    rows = []
    for cell in baseline.side.cells.values():
        for name in cell.samples:
            one, data = metrics.gated(name), summarize(cell.values(name))
            noise = baseline.noise.get((cell.key, name))
            rows.append(
                (
                    cell.label,
                    name,
                    f"n={data.n}",
                    units.summary(data, one.form),
                    units.not_available() if data.sd is None else one.form(data.sd),
                    one.unit,
                    "not calibrated" if noise is None else f"{noise.sd:.4f}",
                )
            )
    headers = ("Cell", "Metric", "n", "Median", "SD", "Unit", "Noise of a run")
    return Table(headers, tuple(rows), ("Cell", "Metric", "Unit"))


def _needed(parsed: argparse.Namespace, name: str) -> str:
    value = getattr(parsed, name)
    if not value:
        what = "SUITE" if name == "suite" else f"--{name}"
        raise UserError(f"ncf-bench baseline {parsed.action} needs {what}")
    return str(value)


_ACTIONS = {"save": _save, "list": _list, "show": _show, "promote": _promote}
