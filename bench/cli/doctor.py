"""`ncf-bench doctor`: check machine, installation, disks and data before a long sweep."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli import FAILED, OK
from bench.cli.common import add_options, load_suite, suite_argument
from bench.errors import UserError
from bench.host.doctor import Facts, Finding, Place, diagnose
from bench.host.machine import read_host
from bench.host.telemetry import Monitor
from bench.process.supervise import Stop
from bench.records.store import load
from bench.suite.model import cells
from bench.sweep.data import Resolver
from bench.sweep.launchers import environment

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from bench.cli import Parser
    from bench.host.gpus import Gpu
    from bench.suite.model import Suite

PROBE_TIMEOUT_S = 300.0


def doctor_arguments(parser: Parser) -> None:
    """The options of `doctor`."""
    suite_argument(parser, optional="no suite: data and time limits are not checked")
    add_options(parser, "data", "data_root", "results", "json")


def doctor(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """Print every finding with its fix; exit code 1 if something must be fixed first."""
    findings = diagnose(_facts(parsed, trainer))
    failed = any(finding.level == "fail" for finding in findings)
    if parsed.json:
        print(json.dumps({"findings": [asdict(one) for one in findings]}, indent=1))
    else:
        print("\n".join(_text(finding) for finding in findings))
        count = sum(finding.level != "ok" for finding in findings)
        print(f"{count} to look at" if count else "no problems found")
    return FAILED if failed else OK


def _text(finding: Finding) -> str:
    fix = f"\n      fix: {finding.fix}" if finding.fix and finding.level != "ok" else ""
    return f"{finding.level:4}  {finding.what}{fix}"


def _facts(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> Facts:
    suite = load_suite(parsed.suite, trainer) if parsed.suite else None
    host, monitor = read_host(), Monitor(1.0)
    data = _data(parsed, suite, trainer) if suite else None
    sound = data is not None and "hash" in data
    folder = str(data["folder"]) if data and sound else ""
    answer = _probe(trainer, folder)
    if data and folder and not isinstance(answer, str):
        data = {**data, **(answer["data"] or {})}
    seen = monitor.snapshot(host.gpus, len(host.gpus))
    cards = [
        {**card, "default_power_limit_watts": _default_limit(monitor, gpu)}
        for card, gpu in zip(seen["gpus"], host.gpus, strict=True)
    ]
    loaded = load(parsed.results / suite.name) if suite else None
    longest: dict[str, float] = {}
    for attempt in loaded.attempts if loaded else ():
        if attempt.ok:
            key = attempt.cell.key
            longest[key] = max(longest.get(key, 0.0), attempt.wall_seconds)
    return Facts(
        host=host,
        trainer=answer,
        cards=cards,
        state=seen,
        shm_bytes=_free(Path("/dev/shm")),  # noqa: S108 - only asked how large it is
        environment=dict(os.environ),
        places=[_place("results", parsed.results), _place("data_root", parsed.data_root)],
        data=data,
        timeouts=[
            (cell.label, longest[cell.key], suite.timeout_of(cell))
            for cell in (cells(suite) if suite else ())
            if suite and cell.key in longest
        ],
        unreadable=len(loaded.unreadable) if loaded else 0,
    )


def _probe(trainer: tuple[str, ...], folder: str) -> dict[str, Any] | str:
    """What `ncf probe` says, in the environment that a run has; or why it says nothing."""
    words = [*trainer, "probe", *(["--data", folder] if folder else [])]
    env = environment(os.environ, 1, "amp", os.cpu_count() or 1)
    try:
        answer = subprocess.run(
            words,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if answer.returncode != 0:
        return last.removeprefix("ncf: error: ")
    try:
        found = json.loads(answer.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return f"`ncf probe` printed no JSON; its last line: {last}"
    return found if isinstance(found, dict) else "`ncf probe` printed no object"


def _data(parsed: argparse.Namespace, suite: Suite, trainer: tuple[str, ...]) -> Mapping[str, Any]:
    """The suite's data as far as they are there; `ncf probe` compares the hashes."""
    try:
        found = Resolver(parsed.data_root, Stop(), print, trainer).find(suite, parsed.data)
    except UserError as error:
        where = parsed.data or parsed.data_root
        return {"folder": str(where), "problem": str(error), "fix": "see --data"}
    if found is not None:
        return {"folder": str(found.folder), "hash": found.identity.hash}
    if suite.data.synthetic or parsed.data or suite.data.source == "ml-100k":
        return {"to_come": f"data {suite.data.name} will be made by the first run"}
    name = suite.data.source
    fix = f"download it from https://grouplens.org/datasets/movielens and pass --data {name}.zip"
    return {"folder": name, "problem": "not there", "fix": fix}


def _default_limit(monitor: Monitor, gpu: Gpu) -> float | None:
    (card,) = monitor.cards((gpu,), 1)
    limit = monitor.ask(card, "nvmlDeviceGetPowerManagementDefaultLimit").value
    return None if limit is None else limit / 1000


def _place(name: str, path: Path) -> Place:
    """Free space of a folder, and whether a file can be made in it or where it will be."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    writable = False
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=there):
        writable = True
    return Place(name, str(path), _free(there), writable)


def _free(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path).free
    return None
