"""`ncf export`: a TensorFlow SavedModel that needs none of our code to be served.

Users and items go in and out by their ids as in the source, as strings. Signatures:
score(user_ids [n], item_ids [n]) -> scores [n], and recommend(user_ids [n], k) -> item_ids [n, k]
and scores [n, k], best first; of equal scores the item with the lower number in the data first.
Where fewer than k items are left, the places at the end have an empty id and the score -inf.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.cli import need_tensorflow
from ncf.cli.common import add_model_arguments, load_model_and_data, prepare_machine
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ncf.data.dataset import Data
    from ncf.model.neumf import Parameters


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf export`."""
    add_model_arguments(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="where the SavedModel goes")
    parser.add_argument(
        *("--exclude_seen", "--exclude-seen"),
        action="store_true",
        help="recommend leaves out what a user has in the training rows, which are exported too",
    )
    parser.add_argument("--force", action="store_true", help="replace DIR if it is a SavedModel")


def export(parsed: argparse.Namespace) -> int:
    """Run `ncf export`."""
    need_tensorflow()
    target = Path(parsed.output)
    _check(target, force=parsed.force)
    data, restored = load_model_and_data(parsed.checkpoint, parsed.data)
    prepare_machine(streams=1)
    module = served(restored.parameters, data, exclude_seen=parsed.exclude_seen)
    write(module, target)
    print(f"{target}: {data.n_users:,} users, {data.n_items:,} items; epoch {restored.epoch}")
    return 0


def served(parameters: Parameters, data: Data, *, exclude_seen: bool) -> Any:
    """A tf.Module with the two functions; float32, nothing compiled by XLA."""
    import numpy as np
    import tensorflow as tf

    from ncf.evaluation import precomputed
    from ncf.evaluation.catalogue import Catalogue, mask

    module = tf.Module(name="ncf")
    users = [data.user_id(number) for number in range(data.n_users)]
    items = [data.item_id(number) for number in range(data.n_items)]
    tables = precomputed.as_variables(precomputed.precompute(parameters, tf.float32))
    catalogue = Catalogue(parameters, tf.float32, "fast", compiled=False, tables=tables)
    module.tables = precomputed.variables(tables)
    module.user_numbers, module.item_numbers = _numbers(users), _numbers(items)
    module.item_names = tf.Variable(items, trainable=False)
    seen = data.train_offsets if exclude_seen else np.zeros(data.n_users + 1, np.int64)
    module.seen_offsets = tf.Variable(np.asarray(seen, np.int64), trainable=False)
    module.seen_items = tf.Variable(
        np.asarray(data.train_items if exclude_seen else [], np.int32), trainable=False
    )
    strings = tf.TensorSpec([None], tf.string, name="user_ids")

    def score(user_ids: Any, item_ids: Any) -> dict[str, Any]:
        rows = _look_up(module.user_numbers, user_ids, "user")
        columns = _look_up(module.item_numbers, item_ids, "item")
        return {"scores": precomputed.scores(tables, rows, columns)}

    def recommend(user_ids: Any, k: Any) -> dict[str, Any]:
        rows = _look_up(module.user_numbers, user_ids, "user")
        starts = tf.gather(module.seen_offsets, rows)
        lengths = tf.gather(module.seen_offsets, rows + 1) - starts
        places = tf.ragged.range(starts, starts + lengths)
        columns = tf.gather(module.seen_items, places.flat_values)
        pairs = tf.stack([tf.cast(places.value_rowids(), tf.int32), columns], axis=1)
        best = tf.math.top_k(mask(catalogue.graph(rows), pairs), k)
        names = tf.gather(module.item_names, best.indices)
        present = tf.math.is_finite(best.values)
        return {"item_ids": tf.where(present, names, ""), "scores": best.values}

    pairs_in = [strings, tf.TensorSpec([None], tf.string, name="item_ids")]
    module.score = tf.function(score, input_signature=pairs_in, autograph=False)
    k_in = tf.TensorSpec([], tf.int32, name="k")
    module.recommend = tf.function(recommend, input_signature=[strings, k_in], autograph=False)
    return module


def write(module: Any, target: Path) -> None:
    """Write a module as a SavedModel, whole or not at all.

    Raises:
        UserError: the folder cannot be written.
    """
    import tensorflow as tf

    signatures = {"score": module.score, "recommend": module.recommend}
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        tf.saved_model.save(module, str(temporary / "new"), signatures=signatures)
        old = temporary / "old"
        try:
            if target.exists():
                target.rename(old)
            (temporary / "new").rename(target)
        except BaseException:  # an interrupt too must leave the old one in its place
            if old.exists():
                old.rename(target)
            raise
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"--output {target}: {reason}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _check(target: Path, *, force: bool) -> None:
    if not target.exists():
        return
    if not (target / "saved_model.pb").is_file() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"--output {target}: exists and is not a SavedModel; choose another folder")
    if not force and any(target.iterdir()):
        raise UserError(f"--output {target}: exists; --force replaces it")


def _numbers(names: Sequence[str]) -> Any:
    """A table from ids to numbers; -1 for what is not there."""
    import tensorflow as tf

    keys, values = tf.constant(list(names)), tf.range(len(names))
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)


def _look_up(table: Any, ids: Any, what: str) -> Any:
    """Numbers of ids; one that is not there is an error that names it."""
    import tensorflow as tf

    numbers = table.lookup(ids)
    unknown = tf.boolean_mask(ids, numbers < 0)
    check = tf.debugging.Assert(tf.equal(tf.size(unknown), 0), [f"unknown {what}:", unknown])
    with tf.control_dependencies([check]):
        return tf.identity(numbers)
