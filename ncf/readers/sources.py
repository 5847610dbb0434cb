"""The streams of a file: the file itself, what it compresses, or a zip's members read in place.

All failures of reading become one line that names the file (and the member).
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import lzma
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

SAMPLE_BYTES: Final = 1 << 16
_MOST_MEMBERS: Final = 10_000
_CORRUPT: Final = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)

_UNREADABLE: Final = (
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
    (b"\x89HDF", "an HDF5 file; export it as CSV"),
    (b"\x93NUMPY", "a .npy array; save it with numpy.savez or as CSV"),
)
_PACKINGS: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PAR1", "parquet"),
)
_OPENERS: Final[Mapping[str, Callable[..., Any]]] = {
    "gzip": gzip.open,
    "bzip2": bz2.open,
    "xz": lzma.open,
}


@dataclass(frozen=True)
class Source:
    """One stream of bytes. `size` is what it unpacks to, as far as its container says."""

    path: Path
    size: int
    member: str | None = None
    packing: str = "plain"

    @property
    def label(self) -> str:
        """The file, and the member in it, as messages name it."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The unpacked bytes from the start; whatever fails in the block becomes a UserError."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(reading_errors(self.label))
            if self.member is not None:
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                yield stack.enter_context(archive.open(self.member))
            elif self.packing in _OPENERS:
                yield stack.enter_context(_OPENERS[self.packing](self.path, "rb"))
            elif self.packing == "zstd":
                packed = stack.enter_context(self.path.open("rb"))
                yield cast("IO[bytes]", pa.CompressedInputStream(packed, "zstd"))
            else:
                yield stack.enter_context(self.path.open("rb"))

    def sample(self) -> tuple[bytes, bool]:
        """The first bytes, and whether they are all there is."""
        with self.open() as stream:
            sample = stream.read(SAMPLE_BYTES + 1)
        return sample[:SAMPLE_BYTES], len(sample) <= SAMPLE_BYTES


def find_sources(path: Path) -> list[Source]:
    """The streams of a file: one, or one per member of a zip.

    Raises:
        UserError: missing, a folder, empty, a corrupt zip, or a format that cannot be read.
    """
    with reading_errors(str(path)):
        if path.is_dir():
            raise UserError(f"{path}: is a folder; give the ratings file or the zip")
        size = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(8)
    if not magic:
        raise UserError(f"{path}: is empty")
    for start, what in _UNREADABLE:
        if magic.startswith(start):
            raise UserError(f"{path}: {what}")
    if magic.startswith(b"PK"):
        with reading_errors(str(path)), zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if info.file_size and not info.is_dir()]
        return [Source(path, info.file_size, info.filename) for info in infos[:_MOST_MEMBERS]]
    packing = next((name for start, name in _PACKINGS if magic.startswith(start)), "plain")
    return [Source(path, size, packing=packing)]


def digests(path: Path) -> tuple[str | None, str]:
    """MD5 of a zip (which identifies archives; else None) and SHA-256 of a file, in hex."""
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with reading_errors(str(path)), path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
        file.seek(0)
        while block := file.read(1 << 20):
            if is_zip:
                md5.update(block)
            sha256.update(block)
    return md5.hexdigest() if is_zip else None, sha256.hexdigest()


@contextlib.contextmanager
def reading_errors(label: str) -> Iterator[None]:
    """Turn the errors of the system and the unpackers into one line."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{label}: no such file") from None
    except _CORRUPT as error:
        raise UserError(f"{label}: truncated or corrupt ({error}); fetch it again") from None
    except OSError as error:
        if error.errno is None:  # raised by an unpacker, not by the system
            raise UserError(f"{label}: truncated or corrupt ({error}); fetch it again") from None
        raise UserError(f"{label}: cannot be read ({error.strerror or error})") from None
    except (RuntimeError, NotImplementedError) as error:  # an encrypted or exotic zip
        raise UserError(f"{label}: cannot be unpacked ({error})") from None
