"""What Linux tells of the machine's load, from /proc and /sys; None where it does not."""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from bench.process import reaper

_RANK_NAMES = (b"HOROVOD_RANK=", b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
_MOST_CORES = 16
"""Clocks are read of so many cores at most: each reading disturbs the core it asks."""


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of all cores together since boot."""

    total: float
    idle: float
    steal: float
    cores: int


def cpu_times() -> CpuTimes | None:
    """From /proc/stat (proc(5)): user nice system idle iowait irq softirq steal."""
    lines = _read("/proc/stat").splitlines()
    if not lines or not lines[0].startswith("cpu "):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    times = [int(word) / ticks for word in lines[0].split()[1:9]]
    if len(times) < 8:
        return None
    cores = sum(line.startswith("cpu") and line[3].isdecimal() for line in lines)
    return CpuTimes(sum(times), times[3] + times[4], times[7], cores)


def own_cpu_seconds() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def load() -> float | None:
    """Mean number of runnable processes over the last minute."""
    with contextlib.suppress(OSError):
        return os.getloadavg()[0]
    return None


def memory_available_bytes() -> int | None:
    """Memory that could be had without swapping."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def governor() -> str | None:
    """How the first core chooses its clock: performance, powersave, ..."""
    return _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def frequency_mhz() -> float | None:
    """Mean clock of the first cores."""
    found = []
    for core in range(_MOST_CORES):
        text = _read(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").strip()
        if not text.isdecimal():
            break
        found.append(int(text) / 1000)
    if not found:
        lines = _read("/proc/cpuinfo").splitlines()
        words = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
        with contextlib.suppress(ValueError):
            found = [float(word) for word in words[:_MOST_CORES]]
    return sum(found) / len(found) if found else None


def processes_of(token: str) -> dict[int, int]:
    """Rank by process number, of all processes that carry a job's mark; one rank is rank 0."""
    found = {}
    for pid in reaper.marked(token):
        with contextlib.suppress(OSError, ValueError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ranks = (
                word.partition(b"=")[2] for word in environment if word.startswith(_RANK_NAMES)
            )
            found[pid] = int(next(ranks, b"0"))
    return found


def carries(pid: int, token: str) -> bool:
    """Whether a process belongs to the job with this mark."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{reaper.MARK}={token}".encode() in environment.split(b"\0")


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None once it is gone."""
    words = _read(f"/proc/{pid}/statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if len(words) > 1 else None


def exists(pid: int) -> bool:
    """Whether a process of this number is seen from here; a container sees only its own."""
    return Path(f"/proc/{pid}").exists()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
