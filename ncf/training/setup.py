"""Sets a training run up, in the order that matters.

Data first (cheap, and most mistakes show there), then the place among the ranks, then the device
is pinned, and only then does TensorFlow create anything.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf.data import dataset
from ncf.errors import UserError
from ncf.model import precision, roofline
from ncf.ranks import horovod
from ncf.runtime import environment
from ncf.sampling import batching
from ncf.sampling.user_shards import Shard
from ncf.training import checkpoint
from ncf.training.state import TrainState

if TYPE_CHECKING:
    from ncf import record
    from ncf.config.train import TrainConfig
    from ncf.data.dataset import Data
    from ncf.evaluation.protocol import Evaluation
    from ncf.model.fast import Fast
    from ncf.model.neumf import Parameters
    from ncf.model.reference import Reference
    from ncf.ranks.horovod import Devices, Ranks
    from ncf.sampling.batching import Share
    from ncf.sampling.sampler import Sampler
    from ncf.training.train_step import TrainStep

MOST_STREAMS = 8
"""Each stream sums its items' gradients by itself; more threads than this share the operations."""


@dataclass(frozen=True)
class Setup:
    """A run that is ready to start.

    Attributes:
        config: the options.
        seed: of weights, samples and dropout; the same on all ranks.
        data: of all users.
        ranks: of the job.
        shard: this rank's users; None where every rank holds all of them.
        devices: what this rank computes on.
        hardware: the machine, for the record.
        precision: requested and probed.
        peaks: operations/s and bytes/s that this rank reaches; zeros if nothing is trained.
        sampler: draws this rank's batches.
        shares: this rank's part of every step of an epoch.
        formulation: computes loss and gradients.
        step: the compiled updates.
        evaluation: the evaluator and what its rates mean.
        state: the variables, as a checkpoint holds them.
        first_epoch: number of the first epoch to train; above 1 in a resumed run.
    """

    config: TrainConfig
    seed: int
    data: Data
    ranks: Ranks
    shard: Shard | None
    devices: Devices
    hardware: dict[str, Any]
    precision: record.Precision
    peaks: tuple[float, float]
    sampler: Sampler
    shares: tuple[Share, ...]
    formulation: Fast | Reference
    step: TrainStep
    evaluation: Evaluation
    state: TrainState
    first_epoch: int

    @property
    def samples(self) -> int:
        """Samples of an epoch, of all ranks together."""
        return _samples(self.config, self.data)

    def config_echo(self) -> dict[str, Any]:
        """Options as used: the seed resolved, protocol and candidates as in the data."""
        return {
            **self.config.echo(),
            "seed": self.seed,
            "micro_batch": self.formulation.micro_batch,
            "protocol": self.evaluation.dataset.protocol,
            "valid_negative": self.evaluation.dataset.candidates_per_user,
        }

    def checkpoint_meta(self) -> dict[str, Any]:
        """What a checkpoint says of the run, other than its epoch."""
        return {
            **checkpoint.identity_of(self.data).to_dict(),
            "data_folder": str(self.data.folder.resolve()),
            "world_size": self.ranks.size,
            "seed": self.seed,
            "config": self.config_echo(),
        }

    def epoch_keys(self, epoch: int) -> tuple[Any, Any]:
        """The keys of an epoch's samples and of its dropout, as tensors."""
        import tensorflow as tf

        from ncf.sampling.sampler import derive_key, epoch_keys
        from ncf.training.train_step import dropout_key

        # Ranks that order their own users' positives number them alike: streams of their own.
        seed = derive_key(self.seed, 1 << 33, self.ranks.rank) if self.shard else self.seed
        return tf.constant(epoch_keys(seed, epoch)), dropout_key(seed, epoch)


def set_up(config: TrainConfig) -> Setup:
    """Load the data, join the ranks, create the variables and load a checkpoint.

    Raises:
        UserError: an option, the data, the device or a checkpoint does not fit.
    """
    data = dataset.load(Path(config.data))
    ranks, devices = _join_ranks(config)
    drawn = secrets.randbelow(2**31) if config.seed is None else config.seed
    seed = int(ranks.broadcast_object(drawn))
    sharded = ranks.size > 1 and config.parallel == "user-sharded"
    shard = Shard(data, ranks.rank, ranks.size) if sharded else None
    on_gpu, streams = devices.on_gpu, devices.streams
    hardware = environment.hardware(on_gpu=on_gpu, threads=devices.threads)
    measured = precision.establish(config.precision, config.amp_dtype, on_gpu=on_gpu)

    import tensorflow as tf

    from ncf.evaluation import protocol
    from ncf.model import fast, neumf

    dtype, peaks = tf.as_dtype(measured.compute_dtype), (0.0, 0.0)
    if config.mode == "train":  # before the model, which then takes the probe's memory
        peaks = (
            roofline.matmul_peak(dtype, streams, on_gpu=on_gpu),
            roofline.copy_peak(streams, on_gpu=on_gpu),
        )
    sampler = _make_sampler(config, shard.data if shard else data)
    _check_steps(config, data)
    sizes = (data.n_users, data.n_items, config.factors, config.layers)
    parameters = neumf.create(*sizes, seed, shard.users if shard else None)
    shares = tuple(_shares(config, sampler, ranks, shard))
    whole = config.xla or (on_gpu and config.formulation == "fast")
    formulation = fast.build_formulation(
        config, parameters, dtype, groups=shares[0].padded, streams=streams, whole=whole
    )
    step = _make_step(
        config, sampler, formulation, parameters, ranks, measured, whole=whole, shard=shard
    )
    evaluation = protocol.build(
        protocol.EvaluationOptions(
            config.protocol,
            config.valid_negative,
            config.topk,
            config.valid_users_per_batch,
            config.formulation,
        ),
        data, parameters, dtype, ranks, streams=streams, shard=shard,
    )  # fmt: skip
    state = TrainState(parameters, step, ranks, shard)
    first_epoch = _load_checkpoint(config, state, data) if config.load_checkpoint_path else 1
    state.broadcast()
    if difference := state.differ():
        raise UserError(
            f"{difference} after the broadcast: check that all ranks joined the same job"
        )
    return Setup(
        config, seed, data, ranks, shard, devices, hardware, measured, peaks, sampler, shares,
        formulation, step, evaluation, state, first_epoch,
    )  # fmt: skip


def _join_ranks(config: TrainConfig) -> tuple[Ranks, Devices]:
    """Pin the device, then start Horovod."""
    place = horovod.place_from_environment()
    streams = MOST_STREAMS if config.formulation == "fast" else 1
    share = config.batch_size // place.size
    in_turn = streams > 1 and place.size > 1 and share >= horovod.LONG_STEP
    devices = horovod.prepare_devices(place, config.threads, streams, in_turn=in_turn)
    pace_ms = None if devices.on_gpu else horovod.pace_ms(share)
    return horovod.Ranks(place, pace_ms=pace_ms), devices


def _make_sampler(config: TrainConfig, data: Data) -> Sampler:
    from ncf.sampling.sampler import Sampler

    return Sampler(
        np.asarray(data.train_offsets),
        np.asarray(data.train_items),
        data.n_items,
        config.negative_samples,
        exact=config.no_neg_trick,
        grouped=config.batching == "grouped",
    )


def _make_step(
    config: TrainConfig, sampler: Sampler, formulation: Fast | Reference, parameters: Parameters,
    ranks: Ranks, measured: record.Precision, *, whole: bool, shard: Shard | None,
) -> TrainStep:  # fmt: skip
    from ncf.model.optimizer import Adam
    from ncf.training.train_step import TrainStep

    rates = (config.learning_rate, config.beta1, config.beta2, config.eps)
    return TrainStep(
        sampler,
        formulation,
        Adam(parameters.flat(), *rates),
        ranks,
        loss_scale=config.loss_scale,
        compute_dtype=measured.compute_dtype,
        xla=whole,
        own=[name.endswith("_user") for name in parameters.names()] if shard else None,
        halve=config.fp16_allreduce,
    )


def _shares(
    config: TrainConfig, sampler: Sampler, ranks: Ranks, shard: Shard | None
) -> list[Share]:
    per_step = batching.groups_per_step(config.batch_size, sampler.group_size)
    if shard:
        per_positive = (1 + config.negative_samples) // sampler.group_size
        groups = [positives * per_positive for positives in shard.positives]
        return batching.own_shares(groups, per_step, ranks.rank)
    steps = range(batching.steps_per_epoch(sampler.groups, per_step))
    return [batching.share(i, sampler.groups, per_step, ranks.rank, ranks.size) for i in steps]


def _samples(config: TrainConfig, data: Data) -> int:
    return data.n_train * (1 + config.negative_samples)


def _check_steps(config: TrainConfig, data: Data) -> None:
    per_step = batching.groups_per_step(config.batch_size, config.group_size)
    groups = _samples(config, data) // config.group_size
    steps = batching.steps_per_epoch(groups, per_step) * config.epochs
    if config.mode == "train" and config.warmup_steps >= steps:
        raise UserError(
            f"--warmup_steps {config.warmup_steps}: the run has only {steps} steps, so nothing "
            "would be left to time; lower it, or raise --epochs"
        )


def _load_checkpoint(config: TrainConfig, state: TrainState, data: Data) -> int:
    """Load the weights and the optimizer's state; returns the first epoch to train."""
    state.best_hr = checkpoint.best_hr(Path(config.checkpoint_dir))
    meta = state.load(Path(config.load_checkpoint_path), checkpoint.identity_of(data))
    epoch = int(meta.get("epoch", 0))
    if config.mode == "train" and epoch >= config.epochs:
        raise UserError(
            f"--load_checkpoint_path is at epoch {epoch} already: "
            f"raise --epochs above {config.epochs}"
        )
    return epoch + 1
