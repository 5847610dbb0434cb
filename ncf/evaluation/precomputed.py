"""Scoring with frozen weights, from tables that hold the first layer's products.

relu([u | i] W + b) = relu(u W_u + b + i W_i), and while no weight changes, both products can be
stored once, as a row per user and a row per item. A pair then costs two gathers, an addition and
the upper layers: two fifths of the multiply-adds of the published 256-256-128-64. The output
layer's GMF weights are multiplied into the users' GMF rows in the same way.

The GMF rows stay float32, and so do the last products, as in `ncf.model.reference`. A large batch
is scored in chunks that stay in cache, one chunk per stream; a small one at once, without
compiled pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ncf.model.reference import dense, gather_rows, logits

if TYPE_CHECKING:
    from ncf.model.neumf import Parameters

CHUNK = 2048
"""Pairs scored together: their hidden layers stay in a core's cache (measured: 2,048 of 512 to
32,768), and one shape means one compilation."""


class Tables(NamedTuple):
    """Tables and layers of a frozen model, with W the width of the first hidden layer.

    user [users, W] (the first bias included) and item [items, W] in the compute type, gmf_user
    [users, F] (times the output weights) and gmf_item [items, F] float32, kernels and biases of
    the layers above the first in the compute type, output [L_last, 1] and output_bias [1] float32.
    Without hidden layers W is 1, and the row is the whole MLP's share of the score.
    """

    user: Any
    item: Any
    gmf_user: Any
    gmf_item: Any
    kernels: tuple[Any, ...]
    biases: tuple[Any, ...]
    output: Any
    output_bias: Any
    hidden: bool


def _first_kernel(parameters: Parameters) -> Any:
    """The first kernel; without hidden layers the MLP's part of the output kernel."""
    if parameters.kernels:
        return tf.convert_to_tensor(parameters.kernels[0])
    return tf.convert_to_tensor(parameters.output_kernel)[parameters.gmf_user.shape[1] :]


def precompute_users(
    parameters: Parameters, mlp: Any, gmf: Any, compute_dtype: Any
) -> tuple[Any, Any]:
    """Rows of `Tables.user` and `Tables.gmf_user` from rows of the two embeddings."""
    factors, width = gmf.shape[1], mlp.shape[1]
    hidden = bool(parameters.kernels)
    user = dense(mlp, _first_kernel(parameters)[:width], compute_dtype)
    user = tf.cast(user, tf.float32)
    if hidden:
        user = tf.cast(user + parameters.biases[0], compute_dtype)
    return user, gmf * tf.convert_to_tensor(parameters.output_kernel)[:factors, 0]


def precompute(parameters: Parameters, compute_dtype: Any, *, users: bool = True) -> Tables:
    """Multiply the tables once, in the matmul's precision.

    Args:
        parameters: float32; what changes in them later does not show.
        compute_dtype: type of the matmuls and of the projected tables.
        users: False leaves the users' tables empty, for those who precompute a few at a time.
    """
    factors, width = parameters.gmf_user.shape[1], parameters.mlp_user.shape[1]
    hidden = bool(parameters.kernels)
    mlp_output = tf.convert_to_tensor(parameters.output_kernel)[factors:]
    rows = (parameters.mlp_user, parameters.gmf_user)
    if not users:
        rows = (tf.zeros([0, width]), tf.zeros([0, factors]))
    user, gmf_user = precompute_users(parameters, *rows, compute_dtype)
    item = dense(parameters.mlp_item, _first_kernel(parameters)[width:], compute_dtype)
    return Tables(
        user=user,
        item=item if hidden else tf.cast(item, tf.float32),
        gmf_user=gmf_user,
        gmf_item=tf.convert_to_tensor(parameters.gmf_item),
        kernels=tuple(tf.cast(kernel, compute_dtype) for kernel in parameters.kernels[1:]),
        biases=tuple(tf.cast(bias, compute_dtype) for bias in parameters.biases[1:]),
        output=mlp_output if hidden else tf.ones([1, 1]),
        output_bias=tf.convert_to_tensor(parameters.output_bias),
        hidden=hidden,
    )


def variables(tables: Tables) -> list[Any]:
    """Every table and layer, in one fixed order."""
    return [*tables[:4], *tables.kernels, *tables.biases, tables.output, tables.output_bias]


def as_variables(tables: Tables) -> Tables:
    """The same as variables, which can be saved, and assigned when the weights have changed."""
    own = [tf.Variable(value, trainable=False) for value in variables(tables)]
    user, item, gmf_user, gmf_item, *layers, output, output_bias = own
    kernels, biases = layers[: len(layers) // 2], layers[len(layers) // 2 :]
    upper_layers = tuple(kernels), tuple(biases)
    return Tables(user, item, gmf_user, gmf_item, *upper_layers, output, output_bias, tables.hidden)


def assign(own: Tables, tables: Tables) -> None:
    """Give variables made by `as_variables` the values of tables of the same shapes."""
    for variable, value in zip(variables(own), variables(tables), strict=True):
        variable.assign(value)


def first_layer(tables: Tables, user_rows: Any, item_rows: Any) -> Any:
    """The first hidden layer from projected rows that broadcast to [n, W]."""
    total = user_rows + item_rows
    return tf.nn.relu(total) if tables.hidden else total


def upper(tables: Tables, hidden: Any) -> Any:
    """The MLP's share of the score, float32 [n], from the first hidden layer [n, W]."""
    for kernel, bias in zip(tables.kernels, tables.biases, strict=True):
        hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(hidden, kernel), bias))
    return tf.matmul(tf.cast(hidden, tf.float32), tables.output)[:, 0]


def scores(tables: Tables, users: Any, items: Any) -> Any:
    """Scores of pairs, float32 [n], from int32 [n] twice; any n, nothing compiled."""
    hidden = first_layer(tables, tf.gather(tables.user, users), tf.gather(tables.item, items))
    gmf = tf.gather(tables.gmf_user, users) * tf.gather(tables.gmf_item, items)
    return upper(tables, hidden) + tf.reduce_sum(gmf, axis=1) + tables.output_bias


def score_lists(tables: Tables, user: Any, gmf_user: Any, items: Any) -> Any:
    """Scores of lists, float32 [c, m]: each user's row serves its whole list.

    Args:
        tables: only the items' and the upper layers count.
        user: rows of the users from `precompute_users`, [c, W].
        gmf_user: likewise, float32 [c, F].
        items: int32 [c, m].
    """
    shape = tf.shape(items)
    hidden = first_layer(tables, user[:, None, :], tf.gather(tables.item, items))
    mlp = upper(tables, tf.reshape(hidden, [shape[0] * shape[1], hidden.shape[2]]))
    gmf = tf.linalg.matvec(tf.gather(tables.gmf_item, items), gmf_user)
    return tf.reshape(mlp, shape) + gmf + tables.output_bias


def chunk_scorer(tables: Tables) -> Any:
    """As `scores`, for one fixed n: what lies between the matmuls is compiled by XLA.

    Float32 rows are looked up inside the compiled loop, which saves writing them out; 16-bit rows
    are looked up outside, as XLA widens them one by one on a CPU.
    """
    wide = tables.user.dtype == tf.float32

    def between(left: Any, right: Any) -> Any:
        if wide:
            left, right = tf.gather(tables.user, left), tf.gather(tables.item, right)
        return first_layer(tables, left, right)

    def products(users: Any, items: Any) -> Any:
        return tf.gather(tables.gmf_user, users) * tf.gather(tables.gmf_item, items)

    first = tf.function(between, jit_compile=True, autograph=False)
    gmf = tf.function(products, jit_compile=True, autograph=False)

    def score(users: Any, items: Any) -> Any:
        rows = (users, items)
        if not wide:
            rows = (tf.gather(tables.user, users), tf.gather(tables.item, items))
        mlp = upper(tables, first(*rows))
        # summed outside: XLA adds along a row number by number
        return mlp + tf.reduce_sum(gmf(users, items), axis=1) + tables.output_bias

    return score


FORMULATIONS = ("reference", "fast")


GPU_CHUNK = 1 << 18
"""Pairs of a chunk on a GPU, where a kernel's start costs more than memory does. Not measured."""


class Scorer:
    """Callable: int32 [n] users and items to float32 [n] scores.

    Args:
        parameters: weights; with `fast` a change after this call does not show.
        compute_dtype: type of the matmuls.
        formulation: one of FORMULATIONS.
        streams: chunks scored side by side, one thread each.
        chunk: pairs of a chunk.
    """

    def __init__(
        self,
        parameters: Parameters,
        compute_dtype: Any,
        formulation: str,
        *,
        streams: int = 1,
        chunk: int = CHUNK,
    ) -> None:
        pairs = [tf.TensorSpec([None], tf.int32, name=name) for name in ("users", "items")]

        def compiled(function: Any) -> Any:
            return tf.function(function, input_signature=pairs, autograph=False)

        self._chunk = chunk
        self.tables: Tables | None = None
        if formulation == "reference":

            def reference(users: Any, items: Any) -> Any:
                rows = gather_rows(parameters, users, items)
                return logits(rows, parameters, compute_dtype)

            self._small = self._large = compiled(reference)
            return
        tables = self.tables = precompute(parameters, compute_dtype)
        score_chunk = chunk_scorer(tables)

        def small(users: Any, items: Any) -> Any:
            return scores(tables, users, items)

        def large(users: Any, items: Any) -> Any:
            chunks = tf.size(users) // chunk
            parts = tf.TensorArray(tf.float32, chunks, element_shape=[chunk])

            def body(number: Any, parts: Any) -> tuple[Any, Any]:
                part = slice(number * chunk, (number + 1) * chunk)
                some = score_chunk(_fixed(users[part], chunk), _fixed(items[part], chunk))
                return number + 1, parts.write(number, some)

            _, parts = tf.while_loop(
                lambda number, _: number < chunks,
                body,
                (tf.constant(0), parts),
                parallel_iterations=max(1, streams),
            )
            rest = chunks * chunk
            last = scores(tables, users[rest:], items[rest:])
            return tf.concat([tf.reshape(parts.stack(), [-1]), last], axis=0)

        self._small, self._large = compiled(small), compiled(large)

    def __call__(self, users: Any, items: Any) -> Any:
        """Score pairs. Their numbers must lie within the tables: compiled lookups do not check."""
        return (self._small if users.shape[0] < self._chunk else self._large)(users, items)


def _fixed(values: Any, size: int) -> Any:
    return tf.ensure_shape(values, [size])
