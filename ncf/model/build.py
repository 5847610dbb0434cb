"""The choice between the two formulations, and of the size of the fast one's chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncf.model.dropout import Dropout
from ncf.model.fast import Fast
from ncf.model.reference import Reference
from ncf.runtime import environment

if TYPE_CHECKING:
    from ncf.config.train import TrainConfig
    from ncf.model.neumf import Parameters


def build(
    config: TrainConfig,
    parameters: Parameters,
    compute_dtype: Any,
    *,
    groups: int,
    lanes: int,
    whole: bool,
) -> Reference | Fast:
    """The formulation that is configured.

    Args:
        config: names it, and may give the size of its chunks.
        parameters: the variables.
        compute_dtype: type of the matmuls.
        groups: of a full step on this rank.
        lanes: chunks walked side by side.
        whole: True where the whole gradient computation is compiled.
    """
    dropout = Dropout(config.layers[1:], config.dropout)
    if config.formulation == "reference":
        return Reference(parameters, compute_dtype, dropout)
    size = config.group_size
    return Fast(
        parameters,
        compute_dtype,
        dropout,
        lanes=lanes,
        chunk=max(1, micro_batch(config, groups, whole=whole) // size),
        size=size,
        groups=groups,
        whole=whole,
    )


def micro_batch(config: TrainConfig, groups: int, *, whole: bool) -> int:
    """Samples of a chunk: as asked, what a core's cache holds, or the whole share if compiled so.

    A second-level cache holds a quarter of a chunk's widest float32 layer then. Half or four times
    as many cost at most 6 % (docs/performance.md).
    """
    if config.micro_batch != "auto":
        return int(config.micro_batch)
    if whole:
        return groups * config.group_size
    width = max(config.layers[1:], default=config.layers[0])
    return max(1, environment.level_2_cache_bytes() // width)
