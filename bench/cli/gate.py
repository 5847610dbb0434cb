"""`ncf-bench gate`: new runs against a baseline; `ncf-bench compare`: two sets of stored runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli import OK, common
from bench.cli.common import OUTPUT, STATISTICS, WHAT
from bench.cli.session import Session, session, session_arguments
from bench.errors import UserError
from bench.gate import baseline as baselines
from bench.gate import gate as gates
from bench.gate import report as gate_report
from bench.gate import samples as sides
from bench.gate.compare import Terms
from bench.gate.compare import compare as compare_sides
from bench.records.store import load
from bench.stats import decision
from bench.suite.model import cells
from bench.sweep.progress import View
from ncf.record import write_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from bench.cli import Parser
    from bench.gate.baseline import Baseline
    from bench.gate.samples import Side
    from bench.records.attempt import Attempt
    from bench.suite.model import Suite


def gate_arguments(parser: Parser) -> None:
    """The options of `gate`."""
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
            choices=gates.POLICIES,
            default=gates.POLICIES[0],
            help=f"exit code for {case}: report 3, pass 0, fail 1 [report]",
        )
    output = parser.group(OUTPUT)
    output.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    output.add_argument("--summary", type=Path, metavar="FILE", help="write the Markdown summary")


def gate(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Make or read the runs, judge them, and print and write the verdicts."""
    if parsed.stored and parsed.sequential:
        raise UserError("--sequential plans new runs, and --stored makes none: drop one of the two")
    suite = common.chosen_suite(parsed, trainer)
    baseline = baselines.read(baselines.find(parsed.results, suite.name, parsed.baseline))
    chosen, seeds = common.selection(parsed).of(suite)
    skipped = {cell.key for cell in cells(suite)} - {cell.key for cell in chosen}
    kept = {key: cell for key, cell in baseline.side.cells.items() if key not in skipped}
    baseline = replace(baseline, side=replace(baseline.side, cells=kept))
    terms = common.comparison_terms(parsed, suite, baseline)
    if parsed.stored:
        loaded = load(parsed.results / suite.name).attempts
        keys = {cell.key for cell in chosen}
        attempts = [a for a in loaded if a.cell.key in keys and a.seed in seeds]
        outcome = gates.judge(baseline.side, _without(baseline, attempts, suite), terms)
    else:
        with session(parsed, trainer, suite, View(sys.stderr, sys.stderr)) as ready:
            outcome = _new_runs(ready, baseline, terms, sequential=parsed.sequential)
    if not outcome.lines:
        raise UserError(
            f"neither {baseline.name} nor the runs have any of {', '.join(terms.metrics)}"
        )
    code = outcome.exit_code(gates.Policy(parsed.inconclusive, parsed.not_comparable))
    _publish(parsed, suite, baseline, outcome, terms, code)
    return code


def _without(baseline: Baseline, attempts: Sequence[Attempt], suite: Suite) -> list[Attempt]:
    """The attempts that are not the baseline's own: those would agree with themselves."""
    saved = {
        (key, run.seed, run.attempt, run.finished_at)
        for key, cell in baseline.side.cells.items()
        for run in cell.runs
    }
    new = [a for a in attempts if (a.cell.key, a.seed, a.attempt, a.finished_at) not in saved]
    if not new:
        raise UserError(
            f"{suite.name} has no stored run that is not in the baseline; "
            "without --stored, the gate makes new runs"
        )
    return new


def _new_runs(
    ready: Session, baseline: Baseline, terms: Terms, *, sequential: bool
) -> gates.Outcome:
    """Make runs and judge them; sequentially, further runs of the undecided cells only."""
    suite, plan = ready.plan.suite, ready.plan
    most = len(plan.seeds)
    sizes: Sequence[int] = (most,)
    if sequential:
        looks = [size for size in suite.gate_looks or (6,) if size < most]
        sizes = decision.looks(looks, most, f"{suite.name}: [gate] looks")
    attempts: list[Attempt] = []
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
        attempts.extend(ready.make(runs))
        return attempts

    return gates.play(baseline.side, terms, sizes, make)


def _publish(
    parsed: argparse.Namespace,
    suite: Suite,
    baseline: Baseline,
    outcome: gates.Outcome,
    terms: Terms,
    code: int,
) -> None:
    """Print, and write the chosen files, and GitHub's."""
    warnings = gates.find_warnings(baseline.side, outcome, terms.across)
    about = _about(baseline, outcome, code)
    summary = gate_report.markdown(f"Gate {suite.name}", outcome.lines, about, warnings)
    facts = {
        "suite": suite.name,
        "baseline": baseline.name,
        "exit_code": code,
        "looks": list(outcome.sizes),
        "warnings": warnings,
        "failed_runs": len(outcome.failed),
    }
    print(f"{gate_report.as_json(outcome.lines, facts)}\n" if parsed.json else summary, end="")
    policies = {
        decision.INCONCLUSIVE: parsed.inconclusive,
        decision.NOT_COMPARABLE: parsed.not_comparable,
    }
    failing = [verdict for verdict, policy in policies.items() if policy == gates.FAIL]
    if parsed.junit:
        failing = [decision.REGRESSED, *failing]
        xml = gate_report.junit(suite.name, outcome.lines, failing, outcome.broken)
        write_text(parsed.junit, xml)
    if parsed.summary:
        write_text(parsed.summary, summary)
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
            file.write(summary)
    if os.environ.get("GITHUB_ACTIONS") == "true" and not parsed.json:
        print("\n".join(gate_report.github_annotations(suite.name, outcome.lines, warnings)))


def _about(baseline: Baseline, outcome: gates.Outcome, code: int) -> list[str]:
    """What was compared, in a line or two."""
    saved = baseline.saved
    lines = [f"Baseline **{baseline.name}**: {saved.why} ({saved.who}, {saved.when[:10]})."]
    if baseline.calibrated is None:
        lines[0] += " Not calibrated: drift of the machine from day to day is not known."
    if len(outcome.sizes) > 1:
        lines.append(f"Looked after {', '.join(map(str, outcome.sizes))} runs a cell.")
    codes = {
        cell.facts["code"].get("code")
        for side in (baseline.side, outcome.tested)
        for cell in side.cells.values()
    }
    if len(codes) == 1 and None not in codes:
        lines.append("The trainer's code is the same on both sides.")
    meaning = {0: "pass", 1: "regression", 2: "runs failed", 3: "inconclusive"}
    lines.append(f"Exit code {code} ({meaning[code]}).")
    return lines


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
    (old, baseline), (new, _) = (_side(text, parsed.results) for text in (parsed.a, parsed.b))
    lines = compare_sides(old, new, common.comparison_terms(parsed, baseline=baseline))
    if not lines:
        raise UserError(f"{parsed.a} and {parsed.b} share none of the chosen metrics")
    if parsed.json:
        print(gate_report.as_json(lines, {"baseline": old.label, "here": new.label}))
    else:
        about = f"Baseline: {old.label}; here: {new.label}"
        print(gate_report.markdown("Comparison", lines, [about]), end="")
    return OK


def _side(text: str, results: Path) -> tuple[Side, Baseline | None]:
    """The runs of a baseline's file, or those stored in a folder."""
    if text.endswith(".json"):
        baseline = baselines.read(Path(text))
        return baseline.side, baseline
    folder = common.records_folder(text, results, ", nor a baseline's .json file")
    side = sides.side(str(folder), load(folder).attempts)
    if not side.cells:
        raise UserError(f"{folder} has no good run to compare")
    return side, None
