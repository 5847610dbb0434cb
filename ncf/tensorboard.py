"""TensorBoard event files: a scalar per epoch and quantity, written by TensorFlow itself.

`tf.summary.scalar` needs the package `tensorboard`; `tf.summary.write` with the same metadata
writes the same events without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        """Write the known values of one epoch, readable at once."""
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
