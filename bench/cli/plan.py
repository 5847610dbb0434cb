"""`ncf-bench plan`: what `run` would do; `status`: what is stored; `suites`: what is shipped."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from bench.cli import OK
from bench.cli.common import chosen_suite, rerun_argument, selection, suite_arguments, this_host
from bench.host.machine import machine_id
from bench.process.supervise import Stop
from bench.records.identity import summary
from bench.records.store import Store, load
from bench.suite.trainer_options import trainer_versions
from bench.sweep import lock
from bench.sweep.data import Resolver
from bench.sweep.plan import Plan, make_plan, mixtures
from bench.sweep.plan_text import effect_lines, flag_lines, plan_text, status_text

if TYPE_CHECKING:
    import argparse

    from bench.cli import Parser


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
