"""Titles of items from a file beside the ratings: movies.csv, movies.dat, u.item, or tab-separated.

The first column is the id as it stands in the ratings, the second the title. Encodings are
explicit, because MovieLens uses two: UTF-8 in the newer sets, latin-1 in ml-100k and ml-1m.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def read_titles(path: Path, encoding: str) -> dict[str, str]:
    """Title of every id in the file; a header line is one more entry that no item asks for.

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
