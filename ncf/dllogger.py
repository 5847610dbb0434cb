"""Lines in the form of NVIDIA's DLLogger (`DLLL {json}`), so that its parsers read our logs.

Names of the figures are those of NVIDIA's NCF scripts.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def line(kind: str, step: Any, data: Mapping[str, Any], now: float, elapsed: float) -> str:
    """Form one line.

    Args:
        kind: LOG, for everything that has data.
        step: [epoch], "PARAMETER" for the options, [] for the closing figures.
        data: what is logged.
        now: seconds since the epoch.
        elapsed: seconds since the log was opened.
    """
    moment = datetime.fromtimestamp(now, timezone.utc)
    fields = {
        "timestamp": f"{now:.6f}",
        "datetime": moment.strftime("%Y-%m-%d %H:%M:%S.%f"),
        "elapsedtime": f"{elapsed:.6f}",
        "type": kind,
        "step": step,
        "data": dict(data),
    }
    return "DLLL " + json.dumps(fields)


class Logger:
    """Appends lines to a file, flushed one by one; an empty path logs nowhere."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._clock, self._start = clock, clock()
        self._file = None
        if path:
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - open for the run
            except OSError as error:
                raise UserError(f"--log_path {path}: {error.strerror}") from None

    def log(self, kind: str, step: Any, data: Mapping[str, Any]) -> None:
        """Write one line."""
        if self._file is not None:
            now = self._clock()
            self._file.write(line(kind, step, data, now, now - self._start) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
