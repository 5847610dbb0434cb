"""Preflight check: findings about machine and installation, each with its fix. Pure.

The facts come in as plain data; `bench.cli.doctor` collects them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from bench.host.samples import SLOWDOWNS
from bench.render import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.host.machine import Host

Level = Literal["ok", "warn", "fail"]

MIN_DISK_BYTES = 2 * 2**30
MIN_SHM_BYTES = 256 * 2**20
MIN_MEMORY_BYTES = 2 * 2**30
MIN_DRIVER = {"11": 450, "12": 525, "13": 580}
"""First driver branch of each CUDA major version (CUDA Compatibility, NVIDIA)."""


@dataclass(frozen=True)
class Finding:
    """Result of one check; `fix` is the command or action for a problem."""

    level: Level
    what: str
    fix: str = ""


@dataclass(frozen=True)
class Place:
    """A folder that a sweep writes to."""

    name: str
    path: str
    free_bytes: int | None
    writable: bool


@dataclass(frozen=True)
class Facts:
    """Input of a diagnosis.

    Attributes:
        host: the machine.
        trainer: what `ncf probe` printed, or why it could not.
        cards: a snapshot of each GPU (host.telemetry), with `default_power_limit_watts`.
        state: the snapshot of the machine.
        shm_bytes: free space in /dev/shm.
        environment: environment variables.
        places: folders that a sweep writes to.
        data: folder of the suite's data, or how the sweep will get them.
        timeouts: label, longest stored run in seconds and time-out of each cell.
        unreadable: number of stored files that cannot be read.
    """

    host: Host
    trainer: Mapping[str, Any] | str
    cards: Sequence[Mapping[str, Any]] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    shm_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    places: Sequence[Place] = ()
    data: Mapping[str, Any] | None = None
    timeouts: Sequence[tuple[str, float, float]] = ()
    unreadable: int = 0


_ok, _warn, _fail = partial(Finding, "ok"), partial(Finding, "warn"), partial(Finding, "fail")


def diagnose(facts: Facts) -> list[Finding]:
    """Every finding: software, GPUs, machine, environment, folders, data, time-outs."""
    findings = [*_trainer(facts), *_gpus(facts), *_horovod(facts)]
    for card in facts.cards:
        findings += _card(card)
    findings += [*_machine(facts), *_environment(facts)]
    findings += [_place(place) for place in facts.places]
    findings += [*_data(facts.data), *_timeouts(facts)]
    if facts.unreadable:
        findings.append(_warn(f"{facts.unreadable} stored files cannot be read", "ncf-bench check"))
    return findings


def _trainer(facts: Facts) -> Iterable[Finding]:
    if isinstance(facts.trainer, str):
        yield _fail(f"the trainer does not work: {facts.trainer}", "./run_benchmarks.sh --help")
        return
    versions = facts.trainer["versions"]
    listed = ", ".join(f"{name} {versions[name]}" for name in ("tensorflow", "python", "numpy"))
    yield _ok(f"the trainer starts: {listed}")
    for name, probe in facts.trainer["precision"].items():
        yield _precision(name, probe)


def _precision(name: str, probe: Mapping[str, Any]) -> Finding:
    if "not_available" in probe:
        return _ok(f"{name} is not available here: {probe['not_available']}")
    bits, expected = probe["mantissa_bits"], probe["expected_mantissa_bits"]
    if probe["effective"] == name:
        return _ok(f"{name} computes with {bits} mantissa bits, as it should")
    fix = "unset NVIDIA_TF32_OVERRIDE; pip install a TensorFlow that has this switch"
    if name == "fp32":
        fix = "export NVIDIA_TF32_OVERRIDE=0"
    return _fail(f"{name} computes with {bits} mantissa bits instead of {expected}", fix)


def _gpus(facts: Facts) -> Iterable[Finding]:
    host, count = facts.host, len(facts.host.gpus)
    if not count:
        reason = host.no_gpus or "none found"
        yield _ok(f"no GPU is used: {reason}", "nvidia-smi" if "driver" in reason else "")
        return
    names = ", ".join(sorted({gpu.name for gpu in host.gpus}))
    yield _ok(f"{count} GPUs ({names}), driver {host.driver}")
    if isinstance(facts.trainer, str):
        return
    if not facts.trainer["gpus"]:
        what = f"the driver lists {count} GPUs and TensorFlow sees none"
        yield _fail(what, "NCF_BENCH_FLAVOUR=cuda ./run_benchmarks.sh doctor")
    cuda = str(facts.trainer["versions"].get("cuda", "")).partition(".")[0]
    minimum, branch = MIN_DRIVER.get(cuda), (host.driver or "").partition(".")[0]
    if minimum is not None and branch.isdecimal() and int(branch) < minimum:
        yield _fail(
            f"driver {host.driver} is too old for CUDA {cuda} ({minimum} or later)",
            f"install driver {minimum} or later, or a TensorFlow built for an older CUDA",
        )


def _horovod(facts: Facts) -> Iterable[Finding]:
    if isinstance(facts.trainer, str):
        return
    build, install = facts.trainer["horovod"], "python scripts/build_horovod.py"
    if build["problem"]:
        yield _warn(f"more than 1 rank is not possible: Horovod: {build['problem']}", install)
        return
    parts = [name for name in ("gloo", "nccl", "mpi") if build[name]]
    yield _ok(f"Horovod {build['version']} with {', '.join(parts) or 'nothing'}")
    if not build["gloo"]:
        yield _fail("Horovod has no Gloo", install)
    count = len(facts.host.gpus)
    if count > 1 and not build["nccl"]:
        yield _fail(f"{count} GPUs and a Horovod without NCCL", f"NCF_BENCH_FLAVOUR=cuda {install}")


def _card(card: Mapping[str, Any]) -> Iterable[Finding]:
    uuid = card.get("uuid")
    name, change = f"GPU {uuid}", f"sudo nvidia-smi -i {uuid}"
    if "all" in (card.get("null_reasons") or {}):
        yield _warn(f"{name} cannot be monitored: {card['null_reasons']['all']}")
        return
    if card.get("persistence_mode") == 0:
        what = f"{name}: persistence mode is off (slow starts, lost clock settings)"
        yield _warn(what, f"{change} -pm 1")
    limit, default = card.get("power_limit_watts"), card.get("default_power_limit_watts")
    if limit is not None and default is not None and limit < default:
        what = f"{name}: power limit {limit:.0f} W of {default:.0f} W"
        yield _warn(what, f"{change} -pl {default:.0f}")
    clock, maximum = card.get("application_sm_clock_mhz"), card.get("max_sm_clock_mhz")
    if clock is not None and maximum is not None and clock < maximum:
        fix = f"{change} -rac (if {clock} MHz is not its default)"
        yield _ok(f"{name}: application clock {clock} MHz of {maximum} MHz", fix)
    reasons = card.get("event_reasons") or []
    slow = [reason for reason in reasons if reason in SLOWDOWNS]
    if slow and "gpu_idle" not in reasons:
        yield _fail(f"{name} is slowed down: {', '.join(slow)}", "check cooling and power")
    if card.get("foreign_processes"):
        fix = "nvidia-smi --query-compute-apps=gpu_uuid,pid,name --format=csv"
        yield _warn(f"{name}: {card['foreign_processes']} processes of others", fix)


def _machine(facts: Facts) -> Iterable[Finding]:
    host, state = facts.host, facts.state
    yield _ok(f"{host.cpu_model}, {host.cores} cores")
    if (governor := state.get("governor")) not in (None, "performance"):
        fix = "sudo cpupower frequency-set -g performance"
        yield _warn(f"the processor's clock governor is {governor}", fix)
    load = state.get("load_1min")
    if load is not None and load > max(0.5, 0.2 * host.cores):
        yield _warn(f"the machine is busy: load {load:.1f} on {host.cores} cores", "top")
    memory = state.get("memory_available_bytes")
    if memory is not None and memory < MIN_MEMORY_BYTES:
        yield _warn(f"only {units.size(memory)} of memory are available", "free -h")
    shared = facts.shm_bytes
    if len(host.gpus) > 1 and shared is not None and shared < MIN_SHM_BYTES:
        what = f"shared memory: {units.size(shared)} free; NCCL needs more between GPUs"
        yield _warn(what, "docker run --shm-size=1g (or --ipc=host) ...")


def _environment(facts: Facts) -> Iterable[Finding]:
    for name in ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_STALL_CHECK_DISABLE"):
        value = facts.environment.get(name)
        if value is not None and (value == "0") == (name != "HOROVOD_STALL_CHECK_DISABLE"):
            yield _warn(f"{name}={value}: a dead rank would hang the others", f"unset {name}")
    order, names = facts.environment.get("CUDA_DEVICE_ORDER"), {g.name for g in facts.host.gpus}
    if order == "FASTEST_FIRST" and len(names) > 1:
        what = "CUDA_DEVICE_ORDER=FASTEST_FIRST on different GPUs: no telemetry"
        yield _warn(what, "unset CUDA_DEVICE_ORDER")


def _place(place: Place) -> Finding:
    if not place.writable:
        fix = f"chmod u+w {place.path}, or choose another with --{place.name}"
        return _fail(f"{place.path} cannot be written", fix)
    free = None if place.free_bytes is None else units.size(place.free_bytes)
    if place.free_bytes is not None and place.free_bytes < MIN_DISK_BYTES:
        return _warn(f"{place.path}: only {free} are free", f"df -h {place.path}")
    return _ok(f"{place.path} can be written{f', {free} free' if free else ''}")


def _data(data: Mapping[str, Any] | None) -> Iterable[Finding]:
    if data is None:
        return
    if data.get("problem"):
        fix = data.get("fix") or f"rm -r {data['folder']} (the sweep makes it again)"
        yield _fail(f"data {data['folder']}: {data['problem']}", fix)
    elif data.get("folder"):
        yield _ok(f"data {data['folder']}: every hash matches ({data['hash']})")
    else:
        yield _ok(str(data["to_come"]))


def _timeouts(facts: Facts) -> Iterable[Finding]:
    for label, longest, timeout in facts.timeouts:
        if longest > timeout / 2:
            what = f"{label}: a run took {longest:.0f} s, and its time-out is {timeout:.0f} s"
            yield _warn(what, f"raise [limits] timeout_s to {3 * longest:.0f}")
