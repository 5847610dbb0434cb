"""`bench baseline save|list|show|promote`: files under results/baselines/, changed by hand only."""

from __future__ import annotations

import contextlib
import getpass
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench.commands import OK
from bench.errors import UserError
from bench.options import did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from bench.baseline import Baseline, Signed
    from bench.tables import Table

ACTIONS = ("save", "list", "show", "promote")
FOLDER = "baselines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench baseline`."""
    parser.add_argument(
        "action",
        choices=ACTIONS,
        help="save: the stored good runs of a suite, under a new name; promote: make one the "
        "suite's own, which gates use; list; show",
    )
    parser.add_argument("suite", nargs="?", metavar="SUITE", help="its runs or baselines")
    parser.add_argument("--name", metavar="NAME", help="of the baseline")
    parser.add_argument("--why", metavar="TEXT", help="the reason, for those who read it later")
    parser.add_argument("--who", metavar="NAME", help="[git's user.name, or the login]")
    parser.add_argument(
        "--every",
        action="store_true",
        help="with save: every good run, not only the last one of a seed",
    )


def run(parsed: argparse.Namespace, _trainer: tuple[str, ...]) -> int:
    """`bench baseline`."""
    return {"save": _save, "list": _list, "show": _show, "promote": _promote}[parsed.action](parsed)


def _save(parsed: argparse.Namespace) -> int:
    from bench.baseline import Baseline, to_text
    from bench.files import write_new
    from bench.rule import FEWEST
    from bench.sides import side
    from bench.store import load

    suite, name = _needed(parsed, "suite"), _needed(parsed, "name")
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name[0] in ".-":
        raise UserError(f"--name {name!r}: letters, digits, . _ - only; it becomes a file's name")
    signed = signature(parsed)
    found = side(suite, load(parsed.results / suite).attempts, every=parsed.every)
    if not found.cells:
        raise UserError(
            f"{parsed.results / suite} holds no good run to save: `bench run {suite}` first"
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
    if fewest < FEWEST:
        print(f"warning: a cell has {fewest} runs; below {FEWEST} no gate will reach a verdict")
    print(f"gates use it with --baseline {path}, or after `bench baseline promote {suite}`")
    return OK


def _promote(parsed: argparse.Namespace) -> int:
    from bench.baseline import to_text
    from ncf.record import write_text

    suite, name, signed = _needed(parsed, "suite"), _needed(parsed, "name"), signature(parsed)
    chosen = read(find(parsed.results, suite, name))
    path = own_path(parsed.results, suite)
    before = read(path) if path.exists() else None
    write_text(path, to_text(chosen.promote(signed, before)))
    print(f"{path}: {name}" + (f", in place of {before.name}" if before else ""))
    return OK


def _list(parsed: argparse.Namespace) -> int:
    from bench.tables import Table, markdown

    paths = _all(parsed.results, parsed.suite)
    if not paths:
        raise UserError(
            f"{parsed.results / FOLDER} holds no baseline: `bench baseline save SUITE --name NAME "
            "--why TEXT` makes one of stored runs"
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
    from bench.tables import markdown

    path = find(parsed.results, _needed(parsed, "suite"), parsed.name)
    one = read(path)
    print(f"{one.name}: baseline of {one.suite} ({path})\n")
    print(f"saved by {one.saved.who}, {one.saved.when}: {one.saved.why}")
    for name, by in one.promoted:
        print(f"promoted {name} by {by.who}, {by.when}: {by.why}")
    if one.calibrated:
        print(f"calibrated by {one.calibrated.who}, {one.calibrated.when}: {one.calibrated.why}")
    for cell in one.side.cells.values():
        parts = " ".join(f"{part} {value}" for part, value in cell.fingerprint.items())
        print(f"\n{cell.label}: {parts}\n{', '.join(cell.facts['hardware'].values())}")
    print(f"\n{markdown(summary(one))}")
    return OK


def summary(baseline: Baseline) -> Table:
    """Median, spread and noise of every metric of every cell."""
    from bench import gated, units
    from bench.stats import summarize
    from bench.tables import Table

    rows = []
    for cell in baseline.side.cells.values():
        for name in cell.samples:
            one, data = gated.metric(name), summarize(cell.values(name))
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


def own_path(results: Path, suite: str) -> Path:
    """The baseline that gates of a suite use."""
    return results / FOLDER / f"{suite}.json"


def saved_path(results: Path, suite: str, name: str) -> Path:
    """A saved baseline."""
    return results / FOLDER / suite / f"{name}.json"


def find(results: Path, suite: str, given: str | None) -> Path:
    """The file that is meant: a path, the name of a saved baseline, or the suite's own.

    Raises:
        UserError: there is no such baseline.
    """
    if given is not None and (given.endswith(".json") or "/" in given):
        return Path(given)
    path = own_path(results, suite) if given is None else saved_path(results, suite, given)
    if path.is_file():
        return path
    if given is None:
        raise UserError(
            f"{path}: {suite} has no promoted baseline: name one (`bench baseline list {suite}`), "
            f"or `bench baseline save {suite} --name NAME --why TEXT` and `promote` it"
        )
    names = [one.stem for one in _all(results, suite) if one.parent.name == suite]
    listed = f" (saved: {', '.join(names)})" if names else ""
    raise UserError(f"{path}: no baseline {given!r}{did_you_mean(given, names)}{listed}")


def _all(results: Path, suite: str | None) -> Sequence[Path]:
    """Every baseline's file, a suite's own one first."""
    own = sorted((results / FOLDER).glob(f"{suite or '*'}.json"))
    return [*own, *sorted((results / FOLDER).glob(f"{suite or '*'}/*.json"))]


def read(path: Path) -> Baseline:
    """A baseline from its file; UserError says why not."""
    from bench.baseline import from_text

    try:
        return from_text(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text: no baseline") from None


def signature(parsed: argparse.Namespace, why: str | None = None) -> Signed:
    """Who does this, why and when."""
    from bench.attempt import now
    from bench.baseline import Signed

    return Signed(parsed.who or _somebody(), why or _needed(parsed, "why"), now())


def _somebody() -> str:
    with contextlib.suppress(OSError):
        asked = subprocess.run(
            ["git", "config", "user.name"], capture_output=True, check=False, encoding="utf-8"
        )
        if asked.stdout.strip():
            return asked.stdout.strip()
    with contextlib.suppress(Exception):  # no login name either: containers
        return getpass.getuser()
    return "unknown"


def _needed(parsed: argparse.Namespace, name: str) -> str:
    value = getattr(parsed, name)
    if not value:
        what = "SUITE" if name == "suite" else f"--{name}"
        raise UserError(f"bench baseline {parsed.action} needs {what}")
    return str(value)
