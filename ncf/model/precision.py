"""Precision: the switches, and a probe that shows what the device really computes.

fp32 turns TF32 execution off, tf32 turns it on, amp computes the matmuls in a 16-bit type with
float32 weights, moments and logits. Declaring is not verifying: the probe runs the model's own
matmul on numbers 1 + 2**-m and checks which m survive. That distinguishes fp32 (23 mantissa bits),
TF32 and float16 (10) and bfloat16 (7) on any device and library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import record
from ncf.errors import UserError
from ncf.runtime import environment

if TYPE_CHECKING:
    from collections.abc import Callable

MANTISSA_BITS = {"float32": 23, "tf32": 10, "float16": 10, "bfloat16": 7}
"""Explicit mantissa bits (IEEE 754-2019; NVIDIA A100 white paper for TF32)."""


@dataclass(frozen=True)
class Plan:
    """How to compute: the type of the matmuls, and whether float32 matmuls may use TF32."""

    requested: str
    compute_dtype: str
    tf32: bool

    @property
    def expected_bits(self) -> int:
        """Mantissa bits that the probe must find."""
        return MANTISSA_BITS["tf32" if self.tf32 else self.compute_dtype]


def plan(precision: str, amp_dtype: str, *, on_gpu: bool, tf32_capable: bool) -> Plan:
    """Decide the types.

    Raises:
        UserError: tf32 on hardware without it.
    """
    if precision == "tf32":
        if not tf32_capable:
            raise UserError(
                "--precision tf32 needs an NVIDIA GPU of compute capability 8.0 or later; "
                "use fp32 or amp here"
            )
        return Plan(precision, "float32", tf32=True)
    if precision == "amp":
        automatic = "float16" if on_gpu else "bfloat16"
        dtype = automatic if amp_dtype == "auto" else amp_dtype
        return Plan(precision, dtype, tf32=False)
    return Plan(precision, "float32", tf32=False)


def surviving_bits(matmul: Callable[[Any, Any], Any]) -> int:
    """Mantissa bits that pass through matmul: the largest m for which 1 + 2**-m stays above 1.

    Args:
        matmul: takes float32 [64, 64] twice; the second is the identity, so nothing is added up.
    """
    size = 64
    inputs = np.zeros((size, size), np.float32)
    powers = np.arange(1, 24)
    inputs[powers, 0] = 1 + 2.0 ** -powers.astype(np.float64)
    result = np.asarray(matmul(inputs, np.eye(size, dtype=np.float32)), np.float32)
    survived = powers[result[powers, 0] > 1]
    return int(survived.max(initial=0))


def probe(chosen: Plan, matmul: Callable[[Any, Any], Any]) -> record.Precision:
    """Run the probe and name the effective precision."""
    bits = surviving_bits(matmul)
    effective = chosen.requested if bits == chosen.expected_bits else _named(bits)
    return record.Precision(
        requested=chosen.requested,
        effective=effective,
        compute_dtype=chosen.compute_dtype,
        probe={"mantissa_bits": bits, "expected_mantissa_bits": chosen.expected_bits},
    )


def establish(precision: str, amp_dtype: str, *, on_gpu: bool) -> record.Precision:
    """Plan, switch TF32 on or off, and probe with the model's own matmul.

    Raises:
        UserError: tf32 on hardware without it.
    """
    import tensorflow as tf

    from ncf.model.reference import dense

    capable = environment.tf32_capable(environment.gpu_details() if on_gpu else None)
    chosen = plan(precision, amp_dtype, on_gpu=on_gpu, tf32_capable=capable)
    tf.config.experimental.enable_tensor_float_32_execution(chosen.tf32)
    dtype = tf.as_dtype(chosen.compute_dtype)
    return probe(chosen, lambda a, b: tf.cast(dense(a, b, dtype), tf.float32))


def mismatch(precision: record.Precision) -> str | None:
    """Why a run in another precision than requested is invalid; None if it is the same."""
    if precision.requested == precision.effective:
        return None
    return f"{precision.requested} was requested and the device computes in {precision.effective}"


def _named(bits: int) -> str:
    names = {23: "fp32", 10: "tf32 or float16", 7: "bfloat16"}
    return names.get(bits, f"{bits} mantissa bits")
