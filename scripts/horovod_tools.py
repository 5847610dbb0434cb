"""What this machine has to build Horovod with: compilers, CUDA, NCCL, cmake, cores."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import horovod_recipe as recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILER_PROBE = "#include <filesystem>\nint main() { return 0; }\n"
ONE_RANK = "training on 1 rank works without Horovod"
BYTES_PER_JOB = 2 << 30
"""One compiler process of this build needs up to 2 GiB."""


class BuildError(Exception):
    """The build cannot go on; the message is one line for the user."""

    code = 1


class ToolMissingError(BuildError):
    """Something the user has to install first."""

    code = 3


def gpu_listed() -> bool:
    """Whether nvidia-smi lists a GPU."""
    try:
        listing = output(["nvidia-smi", "-L"])
    except (OSError, subprocess.SubprocessError):
        return False
    return "GPU " in listing


def compiler() -> list[str]:
    """The C++ compiler command, tried on a C++17 program.

    Raises:
        ToolMissingError: none is found, or none works.
    """
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cc"
        source.write_text(COMPILER_PROBE, encoding="utf-8")
        for name in wanted:
            command = shlex.split(name)
            if not shutil.which(command[0]):
                continue
            probe = [*command, "-std=c++17", str(source), "-o", f"{folder}/probe"]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return command
    raise ToolMissingError(
        f"no working C++17 compiler ({', '.join(wanted)}) to build Horovod with; install one "
        "(Debian, Ubuntu: apt-get install g++ make; RHEL, Fedora: dnf install gcc-c++ make) "
        f"and run set-up again; {ONE_RANK}"
    )


def cuda_home() -> Path:
    """The folder of the CUDA toolkit whose nvcc is used.

    CMake looks for the toolkit beside nvcc; an nvcc on PATH may be a wrapper somewhere else, so
    nvcc itself is asked.

    Raises:
        ToolMissingError: there is no nvcc, or it does not work.
    """
    home = os.environ.get("HOROVOD_CUDA_HOME")
    places = [f"{home}/bin/nvcc"] if home else ["nvcc", "/usr/local/cuda/bin/nvcc"]
    for found in filter(None, map(shutil.which, places)):
        asked = [found, "--dryrun", "-x", "cu", os.devnull]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        here = re.search(r"_HERE_=(.+)/bin$", done.stderr, flags=re.MULTILINE)
        if here:
            return Path(here[1])
    raise ToolMissingError(
        f"no CUDA compiler ({', '.join(places)}) to build Horovod's GPU operations with; install "
        "the CUDA 12 toolkit or set HOROVOD_CUDA_HOME, then run set-up again "
        f"(NCF_BENCH_HOROVOD=skip stops asking); {ONE_RANK}"
    )


def nccl_settings(scratch: Path) -> dict[str, str]:
    """Where CMake finds NCCL: the user's choice, the wheel's copy, or the system's own."""
    if any(name in os.environ for name in ("HOROVOD_NCCL_HOME", "HOROVOD_NCCL_LIB")):
        return {}
    try:
        wheel = importlib.metadata.distribution("nvidia-nccl-cu12").locate_file("nvidia/nccl")
    except importlib.metadata.PackageNotFoundError:
        places = ("/usr/include", "/usr/local/include", "/usr/local/cuda/include")
        if any(Path(place, "nccl.h").is_file() for place in places):
            return {}
        raise ToolMissingError(
            "no NCCL to build Horovod's GPU operations with; pip install nvidia-nccl-cu12, or set "
            f"HOROVOD_NCCL_HOME, then run set-up again; {ONE_RANK}"
        ) from None
    # The wheel has libnccl.so.2 only; the linker looks for libnccl.so. The link stays out of it.
    home = scratch / "nccl"
    (home / "lib").mkdir(parents=True)
    (home / "include").symlink_to(Path(str(wheel)) / "include")
    (home / "lib" / "libnccl.so").symlink_to(Path(str(wheel)) / "lib" / "libnccl.so.2")
    return {"HOROVOD_NCCL_HOME": str(home)}


def suitable_cmake() -> bool:
    """Whether the cmake on PATH can build Horovod."""
    try:
        return recipe.cmake_fits(output(["cmake", "--version"]))
    except (OSError, subprocess.SubprocessError):
        return False


def parallel_jobs() -> int:
    """As many compilers as there are cores, and memory for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores or 1, memory // BYTES_PER_JOB))


def output(command: Sequence[str]) -> str:
    """The standard output of a short command that succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def check_build() -> str:
    """What `horovodrun --check-build` says of this Horovod, or why it says nothing."""
    ask = "import sys; from horovod.runner.launch import run_commandline; "
    ask += "sys.argv = ['horovodrun', '--check-build']; run_commandline()"
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=False, cwd=sys.prefix
    )
    if done.returncode:
        return f"horovodrun --check-build: {(done.stderr.strip().splitlines() or ['failed'])[-1]}"
    return textwrap.dedent(done.stdout).strip()
