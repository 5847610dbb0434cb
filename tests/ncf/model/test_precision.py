"""Precision is probed, not declared: imitated hardware is told apart by what it rounds away."""

from __future__ import annotations

import numpy as np
import pytest
from toy import import_tensorflow

from ncf.errors import UserError
from ncf.model import precision


def matmul_keeping(bits: int):
    """A matmul that rounds its inputs to so many mantissa bits, as tensor cores do."""

    def rounded(array: np.ndarray) -> np.ndarray:
        mantissa, exponent = np.frexp(array.astype(np.float64))
        return np.ldexp(np.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent)

    return lambda a, b: (rounded(a) @ rounded(b)).astype(np.float32)


@pytest.mark.parametrize("bits", [7, 10, 23])
def test_the_probe_counts_the_mantissa_bits_that_survive(bits: int) -> None:
    assert precision.surviving_bits(matmul_keeping(bits)) == bits


def test_fp32_that_computes_in_tf32_is_called_by_its_effective_name() -> None:
    plan = precision.plan("fp32", "auto", on_gpu=True, tf32_capable=True)
    found = precision.probe(plan, matmul_keeping(10))
    assert (found.requested, found.effective) == ("fp32", "tf32 or float16")
    assert precision.probe(plan, matmul_keeping(23)).effective == "fp32"


def test_tf32_that_the_device_ignores_is_seen() -> None:
    plan = precision.plan("tf32", "auto", on_gpu=True, tf32_capable=True)
    assert precision.probe(plan, matmul_keeping(23)).effective == "fp32"
    assert precision.probe(plan, matmul_keeping(10)).effective == "tf32"


def test_amp_is_float16_on_a_gpu_and_bfloat16_on_a_cpu_unless_told() -> None:
    kinds = {"tf32_capable": False}
    assert precision.plan("amp", "auto", on_gpu=True, **kinds).compute_dtype == "float16"
    assert precision.plan("amp", "auto", on_gpu=False, **kinds).compute_dtype == "bfloat16"
    assert precision.plan("amp", "float16", on_gpu=False, **kinds).compute_dtype == "float16"


def test_tf32_without_the_hardware_is_refused_with_a_way_out() -> None:
    with pytest.raises(UserError, match="tf32 needs an NVIDIA GPU of compute capability"):
        precision.plan("tf32", "auto", on_gpu=False, tf32_capable=False)


@pytest.mark.tf
@pytest.mark.parametrize(("dtype", "bits"), [("float32", 23), ("bfloat16", 7), ("float16", 10)])
def test_the_probe_sees_what_this_machine_computes_in(dtype: str, bits: int) -> None:
    tf = import_tensorflow()
    from ncf.model.reference import dense

    kind = tf.as_dtype(dtype)
    assert precision.surviving_bits(lambda a, b: tf.cast(dense(a, b, kind), tf.float32)) == bits
