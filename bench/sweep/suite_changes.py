"""The grid that a suite's records were made for, so that a changed suite does not go unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.errors import UserError, show
from bench.suite.model import cells
from ncf.record import RecordError, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from bench.records.attempt import Attempt
    from bench.suite.model import Cell, Suite

SCHEMA_VERSION = 1
FILE_NAME = "plan.json"


def check(
    suite: Suite,
    folder: Path,
    attempts: Iterable[Attempt],
    *,
    accept: bool,
    say: Callable[[str], None],
) -> None:
    """Compare the suite with the grid that was last accepted.

    A suite that grew is no change: all that is stored still belongs to it.

    Args:
        suite: as it is now.
        folder: results/<suite>.
        attempts: everything stored there.
        accept: take the change; old records are kept, and enter no table.
        say: told what was accepted.

    Raises:
        UserError: cells that have records are no longer in the suite, and that is not accepted.
    """
    grid = {cell.key: cell for cell in cells(suite)}
    before = _read(folder / FILE_NAME)
    gone: dict[str, Cell] = {}
    count = 0
    for attempt in attempts:
        key = attempt.cell.key
        if key not in grid and (before is None or key in before):
            gone[key] = attempt.cell
            count += 1
    if gone:
        what = f"{count} stored attempts belong to cells that {suite.name} no longer has"
        changes = _changes(gone.values(), list(grid.values()))
        if not accept:
            raise UserError(
                f"{folder}: {what} ({changes}): the suite was changed. Change it back, give the "
                "changed one another name, or accept it with --accept-plan-change (the old records "
                "are kept, and enter no table)"
            )
        say(f"accepted: {what} ({changes}); they are kept, and enter no table")


def remember(suite: Suite, folder: Path) -> None:
    """Write down the grid that records are made for from now on.

    Raises:
        OSError: the folder cannot be written.
    """
    path, grid = folder / FILE_NAME, {cell.key for cell in cells(suite)}
    if _read(path) != grid:
        write_json(path, {"schema_version": SCHEMA_VERSION, "cells": sorted(grid)})


def _read(path: Path) -> set[str] | None:
    """Keys of the cells accepted last; None if that is not known."""
    try:
        return {str(key) for key in read_json(path)["cells"]}
    except (RecordError, KeyError, TypeError):
        return None


def _changes(gone: Iterable[Cell], grid: list[Cell]) -> str:
    """What became of the first cell that is gone: `ranks=1: epochs 2 is now 3`."""
    lost = next(iter(gone))
    same = [cell for cell in grid if dict(cell.axes) == dict(lost.axes)]
    if not same:
        return f"for example {lost.label}"
    ours, theirs = lost.trainer_options, same[0].trainer_options
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    changed = [f"{name} {_word(ours, name)} is now {_word(theirs, name)}" for name in names]
    return f"{lost.label}: {', '.join(changed) or 'other data'}"


def _word(options: Mapping[str, Any], name: str) -> str:
    return show(options[name]) if name in options else "not set"
