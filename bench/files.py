"""Files that are written whole or not at all, and times as text."""

from __future__ import annotations

import contextlib
import os
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def write_new(path: Path, text: str) -> None:
    """Create path with the whole text, synced to disk; an existing file is left alone.

    Raises:
        FileExistsError: path exists.
        OSError: disk full, read-only, ...; nothing was created.
    """
    _write(path, text.encode(), _rename_new, sync=True)
    _sync_folder(path.parent)


def write_if_changed(path: Path, content: bytes) -> None:
    """Write the whole content, or nothing if the file has it already.

    Raises:
        OSError: disk full, read-only, ...; the old file is still there.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    _write(path, content, os.replace, sync=False)


def _write(path: Path, content: bytes, rename: Callable[[str, Path], None], *, sync: bool) -> None:
    """Write a temporary file in the same folder, then give it its name in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        rename(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _rename_new(temporary: str, path: Path) -> None:
    """Rename without replacing: a hard link fails when the name is taken, in one step."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links; the sweep's lock keeps others out
        if path.exists():
            raise FileExistsError(path) from None
        Path(temporary).rename(path)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable; some file systems cannot, and need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def utc_now() -> str:
    """UTC to the second, as text."""
    return utc_text(datetime.now(timezone.utc))


def utc_text(moment: datetime) -> str:
    """A UTC time to the second: `2026-11-30T08:00:00Z`."""
    return moment.strftime(TIME_FORMAT)


def utc_time(text: str) -> datetime:
    """The time of a text of utc_text.

    Raises:
        ValueError: another form.
    """
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=timezone.utc)
