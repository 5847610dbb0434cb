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
    from pathlib import Path

    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Shard
    from ncf.training.train_step import Update


class State:
    """The variables of a run under their names. Every rank makes the same calls.

    Args:
        parameters: of the model.
        update: holds the optimizer's state and the loss scale.
        ranks: of the job.
        shard: this rank's users; None where every rank holds all rows.
    """

    def __init__(
        self, parameters: Parameters, update: Update, ranks: Ranks, shard: Shard | None
    ) -> None:
        names = parameters.names()
        moments = [f"adam_{kind}_{name}" for kind in ("first", "second") for name in names]
        self.names = [*names, *moments, "adam_beta1_power", "adam_beta2_power", "loss_scale"]
        self._variables = [*parameters.flat(), *update.state()]
        self._weights = len(names)
        self._ranks, self._shard = ranks, shard
        self._own = [shard is not None and name.endswith("_user") for name in self.names]

    def _shared(self, variables: list[Any]) -> list[Any]:
        return [v for v, own in zip(variables, self._own, strict=False) if not own]

    def broadcast(self) -> None:
        """Give every rank the first rank's values of what all ranks hold."""
        self._ranks.broadcast(self._shared(self._variables))

    def differ(self) -> str | None:
        """Compare a hash of the shared weights over ranks; a sentence if they differ, else None."""
        if self._ranks.size == 1:
            return None
        digest = hashlib.sha256()
        for variable in self._shared(self._variables[: self._weights]):
            digest.update(variable.numpy().tobytes())
        digests = self._ranks.gather_objects(digest.hexdigest()[:16])
        if len(set(digests)) == 1:
            return None
        odd = [rank for rank, value in enumerate(digests) if value != digests[0]]
        return f"ranks {odd} hold other weights than rank 0"

    def whole(self) -> list[Any]:
        """Whole arrays in the order of `names`."""
        found = []
        for variable, own in zip(self._variables, self._own, strict=True):
            values = variable.numpy()
            if own and self._shard is not None:
                values = self._shard.in_order(self._ranks.gather_rows(values))
            found.append(values)
        return found

    def load(self, path: Path, data: checkpoint.Belongs) -> dict[str, Any]:
        """Take over a checkpoint that the first rank reads; its meta data, on every rank.

        Raises:
            UserError: on every rank, when it is missing, damaged or does not belong here.
        """
        arrays: list[Any] = [None] * len(self.names)
        found: dict[str, Any] | str = {}
        shapes = [self._whole_shape(i, data.users) for i in range(len(self.names))]
        if self._ranks.is_first:
            try:
                arrays, found = checkpoint.read(path, self.names, shapes, data)
            except UserError as error:
                found = str(error)
        found = self._ranks.broadcast_object(found)  # all ranks end together
        if isinstance(found, str):
            raise UserError(found)
        for i, variable in enumerate(self._variables):
            if self._own[i] and self._shard is not None:
                rows = arrays[i] if self._ranks.is_first else np.zeros(shapes[i], np.float32)
                variable.assign(self._ranks.broadcast_array(rows)[self._shard.users])
            elif self._ranks.is_first:
                variable.assign(arrays[i])
        self.broadcast()
        return found

    def _whole_shape(self, index: int, users: int) -> tuple[int, ...]:
        shape = tuple(self._variables[index].shape)
        return (users, *shape[1:]) if self._own[index] else shape
