"""Where a table comes from: a file, a compressed file, or a member of a zip read in place.

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
from typing import IO, TYPE_CHECKING, Final, cast

import pyarrow as pa

from ncf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
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
_PACKED: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PAR1", "parquet"),
)


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
            stack.enter_context(failures(self.label))
            if self.member is not None:
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                yield stack.enter_context(archive.open(self.member))
            elif self.packing == "gzip":
                yield cast("IO[bytes]", stack.enter_context(gzip.open(self.path, "rb")))
            elif self.packing == "bzip2":
                yield cast("IO[bytes]", stack.enter_context(bz2.open(self.path, "rb")))
            elif self.packing == "xz":
                yield cast("IO[bytes]", stack.enter_context(lzma.open(self.path, "rb")))
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


def sources(path: Path) -> list[Source]:
    """The streams a path offers: one for a file, one per member for a zip.

    Raises:
        UserError: missing, a folder, empty, a corrupt zip, or a kind of file that is not read.
    """
    with failures(str(path)):
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
        return _members(path)
    packing = next((name for start, name in _PACKED if magic.startswith(start)), "plain")
    return [Source(path, size, packing=packing)]


def digests(path: Path) -> tuple[str | None, str]:
    """MD5 of a zip (by which archives are known; else None) and SHA-256 of a file, in hex."""
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with failures(str(path)), path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
        file.seek(0)
        while block := file.read(1 << 20):
            if is_zip:
                md5.update(block)
            sha256.update(block)
    return md5.hexdigest() if is_zip else None, sha256.hexdigest()


def _members(path: Path) -> list[Source]:
    with failures(str(path)), zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if info.file_size and not info.is_dir()]
    return [Source(path, info.file_size, info.filename) for info in infos[:_MOST_MEMBERS]]


@contextlib.contextmanager
def failures(label: str) -> Iterator[None]:
    """Turn what the system and the unpackers raise into one line."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{label}: no such file") from None
    except _CORRUPT as error:
        raise UserError(f"{label}: truncated or corrupt ({error}); fetch it again") from None
    except OSError as error:
        if error.errno is None:  # not the system's: an unpacker met what it cannot unpack
            raise UserError(f"{label}: truncated or corrupt ({error}); fetch it again") from None
        raise UserError(f"{label}: cannot be read ({error.strerror or error})") from None
    except (RuntimeError, NotImplementedError) as error:  # an encrypted or exotic zip
        raise UserError(f"{label}: cannot be unpacked ({error})") from None
