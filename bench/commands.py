"""What the commands do: each puts the pure parts and the effects together."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import lock, suites
from bench.errors import UserError
from bench.host import machine_id, read_host
from bench.options import INFER, did_you_mean, trainer_options, trainer_versions
from bench.suite import LAUNCHERS

if TYPE_CHECKING:
    from bench.host import Host
    from bench.plan import Plan, Selection
    from bench.suite import Suite

NAMES = (
    "run",
    "plan",
    "status",
    "report",
    "ingest",
    "export",
    "doctor",
    "check",
    "scaling",
    "baseline",
    "compare",
    "gate",
    "calibrate",
)
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def load_suite(name: str, trainer: tuple[str, ...]) -> Suite:
    """A shipped suite or a file, checked against the trainer's options."""
    from bench.suite_file import parse

    if name not in suites.shipped() and "/" not in name and not name.endswith(".toml"):
        near = did_you_mean(name, NAMES)
        if near:
            raise UserError(f"unknown command or suite {name!r}{near}")
    stem, where, text = suites.read(name)
    infer = trainer_options(trainer, INFER)
    return parse(text, stem, where, trainer_options(trainer), infer)


def load_wanted(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> Suite:
    """The suite, with the launcher and the hosts that the command line names instead."""
    from bench import hosts

    suite = load_suite(parsed.suite, trainer)
    if parsed.launcher:
        suite = replace(suite, launcher=parsed.launcher)
    if parsed.hosts:
        suite = replace(suite, hosts=hosts.parse(parsed.hosts, "--hosts"))
    return suite


def this_host(suite: Suite, name: str | None = None) -> Host:
    """This machine, and over how many hosts the suite spreads its ranks from here."""
    return replace(read_host(name), slots=suite.hosts.shape if suite.hosts else None)


def plan(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """`bench plan`: what `run` would do; changes nothing."""
    from bench.effect import effect_lines
    from bench.store import Store
    from bench.view import plan_text

    made, _ = _look(parsed, trainer)
    effects = effect_lines(made, Store(parsed.results / made.suite.name).read)
    if parsed.json:
        print(json.dumps({**made.to_dict(), "smallest_effects": effects}, indent=1))
    else:
        print("\n".join([plan_text(made), *effects]))
    return OK


def status(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """`bench status`: what is stored; changes nothing."""
    from bench.fingerprint import summary
    from bench.plan import mixtures
    from bench.view import flag_lines, status_text

    made, loaded = _look(parsed, trainer)
    folder = parsed.results / made.suite.name
    unreadable = [(str(path), reason) for path, reason in loaded.unreadable]
    mixed, holder = mixtures(made, loaded.attempts), lock.holder(folder)
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


def _look(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> tuple[Plan, Any]:
    """The plan as things stand, and what is stored."""
    from bench.data import Resolver
    from bench.launch import Stop
    from bench.plan import make_plan
    from bench.store import load

    suite = load_wanted(parsed, trainer)
    found = Resolver(parsed.data_root, Stop(), print).find(suite, parsed.data)
    host = this_host(suite, machine_id(parsed.results, create=False))
    loaded = load(parsed.results / suite.name, brief=True)
    data = found.identity if found else None
    versions = trainer_versions(trainer, suite.command)
    plan = make_plan(suite, selection(parsed), loaded.attempts, host, data, versions)
    return plan, loaded


def rerun_argument(parser: argparse.ArgumentParser) -> None:
    """`--rerun`, of `run` and `plan`."""
    from bench.cell_plan import RERUN

    meanings = "; ".join(f"{word}: {meaning}" for word, meaning in RERUN.items())
    parser.add_argument("--rerun", choices=tuple(RERUN), help=f"make only these again; {meanings}")


def selection(parsed: argparse.Namespace) -> Selection:
    """The part of the suite that the options choose."""
    from bench.plan import Selection

    rerun = getattr(parsed, "rerun", None)
    return Selection(parsed.ranks, parsed.precision, parsed.seeds, rerun)


def suite_arguments(parser: argparse.ArgumentParser) -> None:
    """Which suite, and which part of it."""
    parser.add_argument(
        "suite", metavar="SUITE", help=f"{', '.join(suites.shipped())}, or the path of a .toml file"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="a ratings file or a prepared folder [what the suite names]"
    )
    parser.add_argument(
        "--data_root", type=Path, default=Path("data"), metavar="DIR", help="prepared data [data]"
    )
    parser.add_argument("--ranks", type=_numbers, metavar="N,...", help="only these numbers")
    parser.add_argument("--precision", type=_texts, metavar="P,...", help="only these precisions")
    parser.add_argument("--seeds", type=_numbers, metavar="N,...", help="only these seeds")
    parser.add_argument("--launcher", choices=LAUNCHERS, help="what starts the ranks [the suite's]")
    parser.add_argument(
        "--hosts", metavar="A:8,B:8", help="hosts and ranks on each [the suite's, or this one]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers like 1,2") from None


def _texts(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def published_csv(results: Path) -> Path:
    """The published figures beside our results, or those of the repository."""
    inside = Path("published") / "ncf_published.csv"
    with contextlib.suppress(OSError):
        if (results / inside).is_file():
            return results / inside
    return Path(__file__).parent.parent / "results" / inside
