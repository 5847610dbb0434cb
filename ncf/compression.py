"""Gradients as float16 on their way between ranks: half the bytes of an all-reduce.

A gradient of a mean over a million samples lies about 1e-9, where float16 knows only 0. So each
tensor is first multiplied by a power of two, the same on all ranks, that brings its largest element
on any of them as high as `size` of them can be added without overflow. Rounding then costs at most
2**-11 of an element, and elements 2**-26 of the largest and smaller lose more (Micikevicius et al.,
"Mixed Precision Training", ICLR 2018, scale the loss for the same reason).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Sequence

_HIGHEST = 15  # 2**16 overflows float16


def peaks(tensors: Sequence[Any]) -> Any:
    """The largest magnitude of each tensor, float32 [n]; infinite where a tensor is not finite."""
    found = tf.stack([tf.reduce_max(tf.abs(tensor)) for tensor in tensors])
    return tf.where(tf.math.is_nan(found), float("inf"), found)


def scales(largest: Any, size: int) -> Any:
    """Powers of two [n] that bring `size` times the largest magnitudes [n] just below 2**15.

    1 for a tensor of zeros, and for one that is not finite, which stays so in float16.
    """
    exponent = _HIGHEST - tf.math.ceil(tf.math.log(largest * float(size)) / tf.math.log(2.0))
    usable = (largest > 0) & tf.math.is_finite(largest)
    # A float32 holds no larger power of two than 2**127; 126 leaves room for its inverse, too.
    return tf.where(usable, tf.pow(2.0, tf.clip_by_value(exponent, -126.0, 126.0)), 1.0)


def halved(tensors: Sequence[Any], factors: Any) -> list[Any]:
    """The tensors times their factors, float16."""
    each = zip(tensors, tf.unstack(factors), strict=True)
    return [tf.cast(tensor * factor, tf.float16) for tensor, factor in each]


def restored(tensors: Sequence[Any], factors: Any) -> list[Any]:
    """What `halved` had been given, or a sum of such, float32."""
    each = zip(tensors, tf.unstack(factors), strict=True)
    return [tf.cast(tensor, tf.float32) / factor for tensor, factor in each]
