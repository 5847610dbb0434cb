"""Updates of the model, each on one global batch: sample, differentiate, all-reduce, apply.

Any number of steps run in one call of one compiled function: nothing goes back to Python between
them.

The order with mixed precision is: scale the loss, gradients, all-reduce, finite check, unscale,
apply. The check sees the reduced gradients, so all ranks skip an update together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ncf.model.dropout import step_key
from ncf.model.optimizer import LossScale
from ncf.ranks import horovod
from ncf.sampling.sampler import ROUNDS, Sampler, derive_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncf.model.fast import Fast
    from ncf.model.optimizer import Adam
    from ncf.model.reference import Reference
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.batching import Share

_DROPOUT_STREAM = 1 << 32  # beyond any epoch's round number, so no other stream shares its keys


def dropout_key(seed: int, epoch: int) -> Any:
    """The dropout key of an epoch, uint32 [2]."""
    mixed = derive_key(seed, epoch, _DROPOUT_STREAM)
    return tf.constant([mixed & 0xFFFFFFFF, mixed >> 32], tf.uint32)


class TrainStep:
    """The compiled updates of one rank.

    Args:
        sampler: makes the batches.
        formulation: differentiates.
        adam: updates the variables.
        ranks: add their gradients up.
        loss_scale: dynamic, a number or auto.
        compute_dtype: name of the type that the loss scale is for.
        xla: compile sampling and differentiation as a whole.
        own: for each variable, whether it holds rows of this rank's own, whose gradients are
            complete without the others; None where ranks hold the same.
        halve: send gradients as float16 (`ncf.ranks.horovod.halved`).

    `loss_sum`, `skipped` and `waited` (seconds inside the all-reduce) accumulate on the device;
    reading them waits for it. `reduced_bytes` is what one step hands to the all-reduce.
    """

    def __init__(
        self,
        sampler: Sampler,
        formulation: Reference | Fast,
        adam: Adam,
        ranks: Ranks,
        *,
        loss_scale: str,
        compute_dtype: str,
        xla: bool,
        own: Sequence[bool] | None = None,
        halve: bool = False,
    ) -> None:
        self._sampler, self._formulation = sampler, formulation
        self._adam, self._ranks = adam, ranks
        self.loss_scale = LossScale(loss_scale, compute_dtype)
        self.loss_sum = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._differentiate = tf.function(self._gradients, jit_compile=xla or None, autograph=False)
        self._compiled: dict[int, Any] = {}
        self._own, self._halve = own, halve
        self.waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.reduced_bytes = 0

    def compile(self, padded: int) -> None:
        """Trace the steps whose shares have this shape, without running one.

        Before the clock runs: TensorFlow optimizes a function when it is first called.
        """
        if padded in self._compiled:
            return
        signature = [
            tf.TensorSpec([ROUNDS + 1], tf.uint64),
            tf.TensorSpec([2], tf.uint32),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([None, 3], tf.int64),
        ]

        def updates(keys: Any, dropout_key: Any, begin: Any, shares: Any) -> None:
            def body(number: Any) -> tuple[Any]:
                own = step_key(dropout_key, begin + number)
                first, valid, total = tf.unstack(shares[number])
                self._update(keys, own, first, valid, total, padded)
                return (number + 1,)

            start = (tf.constant(0, tf.int64),)
            tf.while_loop(lambda i: i < tf.shape(shares, tf.int64)[0], body, start)

        traced = tf.function(updates, input_signature=signature, autograph=False)
        self._compiled[padded] = traced.get_concrete_function()
        nothing = [tf.zeros(part.shape, part.dtype) for part in signature[:-1]]
        self._compiled[padded](*nothing, tf.zeros([0, 3], tf.int64))

    def __call__(self, keys: Any, dropout_key: Any, begin: int, shares: Sequence[Share]) -> None:
        """Train on shares of one shape: steps `begin`, `begin` + 1, ... of the epoch of `keys`.

        Args:
            keys: uint64 [ROUNDS + 1] from `epoch_keys`.
            dropout_key: uint32 [2] from `dropout_key`.
            begin: number of the first step within the epoch.
            shares: this rank's, one per step.
        """
        rows = [[part.first, part.valid, part.total] for part in shares]
        numbers = tf.constant(rows, tf.int64, [len(rows), 3])
        self._compiled[shares[0].padded](keys, dropout_key, tf.constant(begin, tf.int64), numbers)

    def _gradients(
        self, keys: Any, first: Any, valid: Any, dropout_key: Any, grad_scale: Any, padded: int
    ) -> tuple[Any, list[Any]]:
        batch = self._sampler.batch(keys, first, valid, padded)
        return self._formulation.loss_and_gradients(batch, dropout_key, grad_scale)

    def _update(
        self, keys: Any, dropout_key: Any, first: Any, valid: Any, total: Any, padded: int
    ) -> None:
        samples = tf.cast(total * self._sampler.group_size, tf.float32)
        grad_scale = self.loss_scale.value / samples
        loss, gradients = self._differentiate(keys, first, valid, dropout_key, grad_scale, padded)
        self.apply(gradients)
        self.loss_sum.assign_add(tf.cast(loss, tf.float64))

    def apply(self, gradients: list[Any]) -> None:
        """Add this rank's scaled gradients up and update, or skip on overflow, on all ranks."""
        gradients, finite = self._reduced(gradients)
        if finite is None:
            self._adam.apply(gradients)
            return
        unscale = 1.0 / self.loss_scale.value

        def update() -> Any:
            self._adam.apply([gradient * unscale for gradient in gradients])
            return tf.constant(0, tf.int64)

        self.skipped.assign_add(tf.cond(finite, update, lambda: tf.constant(1, tf.int64)))
        self.loss_scale.update(finite)

    def _reduced(self, gradients: list[Any]) -> tuple[list[Any], Any]:
        """Gradients of the whole batch, and whether all ranks' are finite (None: unchecked)."""
        own = self._own or [False] * len(gradients)
        shared = [gradient for gradient, mine in zip(gradients, own, strict=True) if not mine]
        checked = self.loss_scale.active
        if checked and any(own):
            # The others cannot see this rank's own rows; their finiteness travels as a number.
            mine = [g for g, is_own in zip(gradients, own, strict=True) if is_own]
            shared.append(tf.cast(tf.logical_not(_all_finite(mine)), tf.float32)[None])
        summed = self._sum(shared)
        bad = summed.pop() if checked and any(own) else None
        finite = _all_finite(summed) if checked else None
        if bad is not None:
            finite &= tf.equal(bad[0], 0.0)
        rest = iter(summed)
        return [g if mine else next(rest) for g, mine in zip(gradients, own, strict=True)], finite

    def _sum(self, tensors: list[Any]) -> list[Any]:
        """All-reduce, and take note of its size and time."""
        if self._ranks.size == 1:
            return self._ranks.sum_gradients(tensors)
        self.reduced_bytes = _bytes(tensors)
        with tf.control_dependencies(tensors):
            begun = tf.timestamp()
        with tf.control_dependencies([begun]):
            tensors = [tf.identity(tensor) for tensor in tensors]
        if self._halve:
            largest = horovod.peaks(tensors)
            factors = horovod.scales(self._ranks.max_tensor(largest), self._ranks.size)
            halves = horovod.halved(tensors, factors)
            self.reduced_bytes = _bytes([largest, *halves])
            summed = horovod.restored(self._ranks.sum_gradients(halves), factors)
        else:
            summed = self._ranks.sum_gradients(tensors)
        with tf.control_dependencies(summed):
            self.waited.assign_add(tf.timestamp() - begun)
        return summed

    def state(self) -> list[Any]:
        """All variables that the next update depends on, without the parameters."""
        return [*self._adam.state(), self.loss_scale.value]


def _bytes(tensors: Sequence[Any]) -> int:
    return sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in tensors)


def _all_finite(tensors: Sequence[Any]) -> Any:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors])
