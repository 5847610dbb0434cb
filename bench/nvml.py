"""Asking the NVIDIA driver (NVML), one question at a time: an answer, or the reason for none.

The driver is asked, never TensorFlow: a framework that is asked for its devices takes hold of all
of them, before the trainer could pin one to each rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VALUE_NOT_AVAILABLE = 2**32 - 1
"""nvml.h: what some drivers answer, with success, for what the hardware does not measure."""


@dataclass(frozen=True)
class Answer:
    """A value, or None with the reason."""

    value: Any
    reason: str | None = None


class Driver:
    """A connection to the driver. Questions are the names of NVML's functions."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def ask(self, question: str, *arguments: Any) -> Answer:
        """One answer. Not supported, an older library, a lost card: None with the reason."""
        function = getattr(self._nvml, question, None)
        if function is None:
            return Answer(None, f"this nvidia-ml-py has no {question}")
        try:
            value = function(*arguments)
        except self._nvml.NVMLError as error:
            return Answer(None, str(error) or type(error).__name__)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if type(value) is int and value >= VALUE_NOT_AVAILABLE and "Energy" not in question:
            return Answer(None, "the driver has no value for it")
        return Answer(value)

    def close(self) -> None:
        """Let go of the driver."""
        self.ask("nvmlShutdown")


def connect(nvml: Any = None) -> Driver | str:
    """A connection, or which of these it is: no Python library, no NVML, no driver.

    Args:
        nvml: the module to ask; pynvml if not given.
    """
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            return "the library nvidia-ml-py is not installed"
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return f"no NVIDIA driver answers ({error})"
    return Driver(nvml)
