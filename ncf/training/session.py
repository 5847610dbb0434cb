"""Everything a run needs, built once in the order that matters.

Data first (cheap, and most mistakes show there), then the place among the ranks, then the device
is pinned, and only then does TensorFlow create anything.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import record
from ncf.data import dataset
from ncf.errors import UserError
from ncf.model import fast, precision, roofline
from ncf.ranks import horovod as distributed
from ncf.runtime import environment
from ncf.sampling import batching
from ncf.sampling.user_shards import Shard
from ncf.training import checkpoint
from ncf.training.state import State

if TYPE_CHECKING:
    from ncf.config.train import TrainConfig
    from ncf.sampling.batching import Share


MOST_STREAMS = 8
"""Each stream sums its items' gradients by itself; more threads than this share the operations."""


class Session:
    """Data, ranks, device, variables and compiled functions of one run."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.data = dataset.load(Path(config.data))
        place = distributed.place_from_environment(dict(os.environ))
        streams = MOST_STREAMS if config.formulation == "fast" else 1
        share = config.batch_size // place.size
        in_turn = streams > 1 and place.size > 1 and share >= distributed.LONG_STEP
        self._devices = distributed.prepare_devices(place, config.threads, streams, in_turn=in_turn)
        pace_ms = None if self._devices.on_gpu else distributed.pace_ms(share)
        self.ranks = distributed.Ranks(place, pace_ms=pace_ms)
        self._on_gpu = self._devices.on_gpu
        self.seed = int(self.ranks.broadcast_object(_seed(config.seed)))
        self.shard: Shard | None = None
        if self.ranks.size > 1 and config.parallel == "user-sharded":
            self.shard = Shard(self.data, self.ranks.rank, self.ranks.size)
        self._choose_precision()
        self._build_model()
        self._build_evaluation()
        self.first_epoch, self._best_hr = 1, -1.0
        self._state = State(self.parameters, self.update, self.ranks, self.shard)
        if config.load_checkpoint_path:
            self._load_checkpoint()
        self._state.broadcast()
        if differs := self.weights_differ():
            raise UserError(
                f"{differs} right after the broadcast: is one network reaching another?"
            )

    def _choose_precision(self) -> None:
        import tensorflow as tf

        from ncf.model.reference import dense

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
            streams, on_gpu = self._devices.streams, self._on_gpu
            self._peaks = (
                roofline.matmul_peak(dtype, streams, on_gpu=on_gpu),
                roofline.copy_peak(streams, on_gpu=on_gpu),
            )

    def _build_model(self) -> None:
        from ncf.model import neumf as model
        from ncf.model.optimizer import Adam
        from ncf.sampling.sampler import Sampler
        from ncf.training.train_step import Update

        config, data = self.config, self.data
        own = self.shard.data if self.shard else data
        self.sampler = Sampler(
            np.asarray(own.train_offsets),
            np.asarray(own.train_items),
            data.n_items,
            config.negative_samples,
            exact=config.no_neg_trick,
            grouped=config.batching == "grouped",
        )
        self._check_steps()
        sizes = (data.n_users, data.n_items, config.factors, config.layers)
        own_users = self.shard.users if self.shard else None
        self.parameters = model.create(*sizes, self.seed, own_users)
        self._adam = Adam(
            self.parameters.flat(), config.learning_rate, config.beta1, config.beta2, config.eps
        )
        self.formulation = fast.build_formulation(
            config,
            self.parameters,
            self._dtype,
            groups=self.shares()[0].padded,
            streams=self._devices.streams,
            whole=self._whole,
        )
        self.update = Update(
            self.sampler,
            self.formulation,
            self._adam,
            self.ranks,
            loss_scale=config.loss_scale,
            compute_dtype=self.precision.compute_dtype,
            xla=self._whole,
            own=[name.endswith("_user") for name in self.parameters.names()]
            if self.shard
            else None,
            halve=config.fp16_allreduce,
        )

    @property
    def _whole(self) -> bool:
        """Whether the whole gradient computation is compiled by XLA."""
        return self.config.xla or (self._on_gpu and self.config.formulation == "fast")

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
        ranks, size = self.ranks, self.sampler.group_size
        per_step = batching.groups_per_step(self.config.batch_size, size)
        if self.shard:
            each = (1 + self.config.negative_samples) // size
            groups = [positives * each for positives in self.shard.positives]
            return batching.own_shares(groups, per_step, ranks.rank)
        groups_ = self.sampler.groups
        steps = batching.steps_per_epoch(groups_, per_step)
        parts = range(steps)
        return [batching.share(i, groups_, per_step, ranks.rank, ranks.size) for i in parts]

    @property
    def samples(self) -> int:
        """Samples of an epoch, of all ranks together."""
        return self.data.n_train * (1 + self.config.negative_samples)

    def _check_steps(self) -> None:
        config = self.config
        per_step = batching.groups_per_step(config.batch_size, self.sampler.group_size)
        groups = self.samples // self.sampler.group_size
        steps = batching.steps_per_epoch(groups, per_step) * config.epochs
        if config.mode == "train" and config.warmup_steps >= steps:
            raise UserError(
                f"--warmup_steps {config.warmup_steps}: the run has only {steps} steps, so nothing "
                "would be left to time; lower it, or raise --epochs"
            )

    def _build_evaluation(self) -> None:
        from ncf.evaluation import protocol

        config = self.config
        asked = protocol.Asked(
            config.protocol,
            config.valid_negative,
            config.topk,
            config.valid_users_per_batch,
            config.formulation,
        )
        streams = self._devices.streams
        found = protocol.build(
            asked,
            self.data,
            self.parameters,
            self._dtype,
            self.ranks,
            streams=streams,
            shard=self.shard,
        )
        self.dataset, self.evaluator = found.dataset, found.evaluator
        self.scored_per_evaluation = found.scores

    def _load_checkpoint(self) -> None:
        self._best_hr = checkpoint.best_hr(Path(self.config.checkpoint_dir))
        meta = self._state.load(Path(self.config.load_checkpoint_path), self._belongs())
        self.first_epoch = int(meta.get("epoch", 0)) + 1
        if self.config.mode == "train" and self.first_epoch > self.config.epochs:
            raise UserError(
                f"--load_checkpoint_path is at epoch {self.first_epoch - 1} already: "
                f"raise --epochs above {self.config.epochs}"
            )

    def _belongs(self) -> checkpoint.Belongs:
        data = self.data
        return checkpoint.Belongs(data.n_users, data.n_items, data.hash, data.ids_hash)

    def save_checkpoints(self, epochs: list[record.Epoch]) -> None:
        """Write `last.npz`, and `best.npz` when this epoch is the best so far.

        All ranks bring their rows, the first one writes.
        """
        if not self.config.checkpoint_dir:
            return
        if not (self.shard or self.ranks.is_first):
            return
        values, names = self._state.whole(), self._state.names
        if not self.ranks.is_first:
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
        checkpoint.save(folder / checkpoint.LAST, names, values, meta)
        if entry.hr_at_k is not None and entry.hr_at_k > self._best_hr:
            self._best_hr = entry.hr_at_k
            checkpoint.save(folder / checkpoint.BEST, names, values, meta)

    def config_echo(self) -> dict[str, Any]:
        """Options as used: the seed resolved, protocol and candidates as in the data."""
        return {
            **self.config.echo(),
            "seed": self.seed,
            "micro_batch": self.formulation.micro_batch,
            "protocol": self.dataset.protocol,
            "valid_negative": self.dataset.candidates_per_user,
        }

    def epoch_keys(self, epoch: int) -> tuple[Any, Any]:
        """The keys of an epoch's samples and of its dropout, as tensors."""
        import tensorflow as tf

        from ncf.sampling.sampler import derive_key, epoch_keys
        from ncf.training.train_step import dropout_key

        # Ranks that order their own users' positives number them alike: streams of their own.
        seed = derive_key(self.seed, 1 << 33, self.ranks.rank) if self.shard else self.seed
        return tf.constant(epoch_keys(seed, epoch)), dropout_key(seed, epoch)

    def start_timing(self) -> None:
        """What was waited for until now belongs to the warm-up."""
        self.update.waited.assign(0.0)

    def start_epoch(self) -> None:
        """Reset what accumulates over an epoch."""
        self.update.loss_sum.assign(0.0)

    def wait(self) -> float:
        """Wait for the device; returns this rank's loss sum of the epoch so far."""
        return float(self.update.loss_sum.numpy())

    def weights_differ(self) -> str | None:
        """A sentence if what all ranks hold differs between them, else None."""
        return self._state.differ()

    def false_negatives(self) -> tuple[int, int]:
        """False negatives among the first ones of the first epoch, and how many were looked at."""
        found = self.sampler.false_negatives(self.epoch_keys(self.first_epoch)[0])
        if not self.shard:
            return found
        false, looked_at = self.ranks.sum(found)
        return int(false), int(looked_at)

    def communication(self, steps: int, seconds: float) -> record.Communication | None:
        """What ranks sent each other in `steps` steps that took this rank `seconds`."""
        if self.ranks.size == 1 or not steps:
            return None
        times = self.ranks.gather_objects((float(self.update.waited.numpy()), seconds))
        waiting, stepping = zip(*times, strict=True)
        moved = self.update.reduced_bytes
        return record.Communication(self.config.parallel, moved, steps, waiting, stepping)

    def gather_memory(self, status: str) -> tuple[int, ...]:
        """Peak bytes of every rank; only this rank's when the others may be gone."""
        mine = environment.peak_memory_bytes(on_gpu=self._on_gpu)
        if status in ("interrupted", "error"):
            return (mine,)
        return tuple(self.ranks.gather_objects(mine))


def _seed(given: int | None) -> int:
    return secrets.randbelow(2**31) if given is None else given
