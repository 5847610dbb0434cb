"""What has to change so that the last Horovod builds for today's TensorFlow. Pure: no effects.

The edits are exact-match: an edit whose text is not found exactly once is an error, never a
silently unpatched build. build_horovod.py applies this recipe; the cache key of a wheel covers it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOROVOD = "0.28.1"
SDIST_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"

TENSORFLOW_NAMES = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-cpu-aws")
"""Distributions that provide the `tensorflow` module; NVIDIA's containers use the first name."""

BUILD_NEEDS = ("setuptools<81", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml")
"""Horovod's setup.py predates setuptools 81; the last three are its own setup_requires."""
CMAKE_NEED = "cmake>=3.18,<4"
"""cmake 4 refuses the minimum version that the bundled Gloo declares (2.8)."""
RUN_NEEDS = ("cloudpickle", "packaging", "psutil", "pyyaml")

BUILD_ENVIRONMENT = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
    # The bundled Gloo uses uint8_t without <cstdint>; GCC 13 and later do not bring it along.
    "CXXFLAGS": "-include cstdint",
}
CUDA_ENVIRONMENT = {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_LINK": "SHARED"}
USER_SETTINGS = (
    "HOROVOD_CUDA_HOME",
    "HOROVOD_NCCL_HOME",
    "HOROVOD_NCCL_INCLUDE",
    "HOROVOD_NCCL_LIB",
    "HOROVOD_BUILD_CUDA_CC_LIST",
    "HOROVOD_BUILD_ARCH_FLAGS",
)
"""The only HOROVOD_* variables that a build takes over from the user's environment."""


class RecipeError(Exception):
    """An edit does not fit the source it was written for."""


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which must occur exactly once in the file at `path`, by `new`."""

    path: str
    old: str
    new: str
    why: str

    def apply(self, text: str) -> str:
        """The edited text.

        Raises:
            RecipeError: `old` occurs never, or more than once.
        """
        found = text.count(self.old)
        if found != 1:
            raise RecipeError(
                f"{self.path}: the text to replace ({self.why}) occurs {found} times instead of "
                f"once; this recipe is for Horovod {HOROVOD} only"
            )
        return text.replace(self.old, self.new)


RELOCATABLE = Edit(
    "horovod/tensorflow/CMakeLists.txt",
    'set_target_properties(${TF_TARGET_LIB} PROPERTIES OUTPUT_NAME "mpi_lib")',
    'set_target_properties(${TF_TARGET_LIB} PROPERTIES OUTPUT_NAME "mpi_lib"\n'
    "    BUILD_WITH_INSTALL_RPATH TRUE\n"
    '    INSTALL_RPATH "$ORIGIN/../../tensorflow;$ORIGIN/../../nvidia/nccl/lib")',
    "a cached wheel must find its libraries beside itself, not in the folder it was built in",
)
NO_XLA_OPS = Edit(
    "horovod/tensorflow/CMakeLists.txt",
    'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
    "",
    "the XLA ops no longer compile from TensorFlow 2.16 on",
)
STREAM_ACCESSOR = Edit(
    "horovod/tensorflow/mpi_ops.cc",
    """\
// Forward declaration of AsGpuStreamValue
namespace stream_executor {
namespace gpu {
GpuStreamHandle AsGpuStreamValue(Stream* stream);
} // namespace stream_executor
} // namespace gpu
#if TENSORFLOW_VERSION >= 2011000000
#include "tensorflow/compiler/xla/stream_executor/stream.h"
#else
#include "tensorflow/stream_executor/stream.h"
#endif // TENSORFLOW_VERSION >= 2011000000
""",
    """\
#include "xla/stream_executor/stream.h"
namespace stream_executor {
namespace gpu {
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {
  return reinterpret_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);
}
} // namespace gpu
} // namespace stream_executor
""",
    "TensorFlow removed the stream accessor that this file declares",
)
CUDA_STANDARD = Edit(
    "horovod/common/ops/cuda/CMakeLists.txt",
    "set(CMAKE_CUDA_STANDARD 11)",
    "set(CMAKE_CUDA_STANDARD 17)",
    "the headers of GCC 14 and of CUDA 13 need more than C++11",
)
NO_DISTUTILS = Edit(
    "horovod/runner/js_run.py",
    "from distutils.spawn import find_executable\n",
    "from shutil import which as find_executable\n",
    "Python 3.12 has no distutils",
)


def edits(tensorflow: str, python: tuple[int, int], flavour: str) -> tuple[Edit, ...]:
    """The edits for a TensorFlow release, a Python (3, 12) and a flavour "cpu" or "cuda"."""
    recent = numbers(tensorflow) >= (2, 16)
    cuda = flavour == "cuda"
    chosen = [
        (True, RELOCATABLE),
        (recent, NO_XLA_OPS),
        (recent and cuda, STREAM_ACCESSOR),
        (cuda, CUDA_STANDARD),
        (python >= (3, 12), NO_DISTUTILS),
    ]
    return tuple(edit for needed, edit in chosen if needed)


def environment(user: Mapping[str, str], flavour: str, jobs: int) -> dict[str, str]:
    """The build's environment: the user's, less its HOROVOD_* and make settings, plus ours."""
    dropped = ("HOROVOD_", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    kept = {k: v for k, v in user.items() if k in USER_SETTINGS or not k.startswith(dropped)}
    ours = BUILD_ENVIRONMENT | (CUDA_ENVIRONMENT if flavour == "cuda" else {})
    if "CXXFLAGS" in user:
        ours = ours | {"CXXFLAGS": f"{ours['CXXFLAGS']} {user['CXXFLAGS']}"}
    # A non-empty MAKEFLAGS keeps Horovod from asking for 8 jobs; cmake hands the number on.
    return kept | ours | {"MAKEFLAGS": f"-j{jobs}", "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs)}


def wheel_key(
    tensorflow: str,
    python_tag: str,
    platform: str,
    flavour: str,
    changes: Sequence[Edit],
    settings: Mapping[str, str],
) -> str:
    """The name of the cache folder of one wheel: readable facts, then a hash of the recipe.

    `settings` are further facts that the binary depends on (CUDA compiler, architectures).
    """
    recipe = [SDIST_SHA256, *BUILD_NEEDS]
    recipe += [f"{k}={v}" for k, v in sorted((BUILD_ENVIRONMENT | CUDA_ENVIRONMENT).items())]
    recipe += [f"{edit.path}\0{edit.old}\0{edit.new}" for edit in changes]
    recipe += [f"{k}={v}" for k, v in sorted(settings.items())]
    digest = hashlib.sha256("\0\0".join(recipe).encode()).hexdigest()[:8]
    name = f"horovod-{HOROVOD}-tf{tensorflow}-{python_tag}-{platform}-{flavour}-{digest}"
    return re.sub(r"[^A-Za-z0-9._+-]", "_", name)


def flavour_for(requested: str, distribution: str, *, gpu: bool) -> str:
    """Resolve "auto": cuda when a GPU is listed and TensorFlow is not a CPU-only build."""
    if requested != "auto":
        return requested
    return "cuda" if gpu and not distribution.startswith("tensorflow-cpu") else "cpu"


def cmake_fits(version_output: str) -> bool:
    """Whether `cmake --version` printed a release that builds Horovod: 3.18 or later, below 4."""
    match = re.search(r"version\s+(\d+)\.(\d+)", version_output)
    return match is not None and (3, 18) <= (int(match[1]), int(match[2])) < (4, 0)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.17.0+nv25.2" gives (2, 17, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
