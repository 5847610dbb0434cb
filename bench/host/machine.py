"""The machine: processor, memory, GPUs, and what it can run. Read afresh at every call."""

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
from bench.host.gpus import Answer, Gpu, read_gpus, visible
from bench.host.samples import EVENT_REASONS
from bench.process import proc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.host.telemetry import Card, Monitor
    from bench.suite.hosts import HostList
    from bench.suite.model import Cell, Suite

TF32_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class Host:
    """What a run depends on. `gpus` are those a trainer may use; `no_gpus` says why none."""

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
    """Ranks on each of several hosts, `8+8`; None: on this one alone."""

    def to_dict(self) -> dict[str, Any]:
        """The facts that a record embeds; no path of this machine."""
        data = asdict(self)
        del data["horovodrun"], data["no_horovod"], data["mpirun"]
        if self.slots is None:
            del data["slots"]
        return data


def read_host(machine_id: str | None = None) -> Host:
    """Look at this machine. Imports neither TensorFlow nor Horovod."""
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
    """A random name for the machine that fills this results folder; git does not carry it along.

    Hardware alone cannot tell our records from those of a like machine that came with a clone. A
    container or a node that shares the folder shares the name.

    Raises:
        OSError: it is to be created and cannot be.
    """
    path = results / ".machine-id"
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.read_text(encoding="utf-8").strip() or None
    if not create:
        return None
    with contextlib.suppress(FileExistsError):  # another suite's sweep was quicker
        write_new(path, secrets.token_hex(8) + "\n")
    return path.read_text(encoding="utf-8").strip() or None


def why_not(host: Host, ranks: int, precision: str, hosts: HostList | None = None) -> str | None:
    """Why this machine, or the given hosts, cannot run a cell; None if they can. Pure.

    Each rank has a GPU of its own. Without any GPU the ranks share the processor, one core each
    at least. What other hosts have is not known here: their slots are taken at their word.
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
    for line in _lines("/proc/cpuinfo"):
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
    quota, _, period = " ".join(_lines("/sys/fs/cgroup/cpu.max")).partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def _memory_bytes() -> int | None:
    """Memory of the machine, or the limit of the container when that is less."""
    total = [line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal:")]
    known = [int(kib) * 1024 for kib in total]
    limit = "".join(_lines("/sys/fs/cgroup/memory.max")).strip()
    if limit.isdecimal():
        known.append(int(limit))
    return min(known, default=None)


def _lines(path: str) -> list[str]:
    """Lines of a file of the kernel; none where it does not exist."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


_SETTINGS = (
    ("power_limit_watts", "nvmlDeviceGetPowerManagementLimit", ()),
    ("max_sm_clock_mhz", "nvmlDeviceGetMaxClockInfo", (1,)),
    ("application_sm_clock_mhz", "nvmlDeviceGetApplicationsClock", (1,)),
    ("application_memory_clock_mhz", "nvmlDeviceGetApplicationsClock", (2,)),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", ()),
)


def snapshot(monitor: Monitor, gpus: Sequence[Gpu], ranks: int) -> dict[str, Any]:
    """What can be seen now of the machine and of the cards that a run uses."""
    return {
        "load_1min": proc.load(),
        "memory_available_bytes": psutil.virtual_memory().available,
        "governor": proc.governor(),
        "gpus": [_card(monitor, card) for card in monitor.cards(gpus, ranks)],
    }


def _card(monitor: Monitor, card: Card) -> dict[str, Any]:
    driver, handle = monitor.driver(), card.handle
    if isinstance(driver, str) or handle.value is None:
        return {"uuid": card.gpu.uuid, "null_reasons": {"all": handle.reason}}
    answers = {
        name: driver.ask(question, handle.value, *more) for name, question, more in _SETTINGS
    }
    power = answers["power_limit_watts"]
    if power.value is not None:
        answers["power_limit_watts"] = Answer(power.value / 1000)
    answers["temperature_celsius"] = driver.ask("nvmlDeviceGetTemperature", handle.value, 0)
    sample = monitor.sample(card, "", set())
    foreign, bits = sample.foreign, sample.reasons.value
    return {
        "uuid": card.gpu.uuid,
        **{name: answer.value for name, answer in answers.items()},
        "event_reasons": None
        if bits is None
        else [name for bit, name in EVENT_REASONS.items() if bits & bit],
        "foreign_processes": None if foreign is None else len(foreign),
        "null_reasons": {name: a.reason for name, a in answers.items() if a.value is None},
    }


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
