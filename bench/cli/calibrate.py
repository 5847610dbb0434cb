"""`ncf-bench calibrate`: the same code against itself, round after round."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.cli import FAILED, OK, common
from bench.cli.session import session, session_arguments
from bench.errors import UserError
from bench.gate import baseline as baselines
from bench.sweep.progress import View

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.cli import Parser
    from bench.gate.compare import Terms
    from bench.gate.samples import Side
    from bench.render.model import Table
    from bench.stats.variance import Noise

ROUNDS = 6


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
    parser.group(common.OUTPUT).add_argument(
        "--baseline",
        metavar="FILE",
        help="store the noise in this baseline: a file, the name of a saved baseline, or `own` for "
        "the promoted one [not stored]",
    )
    common.add_options(parser, "who")


def calibrate(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Make the rounds, measure their noise, store it where that is wanted."""
    from bench.gate.samples import side
    from bench.render.model import markdown
    from bench.stats.variance import FEWEST_ROUNDS

    if parsed.rounds < FEWEST_ROUNDS:
        raise UserError(
            f"--rounds {parsed.rounds}: at least {FEWEST_ROUNDS} rounds are needed to measure drift"
        )
    suite = common.chosen_suite(parsed, trainer)
    wanted = common.comparison_terms(parsed, suite)
    path = None
    if parsed.baseline:
        name = None if parsed.baseline == "own" else parsed.baseline
        path = baselines.find(parsed.results, suite.name, name)
        baselines.read(path)  # a mistake is told before hours of runs
    rounds = []
    with session(parsed, trainer, suite, View(sys.stderr, sys.stderr)) as ready:
        for number in range(1, parsed.rounds + 1):
            ready.sweep.view.say(f"round {number} of {parsed.rounds}")
            rounds.append(side(f"round {number}", ready.make(ready.plan.runs)))
    noise = measured(rounds, wanted)
    if not noise:
        print(f"no cell has {FEWEST_ROUNDS} rounds of 2 good runs: nothing was measured")
        return FAILED
    planned = len(ready.plan.seeds)
    if parsed.json:
        print(json.dumps(_plain(noise, wanted, rounds, planned), indent=1, allow_nan=False))
    else:
        print(markdown(table(noise, wanted, rounds, planned)))
    if path is not None:
        _store(parsed, path, noise, rounds[-1], wanted)
    return OK


def measured(rounds: Sequence[Side], wanted: Terms) -> dict[tuple[str, str], Noise]:
    """The noise of each cell and metric that every round has."""
    from bench.analysis import metrics
    from bench.stats.variance import measure

    found = {}
    for key in dict.fromkeys(key for one in rounds for key in one.cells):
        for name in wanted.metrics:
            metric = metrics.gated(name)
            values = [
                [metric.scaled(value) for value in one.cells[key].values(name)]
                for one in rounds
                if key in one.cells
            ]
            noise = measure(values, robust=metric.robust)
            if noise is not None:
                found[key, name] = noise
    return found


def _plain(
    noise: Mapping[tuple[str, str], Noise], wanted: Terms, rounds: Sequence[Side], n: int
) -> list[dict[str, object]]:
    """A line per cell and metric, unrounded."""
    from bench.analysis import metrics
    from bench.stats.summary import TARGET_LOSS

    lines: list[dict[str, object]] = []
    cells = {key: cell for one in rounds for key, cell in one.cells.items()}
    for (key, name), found in noise.items():
        metric = metrics.gated(name)
        margin = wanted.margin(metric, cells[key].facts["data"]["name"])
        loss = TARGET_LOSS if metric.scale == "ratio" else 2 * margin
        scaled = -math.log1p(-loss) if metric.scale == "ratio" else loss
        lines.append(
            {
                "cell": key,
                "label": cells[key].label,
                "metric": name,
                "scale": metric.scale,
                "runs": found.runs,
                "rounds": found.rounds,
                "sd": found.sd,
                "sd_between_rounds": math.sqrt(found.between),
                "n": n,
                "margin": margin,
                "noise_margin": found.margin(n),
                "loss": loss,
                "n_needed": found.runs_to_find(scaled, metric.scaled_margin(margin)),
            }
        )
    return lines


def table(
    noise: Mapping[tuple[str, str], Noise], wanted: Terms, rounds: Sequence[Side], n: int
) -> Table:
    """The noise in words: relative where ratios are compared."""
    from bench.render.model import Table

    rows = []
    for line in _plain(noise, wanted, rounds, n):
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
    wanted: Terms,
) -> None:
    """Add the noise to the baseline, if it is of the same machine, data and so on."""
    from bench.gate.baseline import to_text
    from bench.records.identity import differences
    from ncf.record import write_text

    baseline = baselines.read(path)
    for key, cell in last.cells.items():
        other = baseline.side.cells.get(key)
        wrong = (
            ("the baseline has no such cell",)
            if other is None
            else tuple(
                map(str, differences(other.facts, cell.facts, wanted.across, wanted.left_out))
            )
        )
        if wrong:
            raise UserError(
                f"{path}: the noise of {cell.label} cannot be stored with it: {'; '.join(wrong)}"
            )
    why = f"{parsed.rounds} rounds"
    signed = common.signature(parsed, why)
    merged = {**baseline.noise, **noise}
    write_text(path, to_text(replace(baseline, calibrated=signed, noise=merged)))
    print(f"stored with {path}")
