"""The picture of the scaling model, with the published points. Pure apart from matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.plots.style import LOOKS

if TYPE_CHECKING:
    from bench.published.scaling_model import Parallel

_LINES: dict[Parallel, Any] = {
    "replicated": {"color": LOOKS["amp"].color, "ls": "--", "marker": "^"},
    "user-sharded": {"color": LOOKS["fp32"].color, "ls": "-", "marker": "o"},
}
