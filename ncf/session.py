"""Everything a run needs, built once in the order that matters.

Data first (cheap, and most mistakes show there), then the place among the ranks, then the device
is pinned, and only then does TensorFlow create anything.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import (
    checkpoint,
    dataset,
    distributed,
    environment,
    precision,
    record,
    roofline,
)
from ncf.errors import UserError

if TYPE_CHECKING:
    from ncf.batching import Share
    from ncf.config import TrainConfig


MOST_LANES = 8
"""Each lane sums its items' gradients by itself; more threads than this share the operations."""


class Session:
    """Data, ranks, device, variables and compiled functions of one run."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.micro_batch: int | None = None  # of the fast formulation
        self.data = dataset.load(Path(config.data))
        place = distributed.place_from_environment(dict(os.environ))
        lanes = MOST_LANES if config.formulation == "fast" else 1
        self._devices = distributed.prepare_devices(place, config.threads, lanes)
        self.ranks = distributed.Ranks(place)
        self._on_gpu = self._devices.on_gpu
        self.seed = int(self.ranks.broadcast_object(_seed(config.seed)))
        self._choose_precision()
        self._build_model()
        self._build_evaluation()
        self.first_epoch, self._best_hr = 1, -1.0
        if config.load_checkpoint_path:
            self._load_checkpoint()
        self.ranks.broadcast(self._state())
        if differs := self.weights_differ():
            raise UserError(
                f"{differs} right after the broadcast: is one network reaching another?"
            )

    def _choose_precision(self) -> None:
        import tensorflow as tf

        from ncf.step import dense

        gpu = environment.gpu_details() if self._on_gpu else None
        threads = self._devices.threads
        self.hardware = environment.hardware(on_gpu=self._on_gpu, threads=threads)
        chosen = precision.plan(
            self.config.precision,
            self.config.amp_dtype,
            on_gpu=self._on_gpu,
            tf32_capable=environment.tf32_capable(gpu),
        )
        precision.apply(chosen)
        dtype = tf.as_dtype(chosen.compute_dtype)
        self._dtype = dtype
        probed = precision.probe(chosen, lambda a, b: tf.cast(dense(a, b, dtype), tf.float32))
        self.precision: record.Precision = probed
        self._peaks = (0.0, 0.0)
        if self.config.mode == "train":  # before the model, which then takes the probe's memory
            lanes, on_gpu = self._devices.lanes, self._on_gpu
            self._peaks = (
                roofline.matmul_peak(dtype, lanes, on_gpu=on_gpu),
                roofline.copy_peak(lanes, on_gpu=on_gpu),
            )

    def _build_model(self) -> None:
        from ncf import model
        from ncf.optimizer import Adam
        from ncf.sampling import Sampler
        from ncf.update import Update

        config, data = self.config, self.data
        self.sampler = Sampler(
            np.asarray(data.train_offsets),
            np.asarray(data.train_items),
            data.n_items,
            config.negative_samples,
            exact=config.no_neg_trick,
            grouped=config.batching == "grouped",
        )
        self._check_steps()
        self.parameters = model.create(
            data.n_users, data.n_items, config.factors, config.layers, self.seed
        )
        self._adam = Adam(
            self.parameters.flat(), config.learning_rate, config.beta1, config.beta2, config.eps
        )
        self.formulation = self._formulation()
        self.update = Update(
            self.sampler,
            self.formulation,
            self._adam,
            self.ranks,
            loss_scale=config.loss_scale,
            compute_dtype=self.precision.compute_dtype,
            xla=self._whole,
        )

    @property
    def _whole(self) -> bool:
        """Whether the whole gradient computation is compiled by XLA."""
        return self.config.xla or (self._on_gpu and self.config.formulation == "fast")

    def _formulation(self) -> Any:
        from ncf.dropout import Dropout
        from ncf.fast import Fast
        from ncf.step import Reference

        config = self.config
        dropout = Dropout(config.layers[1:], config.dropout)
        if config.formulation == "reference":
            return Reference(self.parameters, self._dtype, dropout)
        groups = self.shares()[0].padded
        self.micro_batch = self._micro_batch(groups)
        return Fast(
            self.parameters,
            self._dtype,
            dropout,
            lanes=self._devices.lanes,
            chunk=max(1, self.micro_batch // self.sampler.group_size),
            samples=groups * self.sampler.group_size,
            whole=self._whole,
        )

    def _micro_batch(self, groups: int) -> int:
        """Samples of a chunk: as asked, or what the cache holds, or on a GPU the whole share."""
        if self.config.micro_batch != "auto":
            return int(self.config.micro_batch)
        if self._whole:
            return groups * self.sampler.group_size
        width = max(self.config.layers[1:], default=self.config.layers[0])
        return max(1, environment.level_2_cache_bytes() // width)

    def roofline(self) -> record.Roofline:
        """What a sample of the first step costs, and this rank's peaks."""
        first = self.shares()[0]
        keys = self.epoch_keys(self.first_epoch)[0]
        begin, valid = (np.int64(n) for n in (first.first, first.valid))
        users = self.sampler.batch(keys, begin, valid, first.padded).users.numpy()
        operations, moved = self.formulation.cost(users, self.sampler.group_size)
        compute_dtype = self.precision.compute_dtype
        costs = (operations, moved)
        return record.Roofline(self.config.formulation, compute_dtype, *costs, *self._peaks)

    def shares(self) -> list[Share]:
        """This rank's part of every step of an epoch."""
        from ncf.batching import groups_per_step, share, steps_per_epoch

        groups, ranks = self.sampler.groups, self.ranks
        per_step = groups_per_step(self.config.batch_size, self.sampler.group_size)
        steps = steps_per_epoch(groups, per_step)
        return [share(step, groups, per_step, ranks.rank, ranks.size) for step in range(steps)]

    def _check_steps(self) -> None:
        config = self.config
        steps = len(self.shares()) * config.epochs
        if config.mode == "train" and config.warmup_steps >= steps:
            raise UserError(
                f"--warmup_steps {config.warmup_steps}: the run has only {steps} steps, so nothing "
                "would be left to time; lower it, or raise --epochs"
            )

    def _build_evaluation(self) -> None:
        from ncf import protocol

        config = self.config
        asked = protocol.Asked(
            config.protocol,
            config.valid_negative,
            config.topk,
            config.valid_users_per_batch,
            config.formulation,
        )
        lanes = self._devices.lanes
        found = protocol.build(
            asked, self.data, self.parameters, self._dtype, self.ranks, lanes=lanes
        )
        self.dataset, self.evaluator = found.dataset, found.evaluator
        self.scored_per_evaluation = found.scores

    def _state(self) -> list[Any]:
        return [*self.parameters.flat(), *self.update.state()]

    def _state_names(self) -> list[str]:
        names = self.parameters.names()
        moments = [f"adam_{kind}_{name}" for kind in ("first", "second") for name in names]
        return [*names, *moments, "adam_beta1_power", "adam_beta2_power", "loss_scale"]

    def _load_checkpoint(self) -> None:
        meta: dict[str, Any] = {}
        problem = None
        if self.ranks.is_first:
            path = Path(self.config.load_checkpoint_path)
            self._best_hr = checkpoint.best_hr(Path(self.config.checkpoint_dir))
            try:
                meta = checkpoint.load(path, self._state_names(), self._state(), self._belongs())
            except UserError as error:
                problem = str(error)
        problem = self.ranks.broadcast_object(problem)  # all ranks end together
        if problem:
            raise UserError(problem)
        self.first_epoch = int(self.ranks.broadcast_object(meta.get("epoch", 0))) + 1
        if self.config.mode == "train" and self.first_epoch > self.config.epochs:
            raise UserError(
                f"--load_checkpoint_path is at epoch {self.first_epoch - 1} already: "
                f"raise --epochs above {self.config.epochs}"
            )

    def _belongs(self) -> checkpoint.Belongs:
        data = self.data
        return checkpoint.Belongs(data.n_users, data.n_items, data.hash, data.ids_hash)

    def save_checkpoints(self, epochs: list[record.Epoch]) -> None:
        """Write `last.npz`, and `best.npz` when this epoch is the best so far; first rank only."""
        if not (self.config.checkpoint_dir and self.ranks.is_first):
            return
        entry, folder = epochs[-1], Path(self.config.checkpoint_dir)
        meta = {
            "epoch": entry.epoch,
            "hr_at_k": entry.hr_at_k,
            **self._belongs().to_dict(),
            "data_folder": str(self.data.folder.resolve()),
            "world_size": self.ranks.size,
            "seed": self.seed,
            "config": self.config_echo(),
        }
        values = [variable.numpy() for variable in self._state()]
        checkpoint.save(folder / checkpoint.LAST, self._state_names(), values, meta)
        if entry.hr_at_k is not None and entry.hr_at_k > self._best_hr:
            self._best_hr = entry.hr_at_k
            checkpoint.save(folder / checkpoint.BEST, self._state_names(), values, meta)

    def config_echo(self) -> dict[str, Any]:
        """Options as used: the seed resolved, protocol and candidates as in the data."""
        return {
            **self.config.echo(),
            "seed": self.seed,
            "micro_batch": self.micro_batch,
            "protocol": self.dataset.protocol,
            "valid_negative": self.dataset.candidates_per_user,
        }

    def epoch_keys(self, epoch: int) -> tuple[Any, Any]:
        """The keys of an epoch's samples and of its dropout, as tensors."""
        import tensorflow as tf

        from ncf.sampling import epoch_keys
        from ncf.update import dropout_key

        return tf.constant(epoch_keys(self.seed, epoch)), dropout_key(self.seed, epoch)

    def start_epoch(self) -> None:
        """Reset what accumulates over an epoch."""
        self.update.loss_sum.assign(0.0)

    def wait(self) -> float:
        """Wait for the device; returns this rank's loss sum of the epoch so far."""
        return float(self.update.loss_sum.numpy())

    def weights_differ(self) -> str | None:
        """Compare a hash of the weights across ranks; a sentence if they differ, else None."""
        if self.ranks.size == 1:
            return None
        digest = hashlib.sha256()
        for variable in self.parameters.flat():
            digest.update(variable.numpy().tobytes())
        digests = self.ranks.gather_objects(digest.hexdigest()[:16])
        if len(set(digests)) == 1:
            return None
        odd = [rank for rank, value in enumerate(digests) if value != digests[0]]
        return f"ranks {odd} hold other weights than rank 0"

    def gather_memory(self, status: str) -> tuple[int, ...]:
        """Peak bytes of every rank; only this rank's when the others may be gone."""
        mine = environment.peak_memory_bytes(on_gpu=self._on_gpu)
        if status in ("interrupted", "error"):
            return (mine,)
        return tuple(self.ranks.gather_objects(mine))


def _seed(given: int | None) -> int:
    return secrets.randbelow(2**31) if given is None else given
