"""`ncf recommend`: the best items of a user, in the ids of the source.

The score is the model's logit: it orders a user's items, and is no probability of anything. Of
equal scores the item with the lower number in the data comes first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.errors import UserError
from ncf.listing import FORMATS, Recommendation, listing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ncf.dataset import Data
    from ncf.ids import Ids

_NAMED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf recommend`."""
    add_model_arguments(parser)
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--user", metavar="ID", help="a user's id as in the ratings")
    who.add_argument("--users", metavar="FILE", help="a file with one user id a line")
    parser.add_argument("-k", "--topk", type=int, default=10, metavar="N", help="items a user [10]")
    parser.add_argument(
        *("--exclude_seen", "--exclude-seen"),
        action="store_true",
        help="leave out what the user has in the training rows",
    )
    parser.add_argument(
        "--titles", metavar="FILE", help="movies.csv, movies.dat, u.item: id, title"
    )
    parser.add_argument(
        *("--titles_encoding", "--titles-encoding"),
        default="utf-8",
        metavar="NAME",
        help="[utf-8]; ml-100k and ml-1m are latin-1",
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="[markdown]")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, and the data that its rows belong to."""
    parser.add_argument(
        "--checkpoint", required=True, metavar="PATH", help="a checkpoint, or the folder with one"
    )
    parser.add_argument(
        "--data", default="", metavar="DIR", help="the data folder [the one it was trained on]"
    )


def recommend_command(parsed: argparse.Namespace) -> int:
    """Run `ncf recommend`."""
    if parsed.topk < 1:
        raise UserError(f"--topk {parsed.topk}: must be at least 1")
    from ncf.titles import read_titles

    encoding = parsed.titles_encoding
    titles = read_titles(Path(parsed.titles), encoding) if parsed.titles else None
    wanted = [parsed.user] if parsed.user is not None else read_users(Path(parsed.users))
    data, restored = model_and_data(parsed.checkpoint, parsed.data)
    if parsed.topk > data.n_items:
        raise UserError(f"--topk {parsed.topk}: the catalogue has {data.n_items} items")
    option = "--user" if parsed.user is not None else f"--users {parsed.users}"
    users = numbers_of(user_ids(data), wanted, option)
    found = recommendations(
        restored.parameters, data, users, parsed.topk, titles, exclude_seen=parsed.exclude_seen
    )
    print(listing(found, parsed.format, titles=titles is not None))
    if len(found) < len(users) * parsed.topk:
        print("ncf: note: some users have fewer items left than asked for", file=sys.stderr)
    return 0


def read_users(path: Path) -> list[str]:
    """One id a line, blank lines left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UserError(f"--users {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"--users {path}: not UTF-8; save it as UTF-8, one id a line") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise UserError(f"--users {path}: no id in it; write one a line")
    return found


def model_and_data(checkpoint: str, folder: str) -> tuple[Data, Any]:
    """The model, and the data that it was made on.

    Raises:
        UserError: one of them is missing, damaged, or they do not belong together.
    """
    from ncf import dataset
    from ncf.checkpoint import Reader, find
    from ncf.restore import restore

    path = find(Path(checkpoint), "--checkpoint")
    told = folder or str(Reader(path, "--checkpoint").meta.get("data_folder") or "")
    if not told:
        raise UserError("--data is missing: name the folder that the model was trained on")
    try:
        data = dataset.load(Path(told))
    except UserError as error:
        if folder:
            raise
        raise UserError(f"{error} (the folder it was trained on; name another by --data)") from None
    return data, restore(path, "--checkpoint", data)


def user_ids(data: Data) -> Ids:
    """The users' ids as they stood in the source."""
    from ncf.ids import Ids

    return Ids(data.user_ids, data.user_id_offsets)


def numbers_of(ids: Ids, wanted: Sequence[str], option: str) -> list[int]:
    """Numbers of users by their ids.

    Raises:
        UserError: unknown ids; names some, and for a single one what may have been meant.
    """
    found = [ids.find(text) for text in wanted]
    unknown = [text for text, number in zip(wanted, found, strict=True) if number is None]
    if unknown:
        near = ids.near(unknown[0])
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        if len(wanted) == 1:
            raise UserError(
                f"{option} {unknown[0]}: no such user among the {len(ids):,} of the data{hint}"
            )
        named = ", ".join(unknown[:_NAMED])
        more = ", ..." if len(unknown) > _NAMED else ""
        raise UserError(
            f"{option}: {len(unknown)} of {len(wanted)} users are unknown: {named}{more}{hint}"
        )
    return [number for number in found if number is not None]


def recommendations(
    parameters: Any,
    data: Data,
    users: Sequence[int],
    k: int,
    titles: dict[str, str] | None,
    *,
    exclude_seen: bool,
) -> list[Recommendation]:
    """The top k of each user, best first; fewer where fewer items are left.

    Raises:
        UserError: the model's scores are not finite.
    """
    import os

    import numpy as np
    import tensorflow as tf

    from ncf import distributed, metrics, precision
    from ncf.ranking import Catalogue, best_of

    place = distributed.place_from_environment(dict(os.environ))
    devices = distributed.prepare_devices(place, 0, 64)
    precision.establish("fp32", "auto", on_gpu=devices.on_gpu, tf32_capable=False)
    catalogue = Catalogue(parameters, tf.float32, "fast", lanes=devices.lanes)
    offsets = np.asarray(data.train_offsets) if exclude_seen else np.zeros(data.n_users + 1, int)
    rows = np.asarray(users, np.int32)
    found: list[Recommendation] = []
    try:
        blocks = list(best_of(catalogue, rows, offsets, np.asarray(data.train_items), k))
    except metrics.NonFiniteScores as error:
        raise UserError(f"--checkpoint: {error}: this model has diverged") from None
    places = ((i, s) for block in blocks for i, s in zip(block.items, block.scores, strict=True))
    for user, (items, scores) in zip(users, places, strict=True):
        kept = [(int(i), float(s)) for i, s in zip(items, scores, strict=True) if np.isfinite(s)]
        for rank, (item, score) in enumerate(kept, 1):
            text = data.item_id(item)
            title = titles.get(text) if titles is not None else None
            found.append(Recommendation(data.user_id(user), rank, text, title, score))
    return found
