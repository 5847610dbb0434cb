"""NeuMF's parameters (He et al., WWW 2017) and their initial values.

The MLP's first width is shared by the user and the item embedding, so `layers` 256-256-128-64
means embeddings of 128 + 128 and three dense layers 256 -> 256 -> 128 -> 64. GMF and MLP tables
are separate variables: slicing one wide table inside the differentiated region was measured to
cost a third of a step.
"""

from __future__ import annotations

import math
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

EMBEDDING_STDDEV = 0.01


class Parameters(NamedTuple):
    """All trainable variables, float32.

    Shapes, with F factors, L_0.. the MLP widths:
        gmf_user [users, F], gmf_item [items, F], mlp_user [users, L_0 // 2],
        mlp_item [items, L_0 - L_0 // 2], kernels [L_i, L_i+1], biases [L_i+1],
        output_kernel [F + L_last, 1] (GMF first), output_bias [1].
    """

    gmf_user: Any
    gmf_item: Any
    mlp_user: Any
    mlp_item: Any
    kernels: tuple[Any, ...]
    biases: tuple[Any, ...]
    output_kernel: Any
    output_bias: Any

    def flat(self) -> list[Any]:
        """The variables in one fixed order, the order of gradients, checkpoints and broadcasts."""
        dense = [v for pair in zip(self.kernels, self.biases, strict=True) for v in pair]
        tables = [self.gmf_user, self.gmf_item, self.mlp_user, self.mlp_item]
        return [*tables, *dense, self.output_kernel, self.output_bias]

    def names(self) -> list[str]:
        """Names in the order of `flat`, for checkpoints and messages."""
        dense = [f"{kind}_{i}" for i in range(len(self.kernels)) for kind in ("kernel", "bias")]
        tables = ["gmf_user", "gmf_item", "mlp_user", "mlp_item"]
        return [*tables, *dense, "output_kernel", "output_bias"]


def not_finite(parameters: Parameters) -> list[str]:
    """Names of the variables with a number in them that is not finite.

    Finite scores prove nothing: relu(NaN) is 0 in TensorFlow's CPU kernels.
    """
    names = zip(parameters.names(), parameters.flat(), strict=True)
    return [name for name, value in names if not bool(tf.reduce_all(tf.math.is_finite(value)))]


def shapes(
    users: int, items: int, factors: int, layers: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Shape of every variable by its name, in the order of `Parameters.flat`."""
    width = layers[0] // 2
    tables = {
        "gmf_user": (users, factors),
        "gmf_item": (items, factors),
        "mlp_user": (users, width),
        "mlp_item": (items, layers[0] - width),
    }
    hidden: dict[str, tuple[int, ...]] = {}
    for number, (fan_in, fan_out) in enumerate(pairwise(layers)):
        hidden |= {f"kernel_{number}": (fan_in, fan_out), f"bias_{number}": (fan_out,)}
    return {**tables, **hidden, "output_kernel": (factors + layers[-1], 1), "output_bias": (1,)}


def assembled(flat: Sequence[Any]) -> Parameters:
    """Parameters from variables in the order of `Parameters.flat`."""
    gmf_user, gmf_item, mlp_user, mlp_item, *hidden, output, bias = flat
    kernels, biases = tuple(hidden[::2]), tuple(hidden[1::2])
    return Parameters(gmf_user, gmf_item, mlp_user, mlp_item, kernels, biases, output, bias)


def create(
    users: int,
    items: int,
    factors: int,
    layers: Sequence[int],
    seed: int,
    own_users: NDArray[np.integer[Any]] | None = None,
) -> Parameters:
    """Fresh variables; every one draws from its own stream of `seed`.

    Embeddings normal(0, 0.01), hidden kernels Glorot uniform, output kernel LeCun uniform,
    biases 0, as in NVIDIA's implementation.

    Args:
        users: rows of the users' tables.
        items: rows of the items' tables.
        factors: width of the GMF embeddings.
        layers: widths of the MLP.
        seed: of all streams.
        own_users: keep these users' rows only, the values that they have among all.
    """
    streams = count()

    def initial(name: str, shape: tuple[int, ...]) -> Any:
        if "bias" in name:
            return tf.zeros(shape)
        stream = [seed & 0x7FFFFFFF, (seed >> 31) ^ (next(streams) << 20)]
        if "kernel" in name:
            limit = math.sqrt(3 / shape[0] if name == "output_kernel" else 6 / sum(shape))
            return tf.random.stateless_uniform(shape, stream, -limit, limit)
        values = tf.random.stateless_normal(shape, stream, stddev=EMBEDDING_STDDEV)
        whole = own_users is None or not name.endswith("_user")
        return values if whole else tf.gather(values, own_users)

    sizes = shapes(users, items, factors, layers)
    return assembled([tf.Variable(initial(name, shape)) for name, shape in sizes.items()])
