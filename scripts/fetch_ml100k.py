"""Fetch MovieLens 100k for tests and demonstrations.

MovieLens may not be redistributed, so it is not in this repository. The wheel of recbole 1.2.1
carries the whole set; this takes the one file out of it and checks it. Nothing is installed.

    python scripts/fetch_ml100k.py [--output data/ml-100k.inter]

exit codes: 0 the file is there, 2 it could not be fetched (one line says why, and the way out)
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
WHEEL = "recbole==1.2.1"
MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
DEFAULT = Path(__file__).resolve().parent.parent / "data" / "ml-100k.inter"
WAY_OUT = (
    "download MovieLens 100k (ml-100k.zip, from GroupLens) yourself and pass it with "
    "--data ml-100k.zip"
)


class FetchError(Exception):
    """The data cannot be had; the message is one line for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch unless the right file is there; one line either way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=DEFAULT, help=f"default: {DEFAULT}")
    parser.add_argument("--wheel", type=Path, help=f"a wheel of {WHEEL} that you already have")
    options = parser.parse_args(arguments)
    try:
        if already_there(options.output):
            print(f"{options.output}: already there, and it is MovieLens 100k")
            return 0
        with tempfile.TemporaryDirectory() as folder:
            data = take_out(options.wheel or download(Path(folder)))
        write(options.output, data)
    except FetchError as error:
        print(f"fetch_ml100k: error: {error}", file=sys.stderr)
        return 2
    print(f"{options.output}: MovieLens 100k, {len(data):,} bytes, SHA-256 as expected")
    return 0


def already_there(path: Path) -> bool:
    """Whether path is the file; FetchError if something else is in its place."""
    if not path.exists():
        return False
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FetchError(f"{path}: {error.strerror}; choose another --output") from None
    if found != SHA256:
        raise FetchError(
            f"{path} is there with other content (SHA-256 {found[:12]}..., not {SHA256[:12]}...); "
            "remove it, or choose another --output"
        )
    return True


def download(folder: Path) -> Path:
    """Let pip download the wheel into folder; its path."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        reason = said[-1].strip() if said else f"exit code {done.returncode}"
        raise FetchError(f"pip could not download {WHEEL} ({reason}); {WAY_OUT}")
    return wheels[0]


def take_out(wheel: Path) -> bytes:
    """The ratings file inside the wheel, checked."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(MEMBER)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel}: no {MEMBER} in it ({error}); {WAY_OUT}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise FetchError(f"{MEMBER} in {wheel} has SHA-256 {found}, not {SHA256}; {WAY_OUT}")
    return data


def write(path: Path, data: bytes) -> None:
    """Write the whole file or nothing."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise FetchError(f"{path}: {error.strerror}; choose another --output") from None


if __name__ == "__main__":
    sys.exit(main())
