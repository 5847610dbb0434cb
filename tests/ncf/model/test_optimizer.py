"""Adam against the formula written out, dense semantics included."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow

tf = import_tensorflow()
from ncf.model.optimizer import Adam

pytestmark = pytest.mark.tf


def test_three_steps_follow_the_formula_even_for_rows_without_gradient() -> None:
    start = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)
    variable = tf.Variable(start)
    adam = Adam([variable], learning_rate=0.1, beta1=0.25, beta2=0.5, epsilon=1e-8)
    value, first, second = start.astype(float), np.zeros((2, 2)), np.zeros((2, 2))
    gradients = [[[0.5, -1.0], [2.0, 0.0]], [[0.5, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]]
    for number, gradient in enumerate(np.array(gradients), start=1):
        adam.apply([tf.constant(gradient, tf.float32)])
        first = 0.25 * first + 0.75 * gradient
        second = 0.5 * second + 0.5 * gradient**2
        rate = 0.1 * np.sqrt(1 - 0.5**number) / (1 - 0.25**number)
        value = value - rate * first / (np.sqrt(second) + 1e-8)
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-5)


def test_the_first_step_moves_by_the_learning_rate() -> None:
    variable = tf.Variable([1.0])
    Adam([variable], 0.0045, 0.25, 0.5, 1e-8).apply([tf.constant([123.0])])
    assert float(variable[0]) == pytest.approx(1 - 0.0045, abs=1e-6)
