"""`ncf-bench check`: read every stored record and list the invalid ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench import suites
from bench.cli import FAILED, OK
from bench.cli.common import WHAT, add_options, load_suite
from bench.errors import UserError
from bench.records.store import Store
from bench.records.validate import lint

if TYPE_CHECKING:
    import argparse

    from bench.cli import Parser
    from bench.suite.model import Suite


def check_arguments(parser: Parser) -> None:
    """The options of `check`."""
    parser.group(WHAT).add_argument(
        "suite",
        nargs="?",
        metavar="SUITE",
        help="a suite, or a folder with `records` [all folders of --results]",
    )
    add_options(parser, "results", "json")


def check(parsed: argparse.Namespace, trainer: tuple[str, ...]) -> int:
    """List bad records; exit code 1 if there are any."""
    checked = 0
    bad: list[tuple[Path, list[str]]] = []
    for folder, suite in _folders(parsed, trainer):
        n, problems = check_folder(folder, suite)
        checked, bad = checked + n, bad + problems
    if parsed.json:
        facts = [{"file": str(path), "problems": reasons} for path, reasons in bad]
        print(json.dumps({"checked": checked, "bad": facts}, indent=1))
    else:
        for path, reasons in bad:
            print(f"{path}: {'; '.join(reasons)}")
        print(f"{checked} records checked, {len(bad)} bad")
    return FAILED if bad else OK


def _folders(
    parsed: argparse.Namespace, trainer: tuple[str, ...]
) -> list[tuple[Path, Suite | None]]:
    """The folders to check, each with its suite if there is one of that name."""
    name = parsed.suite
    if name is None:
        folders = sorted(path.parent for path in parsed.results.glob("*/records"))
        if not folders:
            raise UserError(f"{parsed.results} holds no records")
        return [(folder, _suite(folder.name, trainer)) for folder in folders]
    if (Path(name) / "records").is_dir():
        return [(Path(name), _suite(Path(name).resolve().name, trainer))]
    suite = load_suite(name, trainer)
    folder = parsed.results / suite.name
    if not (folder / "records").is_dir():
        raise UserError(f"{folder} holds no records")
    return [(folder, suite)]


def _suite(name: str, trainer: tuple[str, ...]) -> Suite | None:
    """The shipped suite of that name; without the trainer the records are checked all the same."""
    with contextlib.suppress(UserError):
        return load_suite(name, trainer) if name in suites.shipped() else None
    return None


def check_folder(folder: Path, suite: Suite | None) -> tuple[int, list[tuple[Path, list[str]]]]:
    """Number of records under results/<suite>, and the invalid files with the reasons."""
    store, n = Store(folder), 0
    bad: list[tuple[Path, list[str]]] = []
    numbers: dict[tuple[str, int], list[int]] = {}
    for key, seed, number, path in store.names():
        n += 1
        numbers.setdefault((key, seed), []).append(number)
        try:
            problems = lint(path.read_bytes(), key, seed, number, suite)
        except OSError as error:
            problems = [error.strerror or str(error)]
        if problems:
            bad.append((path, problems))
    for (key, seed), used in numbers.items():
        missing = sorted(set(range(1, max(used))) - set(used))
        if missing:
            where = store.path(key, seed, missing[0])
            bad.append((where, ["missing, but later attempts exist"]))
    records = {path for *_, path in store.names()}
    others = (path for path in sorted(store.records.rglob("*")) if path.is_file())
    bad += [
        (path, ["file name does not match seedN-aN.json"]) for path in others if path not in records
    ]
    return n, bad
