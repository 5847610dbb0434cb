"""Huge pages for the C library's memory, which is where TensorFlow's tables lie on a CPU.

Training looks rows up all over tables of a hundred megabytes; with pages of 4 KiB most of these
look-ups miss the processor's table of addresses. glibc 2.35 and later asks the kernel for huge
pages if a tunable is set before the process starts (glibc manual, "Memory Allocation Tunables").
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TUNABLES, TUNABLE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_LEAST_GLIBC = (2, 35)


def environment_with_huge_pages(
    environment: Mapping[str, str], mode: str, library: str
) -> dict[str, str] | None:
    """The environment to start again with; None where that changes nothing.

    Args:
        environment: of this process; a setting that is there, also 0, is left alone.
        mode: the kernel's line, such as "always [madvise] never".
        library: such as "glibc 2.36".
    """
    given = environment.get(TUNABLES, "")
    if TUNABLE in given or "[madvise]" not in mode:
        return None
    name, _, version = library.partition(" ")
    numbers = version.split(".")
    is_glibc = name == "glibc" and all(number.isdigit() for number in numbers)
    if not is_glibc or tuple(map(int, numbers)) < _LEAST_GLIBC:
        return None
    return {**environment, TUNABLES: f"{given}:{TUNABLE}=1".removeprefix(":")}


def start_again() -> None:
    """Replace this process by the same command with huge pages, if it has none yet."""
    try:
        mode = _MODE.read_text(encoding="ascii")
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return
    environment = environment_with_huge_pages(os.environ, mode, library)
    if environment is not None and sys.executable:
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - without a shell
