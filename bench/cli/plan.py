"""`ncf-bench plan`: what `run` would do; `status`: what is stored; `suites`: what is shipped."""

from __future__ import annotations

import json
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.analysis.labels import machine_text
from bench.cli import OK
from bench.cli.common import (
    REPOSITORY_RESULTS,
    add_options,
    chosen_suite,
    load_suite,
    rerun_argument,
    selection,
    suite_arguments,
    this_host,
)
from bench.host.machine import machine_id
from bench.process.supervise import Stop
from bench.records.identity import Machine, summary
from bench.records.store import Store, load
from bench.render import units
from bench.suite.model import cells
from bench.suite.trainer_options import trainer_versions
from bench.suites import shipped
from bench.sweep import lock
from bench.sweep.data import Resolver
from bench.sweep.plan import Plan, make_plan, mixtures
from bench.sweep.plan_text import effect_lines, flag_lines, plan_text, status_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from bench.cli import Parser
    from bench.suite.model import Suite


def plan_arguments(parser: Parser) -> None:
    """The options of `plan`."""
    suite_arguments(parser)
    rerun_argument(parser)


status_arguments = suite_arguments


def plan(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Print what `run` would do; changes nothing."""
    made, _ = _read(parsed, trainer)
    effects = effect_lines(made, Store(parsed.results / made.suite.name).read)
    if parsed.json:
        print(json.dumps({**made.to_dict(), "smallest_effects": effects}, indent=1))
    else:
        print("\n".join([plan_text(made), *effects]))
    return OK


def status(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Print what is stored; changes nothing."""
    made, loaded = _read(parsed, trainer)
    folder = parsed.results / made.suite.name
    unreadable = [(str(path), reason) for path, reason in loaded.unreadable]
    mixed, holder = mixtures(made.suite, loaded.attempts), lock.holder(folder)
    prints = summary(loaded.attempts)
    flagged = Counter(flag for attempt in loaded.attempts for flag in attempt.flags)
    if parsed.json:
        facts = {
            **made.to_dict(),
            "unreadable": [{"file": path, "reason": reason} for path, reason in unreadable],
            "mixed": mixed,
            "fingerprints": prints,
            "flags": dict(sorted(flagged.items())),
            "lock": holder,
        }
        print(json.dumps(facts, indent=1))
    else:
        notes = [*mixed, *prints, *flag_lines(flagged)]
        print(status_text(made, str(folder), unreadable, notes, holder))
    return OK


def _read(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> tuple[Plan, Any]:
    """The plan, and the stored attempts."""
    suite = chosen_suite(parsed, trainer)
    found = Resolver(parsed.data_root, Stop(), print).find(suite, parsed.data)
    host = this_host(suite, machine_id(parsed.results, create=False))
    loaded = load(parsed.results / suite.name)
    data = found.identity if found else None
    versions = trainer_versions(trainer, suite.command)
    plan = make_plan(suite, selection(parsed), loaded.attempts, host, data, versions)
    return plan, loaded


def suites_arguments(parser: Parser) -> None:
    """The options of `suites`."""
    add_options(parser, "results", "json")


def suites(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """List the shipped suites. Times come from stored runs: ours, else those of the repository."""
    facts = [
        _suite_facts(load_suite(name, trainer), [parsed.results, REPOSITORY_RESULTS])
        for name in shipped()
    ]
    if parsed.json:
        print(json.dumps(facts, indent=1))
        return OK
    for suite in facts:
        ranks, seconds = suite["ranks"], suite["expected_seconds"]
        several = f"{', '.join(map(str, ranks[:-1]))} or {ranks[-1]} ranks"
        print(
            f"{suite['name']}: {suite['description']}",
            f"  needs {suite['device'].upper() if suite['device'] else 'CPU or GPU'}, "
            f"{'1 rank' if ranks == [1] else several}, data {suite['data']}",
            f"  {suite['runs']} runs, "
            + (
                "time not known: no stored run of every cell"
                if seconds is None
                else f"about {units.duration(seconds)} as measured on {suite['measured_on']}"
            ),
            sep="\n",
        )
    return OK


def _suite_facts(suite: Suite, results: Sequence[Path]) -> dict[str, Any]:
    """What a suite is, what it needs and how long its runs took, one after the other."""
    grid = cells(suite)
    runs = [cell for cell in grid for _ in suite.seeds_of(cell)]
    facts: dict[str, Any] = {
        "name": suite.name,
        "title": suite.title,
        "description": suite.description,
        "data": suite.data.name,
        "device": suite.device,
        "ranks": sorted({cell.ranks for cell in grid}),
        "runs": len(runs),
        "expected_seconds": None,
        "measured_on": None,
    }
    for folder in results:
        seconds: dict[str, list[float]] = {cell.key: [] for cell in grid}
        host = None
        for attempt in load(folder / suite.name).attempts:
            if attempt.ok and attempt.cell.key in seconds:
                seconds[attempt.cell.key].append(attempt.wall_seconds)
                host = attempt.host
        if host and all(seconds.values()):
            facts["expected_seconds"] = sum(fmean(seconds[cell.key]) for cell in runs)
            facts["measured_on"] = machine_text(Machine.of(host))
            break
    return facts
