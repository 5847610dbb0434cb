"""`ncf-bench baseline`: files under results/baselines/; `calibrate`: the noise of the same code."""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.analysis import metrics
from bench.cli import FAILED, OK, PROGRAM, common
from bench.cli.common import OUTPUT, WHAT, add_options
from bench.cli.session import session, session_arguments
from bench.errors import UserError
from bench.files import utc_now, write_new
from bench.gate import baseline as baselines
from bench.gate.baseline import FOLDER, Baseline, Signed, find, own_path, saved_path, to_text
from bench.gate.samples import side
from bench.records.identity import differences, fact_text
from bench.records.store import load
from bench.render import units
from bench.render.model import Table, markdown
from bench.stats.summary import MIN_RUNS, TARGET_LOSS, summarize
from bench.stats.variance import FEWEST_ROUNDS, measure
from bench.sweep.progress import View
from ncf.record import write_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.cli import Parser
    from bench.gate.compare import Terms
    from bench.gate.samples import Side
    from bench.stats.variance import Noise

ROUNDS = 6


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
    suite, name = _required(parsed, "suite"), _required(parsed, "name")
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name[0] in ".-":
        raise UserError(f"--name {name!r}: letters, digits, . _ - only; it becomes a file's name")
    signed = _signature(parsed, _required(parsed, "why"))
    runs = side(suite, load(parsed.results / suite).attempts, every=parsed.every)
    if not runs.cells:
        raise UserError(
            f"{parsed.results / suite} has no good run to save; run `{PROGRAM} run {suite}`"
        )
    path = saved_path(parsed.results, suite, name)
    try:
        write_new(path, to_text(Baseline(name, suite, signed, runs)))
    except FileExistsError:
        raise UserError(
            f"{path} exists; a baseline is never overwritten: choose a --name"
        ) from None
    counts = [len(cell.runs) for cell in runs.cells.values()]
    print(f"{path}: {len(counts)} cells, {sum(counts)} runs")
    if min(counts) < MIN_RUNS:
        print(
            f"warning: a cell has {min(counts)} runs; below {MIN_RUNS} no gate will reach a verdict"
        )
    print(f"gates use it with --baseline {path}, or after `{PROGRAM} baseline promote {suite}`")
    return OK


def _promote(parsed: argparse.Namespace) -> int:
    suite, name = _required(parsed, "suite"), _required(parsed, "name")
    signed = _signature(parsed, _required(parsed, "why"))
    chosen = baselines.read(find(parsed.results, suite, name))
    path = own_path(parsed.results, suite)
    before = baselines.read(path) if path.exists() else None
    write_text(path, to_text(chosen.promote(signed, before)))
    print(f"{path}: {name}" + (f", in place of {before.name}" if before else ""))
    return OK


def _list(parsed: argparse.Namespace) -> int:
    paths = baselines.files(parsed.results, parsed.suite)
    if not paths:
        raise UserError(
            f"{parsed.results / FOLDER} has no baseline; save one with `{PROGRAM} baseline save "
            "SUITE --name NAME --why TEXT`"
        )
    rows = []
    for path in paths:
        item = baselines.read(path)
        runs = [len(cell.runs) for cell in item.side.cells.values()]
        rows.append(
            (
                item.suite,
                item.name,
                "in use" if path.parent.name == FOLDER else "",
                item.saved.when[:10],
                item.saved.who,
                item.saved.why,
                f"{min(runs)} to {max(runs)}" if min(runs) < max(runs) else str(runs[0]),
                "yes" if item.calibrated else "no",
                str(path),
            )
        )
    headers = ("Suite", "Name", "", "Saved", "Who", "Why", "Runs a cell", "Calibrated", "File")
    print(markdown(Table(headers, tuple(rows), headers)))
    return OK


def _show(parsed: argparse.Namespace) -> int:
    path = find(parsed.results, _required(parsed, "suite"), parsed.name)
    item = baselines.read(path)
    print(f"{item.name}: baseline of {item.suite} ({path})\n")
    events = [("saved", item.saved), *((f"promoted {by.name}", by) for by in item.promoted)]
    if item.calibrated:
        events.append(("calibrated", item.calibrated))
    for what, by in events:
        print(f"{what} by {by.who}, {by.when}: {by.why}")
    for cell in item.side.cells.values():
        parts = " ".join(f"{part} {value}" for part, value in cell.fingerprint.items())
        hardware = (fact_text(name, value) for name, value in cell.facts["hardware"].items())
        print(f"\n{cell.label}: {parts}\n{', '.join(hardware)}")
    print(f"\n{markdown(summary(item))}")
    return OK


_ACTIONS = {"save": _save, "list": _list, "show": _show, "promote": _promote}


def summary(baseline: Baseline) -> Table:
    """Median, spread and noise of every metric of every cell."""
    rows = []
    for cell in baseline.side.cells.values():
        for name in cell.samples:
            metric, data = metrics.gated(name), summarize(cell.values(name))
            noise = baseline.noise.get((cell.key, name))
            rows.append(
                (
                    cell.label,
                    name,
                    f"n={data.n}",
                    units.summary(data, metric.form),
                    units.not_available() if data.sd is None else metric.form(data.sd),
                    metric.unit,
                    "not calibrated" if noise is None else f"{noise.sd:.4f}",
                )
            )
    headers = ("Cell", "Metric", "n", "Median", "SD", "Unit", "Noise of a run")
    return Table(headers, tuple(rows), ("Cell", "Metric", "Unit"))


def _required(parsed: argparse.Namespace, name: str) -> str:
    """The value of an option that this action needs."""
    value = getattr(parsed, name)
    if not value:
        what = "SUITE" if name == "suite" else f"--{name}"
        raise UserError(f"{PROGRAM} baseline {parsed.action} needs {what}")
    return str(value)


def _signature(parsed: argparse.Namespace, why: str) -> Signed:
    """Who does this, why and when."""
    return Signed(parsed.who or _login(), why, utc_now())


def _login() -> str:
    """Git's user.name, else the login name."""
    with contextlib.suppress(OSError):
        command = ["git", "config", "user.name"]
        git = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
        if git.stdout.strip():
            return git.stdout.strip()
    with contextlib.suppress(Exception):  # no login name either: containers
        return getpass.getuser()
    return "unknown"


def calibrate_arguments(parser: Parser) -> None:
    """The options of `calibrate`."""
    session_arguments(parser)
    parser.group(common.STATISTICS).add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        metavar="N",
        help=f"repetitions of the suite, at least 3; more rounds measure drift better [{ROUNDS}]",
    )
    common.comparison_arguments(parser)
    parser.group(OUTPUT).add_argument(
        "--baseline",
        metavar="FILE",
        help="store the noise in this baseline: a file, the name of a saved baseline, or `own` for "
        "the promoted one [not stored]",
    )
    add_options(parser, "who")


def calibrate(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Make the rounds, measure their noise, store it where that is terms."""
    if parsed.rounds < FEWEST_ROUNDS:
        raise UserError(
            f"--rounds {parsed.rounds}: at least {FEWEST_ROUNDS} rounds are needed to measure drift"
        )
    suite = common.chosen_suite(parsed, trainer)
    terms = common.comparison_terms(parsed, suite)
    path = None
    if parsed.baseline:
        name = None if parsed.baseline == "own" else parsed.baseline
        path = baselines.find(parsed.results, suite.name, name)
        baselines.read(path)  # a mistake is reported before hours of runs
    rounds = []
    with session(parsed, trainer, suite, View(sys.stderr, sys.stderr)) as ready:
        for number in range(1, parsed.rounds + 1):
            ready.sweep.view.say(f"round {number} of {parsed.rounds}")
            rounds.append(side(f"round {number}", ready.make(ready.plan.runs)))
    noise = measured(rounds, terms)
    if not noise:
        print(f"no cell has {FEWEST_ROUNDS} rounds of 2 good runs: nothing was measured")
        return FAILED
    planned = len(ready.plan.seeds)
    if parsed.json:
        print(json.dumps(_plain(noise, terms, rounds, planned), indent=1, allow_nan=False))
    else:
        print(markdown(table(noise, terms, rounds, planned)))
    if path is not None:
        _store(parsed, path, noise, rounds[-1], terms)
    return OK


def measured(rounds: Sequence[Side], terms: Terms) -> dict[tuple[str, str], Noise]:
    """The noise of each cell and metric that every round has."""
    noises = {}
    for key in dict.fromkeys(key for one in rounds for key in one.cells):
        for name in terms.metrics:
            metric = metrics.gated(name)
            values = [
                [metric.scaled(value) for value in one.cells[key].values(name)]
                for one in rounds
                if key in one.cells
            ]
            noise = measure(values, robust=metric.robust)
            if noise is not None:
                noises[key, name] = noise
    return noises


def _plain(
    noise: Mapping[tuple[str, str], Noise], terms: Terms, rounds: Sequence[Side], n: int
) -> list[dict[str, object]]:
    """A line per cell and metric, unrounded."""
    lines: list[dict[str, object]] = []
    cells = {key: cell for one in rounds for key, cell in one.cells.items()}
    for (key, name), item in noise.items():
        metric = metrics.gated(name)
        margin = terms.margin(metric, cells[key].facts["data"]["name"])
        loss = TARGET_LOSS if metric.scale == "ratio" else 2 * margin
        scaled = -math.log1p(-loss) if metric.scale == "ratio" else loss
        lines.append(
            {
                "cell": key,
                "label": cells[key].label,
                "metric": name,
                "scale": metric.scale,
                "runs": item.runs,
                "rounds": item.rounds,
                "sd": item.sd,
                "sd_between_rounds": math.sqrt(item.between),
                "n": n,
                "margin": margin,
                "noise_margin": item.margin(n),
                "loss": loss,
                "n_needed": item.runs_to_find(scaled, metric.scaled_margin(margin)),
            }
        )
    return lines


def table(
    noise: Mapping[tuple[str, str], Noise], terms: Terms, rounds: Sequence[Side], n: int
) -> Table:
    """The noise in words: relative where ratios are compared."""
    rows = []
    for line in _plain(noise, terms, rounds, n):
        form = "{:.2%}" if line["scale"] == "ratio" else "{:.5f}"
        names = ("sd", "sd_between_rounds", "margin", "noise_margin", "loss")
        needed = line["n_needed"]
        rows.append(
            (
                str(line["label"]),
                str(line["metric"]),
                f"{line['runs']} in {line['rounds']} rounds",
                *(form.format(line[name]) for name in names),
                "none would do" if needed is None else str(needed),
            )
        )
    headers = ("Cell", "Metric", "Runs", "SD of a run", "SD from round to round", "Margin")
    more = (f"Noise, {n} runs a side", "A loss of", "needs runs a side")
    return Table((*headers, *more), tuple(rows), ("Cell", "Metric"))


def _store(
    parsed: argparse.Namespace,
    path: Path,
    noise: Mapping[tuple[str, str], Noise],
    last: Side,
    terms: Terms,
) -> None:
    """Add the noise to the baseline, if it is of the same machine, data and so on."""
    item = baselines.read(path)
    for key, cell in last.cells.items():
        other = item.side.cells.get(key)
        problems = ["the baseline has no such cell"]
        if other is not None:
            facts = differences(other.facts, cell.facts, terms.across, terms.left_out)
            problems = [str(fact) for fact in facts]
        if problems:
            raise UserError(
                f"{path}: the noise of {cell.label} cannot be stored with it: {'; '.join(problems)}"
            )
    signed = _signature(parsed, f"{parsed.rounds} rounds")
    merged = {**item.noise, **noise}
    write_text(path, to_text(replace(item, calibrated=signed, noise=merged)))
    print(f"stored with {path}")
