"""Benchmark orchestrator: suite -> launch -> store -> group -> stats -> tables | plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    import pandas as pd


def frame(
    folders: str | PathLike[str] | Iterable[str | PathLike[str]], *, level: str = "run"
) -> pd.DataFrame:
    """The stored runs as a tidy pandas DataFrame; see docs/frame.md for the columns.

    Args:
        folders: a suite's folder, such as "results/dgx", or several.
        level: "run" for one row a run, "epoch" for one row an epoch.

    Raises:
        UserError: a folder has no records, or an unknown level.

    Warns:
        UserWarning: a record cannot be read; it is skipped.
    """
    from bench.analysis import frame as frames

    return frames.frame(folders, level=level)
