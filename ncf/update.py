"""One update of the model on one global batch: sample, differentiate, all-reduce, apply.

The order with mixed precision is: scale the loss, gradients, all-reduce, finite check, unscale,
apply. The check sees the reduced gradients, so all ranks skip an update together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ncf import step
from ncf.sampling import ROUNDS, Sampler, derive_key

if TYPE_CHECKING:
    from ncf.batching import Share
    from ncf.config import TrainConfig
    from ncf.distributed import Ranks
    from ncf.model import Parameters
    from ncf.optimizer import Adam

_DROPOUT_STREAM = 1 << 32  # beyond any epoch's round number, so no other stream shares its keys


class LossScale:
    """Dynamic or fixed loss scale (Micikevicius et al., "Mixed Precision Training", ICLR 2018).

    Starts at 2**15, halves after an overflow, doubles after 2,000 good updates.
    """

    GROWTH_INTERVAL = 2000

    def __init__(self, setting: str, compute_dtype: str) -> None:
        if setting == "auto":
            setting = "dynamic" if compute_dtype == "float16" else "1"
        self.dynamic = setting == "dynamic"
        initial = 2.0**15 if self.dynamic else float(setting)
        self.active = self.dynamic or initial != 1.0
        self.value = tf.Variable(initial, dtype=tf.float32, trainable=False)
        self._good = tf.Variable(0, dtype=tf.int64, trainable=False)

    def update(self, finite: Any) -> None:
        """Take note of an update that was finite, or was not."""
        if not self.dynamic:
            return
        good = tf.where(finite, self._good + 1, tf.zeros_like(self._good))
        grow = good >= self.GROWTH_INTERVAL
        factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
        self.value.assign(tf.maximum(self.value * factor, 1.0))
        self._good.assign(tf.where(grow, tf.zeros_like(good), good))


class Update:
    """The compiled update. Call it once per step with that step's share of the epoch.

    `loss_sum` and `skipped` accumulate on the device over an epoch; reading them waits for it.
    """

    def __init__(
        self,
        config: TrainConfig,
        sampler: Sampler,
        parameters: Parameters,
        adam: Adam,
        ranks: Ranks,
        compute_dtype: str,
        seed: int,
    ) -> None:
        self._config, self._sampler, self._parameters = config, sampler, parameters
        self._adam, self._ranks, self._seed = adam, ranks, seed
        self._dtype = tf.as_dtype(compute_dtype)
        self.loss_scale = LossScale(config.loss_scale, compute_dtype)
        self.loss_sum = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._differentiate = tf.function(self._gradients, jit_compile=config.xla or None)
        self._compiled: dict[int, Any] = {}

    def compile(self, padded: int) -> None:
        """Trace the step for shares of this shape, before the clock runs."""
        if padded in self._compiled:
            return
        scalar, key = tf.TensorSpec([], tf.int64), tf.TensorSpec([2], tf.int64)
        keys = tf.TensorSpec([ROUNDS + 1], tf.uint64)

        def update(keys: Any, first: Any, valid: Any, total: Any, dropout_key: Any) -> None:
            self._update(keys, first, valid, total, dropout_key, padded)

        traced = tf.function(update, input_signature=[keys, scalar, scalar, scalar, key])
        self._compiled[padded] = traced.get_concrete_function()

    def __call__(self, keys: Any, epoch: int, number: int, share: Share) -> None:
        """Train on `share`, step `number` of `epoch`, whose keys are `keys`."""
        mixed = derive_key(self._seed, epoch, _DROPOUT_STREAM + number, self._ranks.rank)
        dropout_key = tf.constant([mixed & 0x7FFFFFFF, mixed >> 32], tf.int64)
        first, valid, total = (
            tf.constant(n, tf.int64) for n in (share.first, share.valid, share.total)
        )
        self._compiled[share.padded](keys, first, valid, total, dropout_key)

    def _gradients(
        self, keys: Any, first: Any, valid: Any, dropout_key: Any, grad_scale: Any, padded: int
    ) -> tuple[Any, list[Any]]:
        batch = self._sampler.batch(keys, first, valid, padded)
        rate, widths = self._config.dropout, self._config.layers[1:]
        masks = step.dropout_masks(dropout_key, padded, widths, rate)
        return step.loss_and_gradients(
            self._parameters, batch, self._dtype, masks, rate, grad_scale
        )

    def _update(
        self, keys: Any, first: Any, valid: Any, total: Any, dropout_key: Any, padded: int
    ) -> None:
        grad_scale = self.loss_scale.value / tf.cast(total, tf.float32)
        loss, gradients = self._differentiate(keys, first, valid, dropout_key, grad_scale, padded)
        self.apply(gradients)
        self.loss_sum.assign_add(tf.cast(loss, tf.float64))

    def apply(self, gradients: list[Any]) -> None:
        """All-reduce this rank's scaled gradients and update, or skip on overflow, on all ranks."""
        gradients = self._ranks.sum_gradients(gradients)
        if not self.loss_scale.active:
            self._adam.apply(gradients)
            return
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        unscale = 1.0 / self.loss_scale.value

        def update() -> Any:
            self._adam.apply([gradient * unscale for gradient in gradients])
            return tf.constant(0, tf.int64)

        self.skipped.assign_add(tf.cond(finite, update, lambda: tf.constant(1, tf.int64)))
        self.loss_scale.update(finite)

    def state(self) -> list[Any]:
        """Everything beside the parameters that the next update depends on."""
        return [*self._adam.state(), self.loss_scale.value]
