"""`ncf recommend`: the best items of a user, in the ids of the source.

The score is the model's logit: it orders a user's items, and is not a probability. Of
equal scores the item with the lower number in the data comes first.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.cli import need_tensorflow
from ncf.cli.common import (
    add_model_arguments,
    load_model_and_data,
    markdown_table,
    prepare_machine,
)
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from ncf.data.dataset import Data
    from ncf.readers.ids import Ids

_NAMED = 5


def recommend_arguments(parser: argparse.ArgumentParser) -> None:
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


def recommend(parsed: argparse.Namespace) -> int:
    """Run `ncf recommend`."""
    need_tensorflow()
    if parsed.topk < 1:
        raise UserError(f"--topk {parsed.topk}: must be at least 1")
    titles = read_titles(Path(parsed.titles), parsed.titles_encoding) if parsed.titles else None
    names = [parsed.user] if parsed.user is not None else read_users(Path(parsed.users))
    data, restored = load_model_and_data(parsed.checkpoint, parsed.data)
    if parsed.topk > data.n_items:
        raise UserError(f"--topk {parsed.topk}: the catalogue has {data.n_items} items")

    from ncf.readers.ids import Ids

    option = "--user" if parsed.user is not None else f"--users {parsed.users}"
    users = user_numbers(Ids(data.user_ids, data.user_id_offsets), names, option)
    results = recommendations(
        restored.parameters, data, users, parsed.topk, titles, exclude_seen=parsed.exclude_seen
    )
    print(format_list(results, parsed.format, titles=titles is not None))
    if len(results) < len(users) * parsed.topk:
        print("ncf: note: some users have fewer items than --topk left", file=sys.stderr)
    return 0


def read_users(path: Path) -> list[str]:
    """One id a line, blank lines left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UserError(f"--users {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"--users {path}: not UTF-8; save it as UTF-8, one id a line") from None
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise UserError(f"--users {path}: no id in it; write one a line")
    return names


def user_numbers(ids: Ids, names: Sequence[str], option: str) -> list[int]:
    """Numbers of users by their ids.

    Raises:
        UserError: unknown ids; names some, and suggests ids that are similar to the first.
    """
    numbers = [(name, ids.find(name)) for name in names]
    unknown = [name for name, number in numbers if number is None]
    if unknown:
        near = ids.near(unknown[0])
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        if len(names) == 1:
            raise UserError(
                f"{option} {unknown[0]}: no such user among the {len(ids):,} of the data{hint}"
            )
        named = ", ".join(unknown[:_NAMED])
        more = ", ..." if len(unknown) > _NAMED else ""
        raise UserError(
            f"{option}: {len(unknown)} of {len(names)} users are unknown: {named}{more}{hint}"
        )
    return [number for _, number in numbers if number is not None]


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
    import numpy as np

    from ncf import metrics
    from ncf.evaluation.catalogue import Catalogue, best_of

    machine = prepare_machine()
    catalogue = Catalogue(parameters, machine.dtype, "fast", streams=machine.devices.streams)
    offsets = np.asarray(data.train_offsets) if exclude_seen else np.zeros(data.n_users + 1, int)
    rows = np.asarray(users, np.int32)
    results: list[Recommendation] = []
    try:
        blocks = list(best_of(catalogue, rows, offsets, np.asarray(data.train_items), k))
    except metrics.NonFiniteScores as error:
        raise UserError(f"--checkpoint: {error}: this model has diverged") from None
    lists = ((i, s) for block in blocks for i, s in zip(block.items, block.scores, strict=True))
    for user, (items, scores) in zip(users, lists, strict=True):
        for rank, item in enumerate(items[np.isfinite(scores)], 1):
            name, score = data.item_id(int(item)), float(scores[rank - 1])
            title = titles.get(name) if titles is not None else None
            results.append(Recommendation(data.user_id(user), rank, name, title, score))
    return results


FORMATS = ("markdown", "csv", "json")


@dataclass(frozen=True)
class Recommendation:
    """One item in a user's list; ids as in the source, title None where no file has one."""

    user: str
    rank: int
    item: str
    title: str | None
    score: float


def format_list(results: Sequence[Recommendation], form: str, *, titles: bool) -> str:
    """All recommendations of all users.

    Args:
        results: in the order in which they are shown.
        form: one of FORMATS.
        titles: whether there is a column for them.
    """
    columns = ["user", "rank", "item", *(["title"] if titles else []), "score"]
    rows = [{name: getattr(result, name) for name in columns} for result in results]
    if form == "json":
        return json.dumps(rows, indent=1, ensure_ascii=False)
    texts = [[_text(value) for value in row.values()] for row in rows]
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([columns, *texts])
        return out.getvalue().rstrip("\n")
    headers = [name.capitalize() for name in columns]
    return markdown_table(headers, texts, left=["User", "Item", "Title"])


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def read_titles(path: Path, encoding: str) -> dict[str, str]:
    """Title of every id in the file; a header line is one more entry that no item uses.

    The first column is the id as in the ratings, the second the title: movies.csv, movies.dat,
    u.item, or columns separated by tabs. MovieLens uses two encodings, UTF-8 in the newer sets and
    latin-1 in ml-100k and ml-1m, so the caller names the encoding.

    Raises:
        UserError: unreadable, not in that encoding, or without two columns; names the way out.
    """
    try:
        text = path.read_bytes().decode(encoding)
    except OSError as error:
        raise UserError(f"--titles {path}: {error.strerror or error}") from None
    except LookupError:
        raise UserError(
            f"--titles_encoding {encoding}: no such encoding; utf-8 or latin-1"
        ) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UserError(
            f"--titles {path}:{line}: not {encoding}; give --titles_encoding "
            f"{'utf-8' if encoding != 'utf-8' else 'latin-1'}"
        ) from None
    lines = text.removeprefix("\ufeff").splitlines()
    titles = {row[0].strip(): row[1].strip() for row in _rows(lines) if len(row) > 1}
    if not titles:
        raise UserError(f"--titles {path}: no line has two columns (id and title)")
    return titles


def _rows(lines: list[str]) -> Iterable[list[str]]:
    first = next((line for line in lines if line.strip()), "")
    for separator in ("::", "\t", "|"):
        if separator in first:
            return [line.split(separator) for line in lines]
    return csv.reader(lines, delimiter=";" if ";" in first and "," not in first else ",")
