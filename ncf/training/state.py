"""Everything that the next update depends on, as whole arrays, however ranks share it.

A checkpoint holds whole tables in the data's order of users. Where ranks own users, saving
gathers their rows and loading hands them out, so a checkpoint of any number of ranks and either
mode continues in any other.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf.errors import UserError
from ncf.training import checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncf import record
    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Shard
    from ncf.training.train_step import TrainStep


class TrainState:
    """The variables of a run under their names. Every rank makes the same calls.

    Args:
        parameters: of the model.
        step: holds the optimizer's state and the loss scale.
        ranks: of the job.
        shard: this rank's users; None where every rank holds all rows.
    """

    def __init__(
        self, parameters: Parameters, step: TrainStep, ranks: Ranks, shard: Shard | None
    ) -> None:
        names = parameters.names()
        moments = [f"adam_{kind}_{name}" for kind in ("first", "second") for name in names]
        self.names = [*names, *moments, "adam_beta1_power", "adam_beta2_power", "loss_scale"]
        self._variables = [*parameters.flat(), *step.state()]
        self._weights = len(names)
        self._ranks, self._shard = ranks, shard
        self.best_hr = -1.0  # of the best checkpoint so far
        self._own = [shard is not None and name.endswith("_user") for name in self.names]

    def _shared(self, variables: list[Any]) -> list[Any]:
        return [v for v, own in zip(variables, self._own, strict=False) if not own]

    def broadcast(self) -> None:
        """Give every rank the first rank's values of what all ranks hold."""
        self._ranks.broadcast(self._shared(self._variables))

    def differ(self) -> str | None:
        """Which ranks' shared weights differ from rank 0's, as a sentence; None if none do."""
        if self._ranks.size == 1:
            return None
        digest = hashlib.sha256()
        for variable in self._shared(self._variables[: self._weights]):
            digest.update(variable.numpy().tobytes())
        digests = self._ranks.gather_objects(digest.hexdigest()[:16])
        if len(set(digests)) == 1:
            return None
        odd = [rank for rank, value in enumerate(digests) if value != digests[0]]
        return f"weights of ranks {odd} differ from those of rank 0"

    def whole(self) -> list[Any]:
        """Whole arrays in the order of `names`."""
        arrays = []
        for variable, own in zip(self._variables, self._own, strict=True):
            values = variable.numpy()
            if own and self._shard is not None:
                values = self._shard.in_order(self._ranks.gather_rows(values))
            arrays.append(values)
        return arrays

    def save(self, folder: Path, entry: record.Epoch, meta: Mapping[str, Any]) -> None:
        """Write `last.npz`, and `best.npz` when this epoch is the best so far.

        All ranks bring their rows, the first one writes.

        Args:
            folder: of the checkpoints.
            entry: the epoch that has just been trained.
            meta: what the checkpoint says of the run.
        """
        if not (self._shard or self._ranks.is_first):
            return
        values = self.whole()
        if not self._ranks.is_first:
            return
        meta = {"epoch": entry.epoch, "hr_at_k": entry.hr_at_k, **meta}
        checkpoint.save(folder / checkpoint.LAST, self.names, values, meta)
        if entry.hr_at_k is not None and entry.hr_at_k > self.best_hr:
            self.best_hr = entry.hr_at_k
            checkpoint.save(folder / checkpoint.BEST, self.names, values, meta)

    def load(self, path: Path, data: checkpoint.DataIdentity) -> dict[str, Any]:
        """Take over a checkpoint that the first rank reads; its meta data, on every rank.

        Raises:
            UserError: on every rank, when it is missing, damaged or does not belong here.
        """
        arrays: list[Any] = [None] * len(self.names)
        meta: dict[str, Any] | str = {}
        shapes = [self._whole_shape(i, data.users) for i in range(len(self.names))]
        if self._ranks.is_first:
            try:
                option = "--load_checkpoint_path"
                reader = checkpoint.Reader(checkpoint.find(path, option), option)
                reader.check_data(data)
                arrays, meta = reader.arrays(self.names, shapes), reader.meta
            except UserError as error:
                meta = str(error)
        meta = self._ranks.broadcast_object(meta)  # all ranks end together
        if isinstance(meta, str):
            raise UserError(meta)
        for i, variable in enumerate(self._variables):
            if self._own[i] and self._shard is not None:
                rows = arrays[i] if self._ranks.is_first else np.zeros(shapes[i], np.float32)
                variable.assign(self._ranks.broadcast_array(rows)[self._shard.users])
            elif self._ranks.is_first:
                variable.assign(arrays[i])
        self.broadcast()
        return meta

    def _whole_shape(self, index: int, users: int) -> tuple[int, ...]:
        shape = tuple(self._variables[index].shape)
        return (users, *shape[1:]) if self._own[index] else shape
