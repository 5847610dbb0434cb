"""The suites that ship with the product, and reading any suite file (bench.suite parses it)."""

from __future__ import annotations

from pathlib import Path

from bench.errors import UserError, did_you_mean

FOLDER = Path(__file__).parent


def shipped() -> tuple[str, ...]:
    """Names of the suites beside this file."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def read(name_or_path: str) -> tuple[str, str, str]:
    """A suite's name, the place to name in messages, and its text.

    Args:
        name_or_path: a shipped suite's name, or the path of a TOML file (it ends in .toml or
            contains a slash).

    Raises:
        UserError: no such suite, or a file that cannot be read.
    """
    if not name_or_path.endswith(".toml") and "/" not in name_or_path:
        path = FOLDER / f"{name_or_path}.toml"
        if name_or_path not in shipped():
            raise UserError(
                f"unknown suite {name_or_path!r}{did_you_mean(name_or_path, shipped())} "
                f"(shipped: {', '.join(shipped())}; or give the path of a .toml file)"
            )
        return name_or_path, path.name, path.read_text(encoding="utf-8")
    path = Path(name_or_path)
    try:
        return path.stem, str(path), path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
