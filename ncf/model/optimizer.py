"""Adam with dense semantics: every row's moments decay at every step, touched or not.

One fused kernel per variable (ResourceApplyAdam), float32 throughout. Kingma & Ba, "Adam", ICLR
2015, in the form with epsilon outside the bias correction (section 2, last paragraph), which is
what TensorFlow's and so NVIDIA's Adam computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Sequence


class Adam:
    """State and update of Adam for a fixed list of variables."""

    def __init__(
        self,
        variables: Sequence[Any],
        learning_rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None:
        self._variables = list(variables)
        self._first = [tf.Variable(tf.zeros_like(v), name="first") for v in variables]
        self._second = [tf.Variable(tf.zeros_like(v), name="second") for v in variables]
        self._rates = (learning_rate, beta1, beta2, epsilon)
        self._power1 = tf.Variable(beta1, dtype=tf.float32, name="beta1_power")
        self._power2 = tf.Variable(beta2, dtype=tf.float32, name="beta2_power")

    def state(self) -> list[Any]:
        """All state variables: moments in the order of the variables, then the two beta powers."""
        return [*self._first, *self._second, self._power1, self._power2]

    def apply(self, gradients: Sequence[Any]) -> None:
        """Update the variables in place from dense float32 gradients, in their order."""
        rate, beta1, beta2, epsilon = (tf.constant(x, tf.float32) for x in self._rates)
        for variable, first, second, gradient in zip(
            self._variables, self._first, self._second, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=self._power1.read_value(),
                beta2_power=self._power2.read_value(),
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=epsilon,
                grad=gradient,
                use_locking=False,
            )
        self._power1.assign(self._power1 * beta1)
        self._power2.assign(self._power2 * beta2)


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
