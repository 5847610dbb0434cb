"""What a run writes: DLLogger lines, TensorBoard event files (a scalar per epoch), the record.

`tf.summary.scalar` needs the package `tensorboard`; `tf.summary.write` with the same metadata
writes the same events without it.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf import record
from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Scalars:
    """Writes into a folder; an empty name writes nowhere."""

    def __init__(self, folder: str) -> None:
        self._writer: Any = None
        if folder:
            import tensorflow as tf

            self._writer = tf.summary.create_file_writer(folder)
            plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
            self._about = tf.compat.v1.SummaryMetadata(plugin_data=plugin)
            self._about.data_class = 1  # DATA_CLASS_SCALAR

    def write(self, epoch: int, values: Mapping[str, float | None]) -> None:
        """Write the values of one epoch that are not None, and flush them."""
        if self._writer is None:
            return
        import tensorflow as tf

        with self._writer.as_default():
            for name, value in values.items():
                if value is not None:
                    tf.summary.write(
                        name, tf.constant(value, tf.float32), step=epoch, metadata=self._about
                    )
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


def line(kind: str, step: Any, data: Mapping[str, Any], now: float, elapsed: float) -> str:
    """One DLLogger line.

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


def write_record(path: str, result: record.RunRecord) -> None:
    """Write the record of a run; an empty path writes nothing.

    Raises:
        UserError: the file cannot be written.
    """
    if not path:
        return
    try:
        record.write_json(Path(path), result.to_dict())
    except OSError as error:
        raise UserError(f"--record {path}: {error.strerror}") from None
