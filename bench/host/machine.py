"""The machine: processor, memory, GPUs, its load, and which cells it can run.

Facts come from psutil where it has them; a value that the system does not provide is None.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import platform
import secrets
import shutil
import sys
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.files import write_new
from bench.host.gpus import Gpu, read_gpus, visible

if TYPE_CHECKING:
    from bench.suite.model import Cell, HostList, Suite

TF32_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class Host:
    """The hardware of a run. `gpus` are those that a trainer may use; `no_gpus` says why none."""

    cpu_model: str
    cores: int
    memory_bytes: int | None
    gpus: tuple[Gpu, ...] = ()
    no_gpus: str | None = None
    driver: str | None = None
    machine_id: str | None = None
    horovodrun: str | None = None
    no_horovod: str | None = None
    mpirun: str | None = None
    slots: str | None = None
    """Ranks on each of several hosts, `8+8`; None for this host alone."""

    def to_dict(self) -> dict[str, Any]:
        """The facts for a record; no path of this machine."""
        hidden = {"horovodrun", "no_horovod", "mpirun"} | (
            {"slots"} if self.slots is None else set()
        )
        return {name: value for name, value in asdict(self).items() if name not in hidden}


def read_host(machine_id: str | None = None) -> Host:
    """Read the facts of this machine. Imports neither TensorFlow nor Horovod."""
    gpus, driver, no_gpus = read_gpus()
    if gpus:
        gpus, no_gpus = visible(
            gpus, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER")
        )
    horovodrun, no_horovod = find_horovodrun()
    return Host(
        cpu_model=_cpu_model(),
        cores=_cores(),
        memory_bytes=_memory_bytes(),
        gpus=gpus,
        no_gpus=no_gpus,
        driver=driver,
        machine_id=machine_id,
        horovodrun=horovodrun,
        no_horovod=no_horovod,
        mpirun=shutil.which("mpirun"),
    )


def machine_id(results: Path, *, create: bool) -> str | None:
    """A random name for the machine that fills this results folder; git ignores its file.

    Hardware alone cannot distinguish our records from those of a similar machine that came with a
    clone. A container or a node that shares the folder shares the name.

    Raises:
        OSError: `create`, and the file cannot be written.
    """
    path = results / ".machine-id"
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.read_text(encoding="utf-8").strip() or None
    if not create:
        return None
    with contextlib.suppress(FileExistsError):  # another suite's sweep was faster
        write_new(path, secrets.token_hex(8) + "\n")
    return path.read_text(encoding="utf-8").strip() or None


def why_not(host: Host, ranks: int, precision: str, hosts: HostList | None = None) -> str | None:
    """Why this machine, or the given hosts, cannot run a cell; None if they can. Pure.

    Each rank needs one GPU; without any GPU the ranks share the processor and need one core each.
    The hardware of other hosts is not known here: `hosts` gives their slots.
    """
    if precision == "tf32":
        if not host.gpus:
            return f"TF32 needs a GPU: {host.no_gpus}"
        for gpu in host.gpus[:ranks]:
            capability = gpu.compute_capability
            if capability is not None and capability < TF32_CAPABILITY:
                have = ".".join(map(str, capability))
                return f"TF32 needs compute capability 8.0 or more; {gpu.name} has {have}"
    if ranks > 1 and hosts:
        if ranks > hosts.total:
            return f"{ranks} ranks, {hosts.total} slots on the hosts {hosts}"
        if host.horovodrun is None:
            return f"{ranks} ranks need Horovod: {host.no_horovod}"
        return None
    if host.gpus and ranks > len(host.gpus):
        return f"{ranks} ranks, {len(host.gpus)} GPU{'s' if len(host.gpus) > 1 else ''}"
    if not host.gpus and ranks > host.cores:
        return f"needs {ranks} GPUs, or {ranks} cores; no GPU ({host.no_gpus}), {host.cores} cores"
    if ranks > 1 and host.horovodrun is None:
        return f"{ranks} ranks need Horovod: {host.no_horovod}"
    return None


def find_horovodrun() -> tuple[str | None, str | None]:
    """Path of horovodrun for this Python, or why there is none. Horovod is not imported."""
    if importlib.util.find_spec("horovod") is None:
        return None, "not installed for this Python (./run_benchmarks.sh builds it)"
    # sys.executable is not resolved: in a virtual environment it is a link out of it
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    found = shutil.which("horovodrun", path=os.pathsep.join(folders)) or shutil.which("horovodrun")
    return (found, None) if found else (None, "installed, but its horovodrun is not found")


def _cpu_model() -> str:
    for line in _text("/proc/cpuinfo").splitlines():  # psutil does not provide the model
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    """Cores this process may use: its affinity, and the quota of its container."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota, _, period = _text("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def _memory_bytes() -> int:
    """Memory of the machine, or the limit of the container if that is less."""
    limit, total = _text("/sys/fs/cgroup/memory.max"), int(psutil.virtual_memory().total)
    return min(int(limit), total) if limit.isdecimal() else total


_MAX_CORES = 16
"""Number of cores whose clock is read: each reading disturbs the core."""


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of all cores together since boot."""

    total: float
    idle: float
    steal: float
    cores: int


def cpu_times() -> CpuTimes | None:
    """Processor time since boot. Guests' time is part of user time and not counted again."""
    times = psutil.cpu_times()
    if not hasattr(times, "steal"):  # not Linux
        return None
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    total = sum(getattr(times, name) for name in names)
    return CpuTimes(total, times.idle + times.iowait, times.steal, psutil.cpu_count() or 1)


def own_cpu_seconds() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def load() -> float | None:
    """Mean number of runnable processes over the last minute."""
    with contextlib.suppress(OSError):
        return os.getloadavg()[0]
    return None


def governor() -> str | None:
    """Clock governor of the first core: performance, powersave, ..."""
    return _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None


def frequency_mhz() -> float | None:
    """Mean clock of the first cores."""
    clocks = []
    for core in range(_MAX_CORES):
        text = _text(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq")
        if not text.isdecimal():
            break
        clocks.append(int(text) / 1000)
    if clocks:
        return sum(clocks) / len(clocks)
    from_cpuinfo = psutil.cpu_freq()
    return from_cpuinfo.current if from_cpuinfo else None


def _text(path: str) -> str:
    """A file of the kernel; empty if it does not exist."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def unavailable(suite: Suite, host: Host, cell: Cell) -> str | None:
    """Why this machine cannot run a cell of this suite, or None if it can."""
    if suite.device == "gpu" and not host.gpus:
        return f"the suite needs a GPU: {host.no_gpus}"
    if suite.device == "cpu" and host.gpus:
        return "the suite is for the processor; hide the GPUs (CUDA_VISIBLE_DEVICES=) to run it"
    if suite.launcher == "horovodrun" and host.horovodrun is None:
        return f"the suite starts every run with horovodrun: {host.no_horovod}"
    if suite.launcher == "mpirun" and host.mpirun is None:
        return "the suite starts every run with mpirun, which is not on the PATH"
    return why_not(host, cell.ranks, cell.precision, suite.hosts)
