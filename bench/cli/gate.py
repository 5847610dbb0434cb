"""`ncf-bench gate`: new runs against a baseline; `ncf-bench compare`: two sets of stored runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli import OK, common
from bench.cli.common import OUTPUT, STATISTICS, WHAT, selection
from bench.cli.session import session, session_arguments
from bench.errors import UserError
from bench.gate import baseline as baselines
from bench.gate import report as gate_report
from bench.gate.samples import Side, side
from bench.records.store import load
from bench.stats import decision
from bench.sweep.progress import View

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from bench.cli import Parser
    from bench.gate.baseline import Baseline
    from bench.gate.compare import Terms
    from bench.gate.gate import Outcome
    from bench.records.attempt import Attempt
    from bench.suite.model import Suite


def gate_arguments(parser: Parser) -> None:
    """The options of `gate`."""
    from bench.gate.gate import POLICIES

    session_arguments(parser)
    what, statistics = parser.group(WHAT), parser.group(STATISTICS)
    what.add_argument(
        "--baseline",
        metavar="FILE",
        help="a file, or the name of a saved baseline [the promoted one]",
    )
    what.add_argument(
        "--stored", action="store_true", help="judge the stored runs; make no new runs"
    )
    statistics.add_argument(
        "--sequential",
        action="store_true",
        help="decide after few runs where possible; add runs to the undecided cells only",
    )
    common.comparison_arguments(parser)
    for name, case in (
        ("inconclusive", "undecided metrics"),
        ("not_comparable", "a baseline of other hardware, data, ..."),
    ):
        statistics.add_argument(
            f"--{name}",
            choices=POLICIES,
            default=POLICIES[0],
            help=f"exit code for {case}: report 3, pass 0, fail 1 [report]",
        )
    output = parser.group(OUTPUT)
    output.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    output.add_argument("--summary", type=Path, metavar="FILE", help="write the Markdown summary")


def gate(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Make or read the runs, judge them, and print and write the verdicts."""
    from bench.gate import gate as gates

    if parsed.stored and parsed.sequential:
        raise UserError("--stored makes no runs, so there is nothing to be --sequential about")
    suite = common.chosen_suite(parsed, trainer)
    baseline = baselines.read(baselines.find(parsed.results, suite.name, parsed.baseline))
    baseline = _part(parsed, suite, baseline)
    wanted = common.comparison_terms(parsed, suite, baseline)
    if parsed.stored:
        outcome = gates.judge(baseline.side, _stored(parsed, suite, baseline), wanted)
    else:
        outcome = _fresh(parsed, trainer, suite, baseline, wanted)
    if not outcome.lines:
        raise UserError(
            f"neither {baseline.name} nor the runs have any of {', '.join(wanted.metrics)}"
        )
    code = outcome.exit_code(gates.Policy(parsed.inconclusive, parsed.not_comparable))
    _tell(parsed, suite, baseline, outcome, wanted, code)
    return code


def _part(parsed: argparse.Namespace, suite: Suite, baseline: Baseline) -> Baseline:
    """Without the cells that --ranks and --precision leave out."""
    from bench.suite.model import cells

    chosen, _ = selection(parsed).of(suite)
    left_out = {cell.key for cell in cells(suite)} - {cell.key for cell in chosen}
    kept = {key: cell for key, cell in baseline.side.cells.items() if key not in left_out}
    return replace(baseline, side=replace(baseline.side, cells=kept))


def _stored(parsed: argparse.Namespace, suite: Suite, baseline: Baseline) -> list[Attempt]:
    """The stored runs that are not the baseline's own: those would agree with themselves."""
    chosen, seeds = selection(parsed).of(suite)
    keys = {cell.key for cell in chosen}
    found = load(parsed.results / suite.name).attempts
    own = {
        (key, run.seed, run.attempt, run.finished_at)
        for key, cell in baseline.side.cells.items()
        for run in cell.runs
    }
    attempts = [
        one
        for one in found
        if one.cell.key in keys
        and one.seed in seeds
        and (one.cell.key, one.seed, one.attempt, one.finished_at) not in own
    ]
    if not attempts:
        raise UserError(
            f"{parsed.results / suite.name} holds no run of this suite beside the baseline's own; "
            "without --stored, the gate makes new ones"
        )
    return attempts


def _fresh(
    parsed: argparse.Namespace,
    trainer: tuple[str, ...],
    suite: Suite,
    baseline: Baseline,
    wanted: Terms,
) -> Outcome:
    from bench.gate import gate as gates

    with session(parsed, trainer, suite, View(sys.stderr, sys.stderr)) as ready:
        plan = ready.plan
        most = len(plan.seeds)
        sizes: Sequence[int] = (most,)
        if parsed.sequential:
            given = [size for size in suite.gate_looks or (6,) if size < most]
            sizes = decision.looks(given, most, f"{suite.name}: [gate] looks")
        made: list[Attempt] = []
        tried: set[tuple[str, int]] = set()

        def make(size: int, keys: frozenset[str] | None) -> Sequence[Attempt]:
            runs = [
                (cell, seed)
                for cell, seed in plan.runs
                if seed in [one for one in suite.seeds_of(cell) if one in plan.seeds][:size]
                and (keys is None or cell.key in keys)
                and (cell.key, seed) not in tried
            ]
            tried.update((cell.key, seed) for cell, seed in runs)
            made.extend(ready.make(runs))
            return made

        return gates.play(baseline.side, wanted, sizes, make)


def _tell(
    parsed: argparse.Namespace,
    suite: Suite,
    baseline: Baseline,
    outcome: Outcome,
    wanted: Terms,
    code: int,
) -> None:
    """Print, and write the files that were asked for, and GitHub's."""
    from bench.gate.gate import FAIL, find_warnings
    from bench.stats.decision import INCONCLUSIVE, NOT_COMPARABLE, REGRESSED
    from ncf.record import write_text

    warnings = find_warnings(baseline.side, outcome, wanted.across)
    about = _about(baseline, outcome, code)
    title = f"Gate {suite.name}"
    summary = gate_report.markdown(title, outcome.lines, about, warnings)
    facts = {
        "suite": suite.name,
        "baseline": baseline.name,
        "exit_code": code,
        "looks": list(outcome.sizes),
        "warnings": warnings,
        "failed_runs": len(outcome.failed),
    }
    print(gate_report.as_json(outcome.lines, facts) if parsed.json else summary, end="")
    if parsed.json:
        print()
    policies = (
        (INCONCLUSIVE, parsed.inconclusive),
        (NOT_COMPARABLE, parsed.not_comparable),
    )
    failing = [REGRESSED, *(verdict for verdict, choice in policies if choice == FAIL)]
    if parsed.junit:
        xml = gate_report.junit(suite.name, outcome.lines, failing, outcome.broken)
        write_text(parsed.junit, xml)
    if parsed.summary:
        write_text(parsed.summary, summary)
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
            file.write(summary)
    if os.environ.get("GITHUB_ACTIONS") == "true" and not parsed.json:
        print("\n".join(gate_report.github_annotations(suite.name, outcome.lines, warnings)))


def _about(baseline: Baseline, outcome: Outcome, code: int) -> list[str]:
    """What was compared, in a line or two."""
    saved = baseline.saved
    lines = [f"Baseline **{baseline.name}**: {saved.why} ({saved.who}, {saved.when[:10]})."]
    if baseline.calibrated is None:
        lines[0] += " Not calibrated: drift of the machine from day to day is not known."
    if len(outcome.sizes) > 1:
        lines.append(f"Looked after {', '.join(map(str, outcome.sizes))} runs a cell.")
    codes = {hash_ for one in (baseline.side, outcome.tested) for hash_ in _codes(one)}
    if len(codes) == 1 and None not in codes:
        lines.append("The trainer's code is the same on both sides.")
    meaning = {0: "nothing lost", 1: "a loss", 2: "runs failed", 3: "open"}
    lines.append(f"Exit code {code} ({meaning[code]}).")
    return lines


def _codes(side: Side) -> set[str | None]:
    return {cell.facts["code"].get("code") for cell in side.cells.values()}


def compare_arguments(parser: Parser) -> None:
    """The options of `compare`."""
    for name, role in (("a", "the reference"), ("b", "the set that is judged")):
        parser.group(WHAT).add_argument(
            name,
            metavar=name.upper(),
            help=f"{role}: a folder with records (results/smoke), a suite's name, or a baseline",
        )
    common.add_options(parser, "results")
    common.comparison_arguments(parser)
    common.add_options(parser, "json")


def compare(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """Compare two sets of stored runs."""
    from bench.gate.compare import compare as compare_sides

    (old, baseline), (new, _) = (_side(text, parsed.results) for text in (parsed.a, parsed.b))
    lines = compare_sides(old, new, common.comparison_terms(parsed, baseline=baseline))
    if not lines:
        raise UserError(f"{parsed.a} and {parsed.b} have none of the metrics asked for")
    if parsed.json:
        print(gate_report.as_json(lines, {"baseline": old.label, "here": new.label}))
    else:
        about = f"Baseline: {old.label}; here: {new.label}"
        print(gate_report.markdown("Comparison", lines, [about]), end="")
    return OK


def _side(text: str, results: Path) -> tuple[Side, Baseline | None]:
    from bench.records.store import load

    if text.endswith(".json"):
        found = baselines.read(Path(text))
        return found.side, found
    folder = common.records_folder(text, results, ", nor a baseline's .json file")
    made = side(str(folder), load(folder).attempts)
    if not made.cells:
        raise UserError(f"{folder} holds no good run to compare")
    return made, None
