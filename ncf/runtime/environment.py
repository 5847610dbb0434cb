"""What the run ran on: versions, hardware, memory. Facts for the record, read once."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import resource
import sys
from pathlib import Path
from typing import Any

import ncf
from ncf.runtime.code_hash import TRAIN, code_hash


def versions(horovod: str, command: str = TRAIN) -> dict[str, str]:
    """Versions of everything that can change a result of a command."""
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    result = {**installed(command), "tensorflow": tf.__version__, "horovod": horovod}
    for key, name in (("cuda_version", "cuda"), ("cudnn_version", "cudnn")):
        if build.get(key):
            result[name] = str(build[key])
    return result


def installed(command: str = TRAIN) -> dict[str, str]:
    """Versions that need no import of TensorFlow; `code` is a hash of the command's source."""
    versions = {
        "ncf": ncf.__version__,
        "code": code_hash(command),
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
    }
    for name in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.setdefault("tensorflow", importlib.metadata.version(name))
    return versions


def hardware(*, on_gpu: bool, threads: int) -> dict[str, Any]:
    """The machine as this rank sees it; sizes in bytes."""
    return {
        "device": "gpu" if on_gpu else "cpu",
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "threads_per_rank": threads,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "gpu": gpu_details() if on_gpu else None,
    }


def cpu_model() -> str:
    """The processor's name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def level_2_cache_bytes() -> int:
    """Second-level cache of a core; 1 MiB where the system does not report it."""
    path = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    with contextlib.suppress(OSError):
        match = re.fullmatch(r"(\d+)K", path.read_text(encoding="utf-8").strip())
        if match:
            return int(match[1]) * 1024
    return 1 << 20


def gpu_details() -> dict[str, Any] | None:
    """Name and compute capability of the pinned GPU; None without one."""
    import tensorflow as tf

    visible = tf.config.get_visible_devices("GPU")
    if not visible:
        return None
    details = tf.config.experimental.get_device_details(visible[0])
    capability = details.get("compute_capability")
    return {
        "name": details.get("device_name"),
        "compute_capability": list(capability) if capability else None,
    }


def tf32_capable(gpu: dict[str, Any] | None) -> bool:
    """TF32 came with compute capability 8.0 (Ampere)."""
    return bool(gpu and gpu["compute_capability"] and tuple(gpu["compute_capability"]) >= (8, 0))


def peak_memory_bytes(*, on_gpu: bool) -> int:
    """Peak of this rank so far: device memory on a GPU, resident memory otherwise."""
    if on_gpu:
        import tensorflow as tf

        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    match = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
