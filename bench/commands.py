"""What the commands do: each puts the pure parts and the effects together."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import lock, suites
from bench.errors import UserError
from bench.host import machine_id, read_host
from bench.options import did_you_mean, trainer_options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from bench.plan import Plan, Selection
    from bench.store import Store
    from bench.suite import Suite
    from bench.sweep import Result
    from bench.view import View

NAMES = ("run", "plan", "status", "report")
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def load_suite(name: str, trainer: tuple[str, ...]) -> Suite:
    """A shipped suite or a file, checked against the trainer's options."""
    from bench.suite_file import parse

    if name not in suites.shipped() and "/" not in name and not name.endswith(".toml"):
        near = did_you_mean(name, NAMES)
        if near:
            raise UserError(f"unknown command or suite {name!r}{near}")
    stem, where, text = suites.read(name)
    return parse(text, stem, where, trainer_options(trainer))


def run(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """`bench run`: make what is missing, then report."""
    from bench.data import Interrupted
    from bench.launch import Stop
    from bench.plan import make_plan, none_available
    from bench.store import Store
    from bench.view import View

    suite, selection = load_suite(parsed.suite, trainer), _selection(parsed)
    view = View(sys.stderr if parsed.json else sys.stdout, sys.stderr)
    store = Store(parsed.results / suite.name)
    wish = make_plan(suite, selection, [], read_host(), None)
    if not wish.available:
        raise none_available(wish)
    with Stop() as stop, lock.held(store.folder, view.say):
        try:
            plan, result = _sweep(parsed, trainer, suite, selection, view, store, stop)
        except Interrupted:
            view.say("interrupted while the data were being made")
            return INTERRUPTED
        if result.interrupted:
            code = INTERRUPTED
        else:
            good = {(a.cell.key, a.seed) for a in result.attempts if a.ok}
            code = OK if len(good) == len(plan.runs) else FAILED
        written = [] if parsed.no_report or result.interrupted else _write_report(parsed, suite)
    if plan.runs:
        view.say(_farewell(plan, result, code))
    for path in written:
        if path.suffix == ".md":
            view.say(f"report: {path}")
    if parsed.json:
        print(json.dumps(_outcome(plan, result, code, written), indent=1))
    return code


def _sweep(
    parsed: argparse.Namespace,
    trainer: tuple[str, ...],
    suite: Suite,
    selection: Selection,
    view: View,
    store: Store,
    stop: Any,
) -> tuple[Plan, Result]:
    """Under the lock: clear up, get the data, plan, run."""
    from bench import running
    from bench.data import Resolver
    from bench.launch import LocalLauncher
    from bench.plan import make_plan
    from bench.sweep import Sweep, run_sweep
    from bench.view import plan_text

    running.recover(store, view.say)
    host = read_host(machine_id(parsed.results, create=True))
    data = Resolver(parsed.data_root, stop, view.say, trainer).resolve(suite, parsed.data)
    loaded = store.load()
    for path, reason in loaded.unreadable:
        view.say(f"unreadable, not counted: {path}: {reason}")
    plan = make_plan(suite, selection, loaded.attempts, host, data.identity)
    view.say(plan_text(plan))
    sweep = Sweep(
        suite=suite,
        store=store,
        data=data,
        host=host,
        launcher=LocalLauncher(host.horovodrun, trainer, host.cores),
        view=view,
        stop=stop,
        timeout_s=parsed.timeout or suite.timeout_s,
        max_failures=parsed.max_failures,
        retry_failed=parsed.retry_failed,
    )
    return plan, run_sweep(sweep, plan)


def _farewell(plan: Plan, result: Result, code: int) -> str:
    good = plan.stored + sum(attempt.ok for attempt in result.attempts)
    text = f"{plan.suite.name}: {good} of {plan.total} runs are stored"
    if result.failures and code != INTERRUPTED:
        failed = Counter(attempt.status for attempt in result.attempts if not attempt.ok)
        kinds = ", ".join(f"{n} {status}" for status, n in sorted(failed.items()))
        text += f"; failed: {kinds}"
    if code == INTERRUPTED:
        text += "; interrupted"
    return text if code == OK else f"{text} (run again to go on)"


def _outcome(plan: Plan, result: Result, code: int, written: Sequence[Path]) -> dict[str, Any]:
    """For --json."""
    ran = [
        {
            "cell": attempt.cell.key,
            "seed": attempt.seed,
            "attempt": attempt.attempt,
            "status": attempt.status,
            "failure": asdict(attempt.failure) if attempt.failure else None,
            "wall_seconds": attempt.wall_seconds,
        }
        for attempt in result.attempts
    ]
    return {
        "plan": plan.to_dict(),
        "ran": ran,
        "exit_code": code,
        "report": [str(path) for path in written],
    }


def plan(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """`bench plan`: what `run` would do; changes nothing."""
    from bench.view import plan_text

    made, _ = _look(parsed, trainer)
    print(json.dumps(made.to_dict(), indent=1) if parsed.json else plan_text(made))
    return OK


def status(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """`bench status`: what is stored; changes nothing."""
    from bench.plan import mixtures
    from bench.view import status_text

    made, loaded = _look(parsed, trainer)
    folder = parsed.results / made.suite.name
    unreadable = [(str(path), reason) for path, reason in loaded.unreadable]
    mixed, holder = mixtures(made, loaded.attempts), lock.holder(folder)
    if parsed.json:
        facts = {
            **made.to_dict(),
            "unreadable": [{"file": path, "reason": reason} for path, reason in unreadable],
            "mixed": mixed,
            "lock": holder,
        }
        print(json.dumps(facts, indent=1))
    else:
        print(status_text(made, str(folder), unreadable, mixed, holder))
    return OK


def _look(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> tuple[Plan, Any]:
    """The plan as things stand, and what is stored."""
    from bench.data import Resolver
    from bench.launch import Stop
    from bench.plan import make_plan
    from bench.store import load

    suite = load_suite(parsed.suite, trainer)
    found = Resolver(parsed.data_root, Stop(), print).find(suite, parsed.data)
    host = read_host(machine_id(parsed.results, create=False))
    loaded = load(parsed.results / suite.name)
    data = found.identity if found else None
    return make_plan(suite, _selection(parsed), loaded.attempts, host, data), loaded


def _selection(parsed: argparse.Namespace) -> Selection:
    from bench.plan import Selection

    return Selection(parsed.ranks, parsed.precision, parsed.seeds)


def _write_report(parsed: argparse.Namespace, suite: Suite) -> list[Path]:
    from bench.report import write_report

    csv = published_csv(parsed.results)
    return list(write_report(suite, parsed.results, parsed.plots, csv))


def published_csv(results: Path) -> Path:
    """The published figures beside our results, or those of the repository."""
    inside = Path("published") / "ncf_published.csv"
    with contextlib.suppress(OSError):
        if (results / inside).is_file():
            return results / inside
    return Path(__file__).parent.parent / "results" / inside
