"""The grid for which a suite's records were made, to notice a changed suite."""

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

    A suite that only grew counts as unchanged: all stored attempts still belong to it.

    Args:
        suite: the suite now.
        folder: results/<suite>.
        attempts: everything stored there.
        accept: accept the change; old records are kept, and enter no table.
        say: called with a line about an accepted change.

    Raises:
        UserError: cells with records are no longer in the suite, and `accept` is False.
    """
    grid = {cell.key: cell for cell in cells(suite)}
    before = _read(folder / FILE_NAME)
    removed = [
        attempt.cell
        for attempt in attempts
        if attempt.cell.key not in grid and (before is None or attempt.cell.key in before)
    ]
    if not removed:
        return
    changes = _changes(removed[0], list(grid.values()))
    what = f"{len(removed)} stored attempts belong to cells that {suite.name} no longer has"
    if not accept:
        raise UserError(
            f"{folder}: {what} ({changes}): the suite was changed. Change it back, give the "
            "changed one another name, or accept it with --accept_plan_change (the old records "
            "are kept, and enter no table)"
        )
    say(f"accepted: {what} ({changes}); they are kept, and enter no table")


def remember(suite: Suite, folder: Path) -> None:
    """Store the grid for which records are made from now on.

    Raises:
        OSError: the folder cannot be written.
    """
    path, grid = folder / FILE_NAME, {cell.key for cell in cells(suite)}
    if _read(path) != grid:
        write_json(path, {"schema_version": SCHEMA_VERSION, "cells": sorted(grid)})


def _read(path: Path) -> set[str] | None:
    """Keys of the cells that were last accepted; None if not known."""
    try:
        return {str(key) for key in read_json(path)["cells"]}
    except (RecordError, KeyError, TypeError):
        return None


def _changes(removed: Cell, grid: list[Cell]) -> str:
    """How a removed cell changed: `ranks=1: epochs 2 is now 3`."""
    same = [cell for cell in grid if dict(cell.axes) == dict(removed.axes)]
    if not same:
        return f"for example {removed.label}"
    old, new = removed.trainer_options, same[0].trainer_options
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]

    def word(options: Mapping[str, Any], name: str) -> str:
        return show(options[name]) if name in options else "not set"

    changed = [f"{name} {word(old, name)} is now {word(new, name)}" for name in names]
    return f"{removed.label}: {', '.join(changed) or 'other data'}"
