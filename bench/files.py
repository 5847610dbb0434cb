"""Creating a file once and whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from datetime import datetime, timezone
from pathlib import Path


def write_new(path: Path, text: str) -> None:
    """Create path with the whole text, synced to disk; an existing file is left alone.

    Raises:
        FileExistsError: path exists.
        OSError: disk full, read-only, ...; nothing was created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        _rename_new(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    _sync_folder(path.parent)


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


def write_if_changed(path: Path, content: bytes) -> None:
    """Whole or not at all, and only if it changes something."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def utc_now() -> str:
    """UTC to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
