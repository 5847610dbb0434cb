"""Facts about the machine's load and about processes, from psutil, /proc and /sys.

A value that the system does not provide is None.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.process import reaper

_RANK_NAMES = (b"HOROVOD_RANK=", b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
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
    return _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def frequency_mhz() -> float | None:
    """Mean clock of the first cores."""
    clocks = []
    for core in range(_MAX_CORES):
        text = _read(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").strip()
        if not text.isdecimal():
            break
        clocks.append(int(text) / 1000)
    if clocks:
        return sum(clocks) / len(clocks)
    from_cpuinfo = psutil.cpu_freq()
    return from_cpuinfo.current if from_cpuinfo else None


def processes_of(token: str) -> dict[int, int]:
    """Rank by process number, of all processes of a job; a process without a rank is rank 0."""
    ranks = {}
    for pid in reaper.marked(token):
        words = (word for word in reaper.environment(pid) if word.startswith(_RANK_NAMES))
        with contextlib.suppress(ValueError):
            ranks[pid] = int(next(words, b"=0").partition(b"=")[2])
    return ranks


def carries(pid: int, token: str) -> bool:
    """Whether a process belongs to the job with this token."""
    return f"{reaper.MARK}={token}".encode() in reaper.environment(pid)


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None if it has ended."""
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
