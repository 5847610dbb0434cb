"""A preflight: findings about machine and installation, each with the command that mends it. Pure.

The facts come in as plain data; `bench.doctor_command` collects them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bench.host.samples import SLOWDOWNS
from bench.render import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.host.machine import Host

Level = Literal["ok", "warn", "fail"]

LEAST_DISK_BYTES = 2 * 2**30
LEAST_SHM_BYTES = 256 * 2**20
LEAST_MEMORY_BYTES = 2 * 2**30
LEAST_DRIVER = {"11": 450, "12": 525, "13": 580}
"""First driver branch of each CUDA major version (CUDA Compatibility, NVIDIA)."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `fix` is a command or an action, if something is wrong."""

    level: Level
    what: str
    fix: str = ""


@dataclass(frozen=True)
class Place:
    """A folder that will be written to."""

    name: str
    path: str
    free_bytes: int | None
    writable: bool


@dataclass(frozen=True)
class Facts:
    """All that a diagnosis is made of.

    Attributes:
        host: the machine.
        trainer: what `ncf probe` printed, or why it could not.
        cards: a snapshot of each GPU (see bench.state), with `default_power_limit_watts`.
        state: snapshot of the processor's side.
        shm_bytes: free space in /dev/shm.
        environment: variables that matter.
        places: folders that will be written.
        data: where the suite's data are, or what it will do to get them.
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


def diagnose(facts: Facts) -> list[Finding]:
    """Every finding, in the order in which one would look."""
    found = [*_trainer(facts), *_driver(facts), *_horovod(facts)]
    for card in facts.cards:
        found += _card(card)
    found += [*_processor(facts), *_memory(facts), *_environment(facts)]
    for place in facts.places:
        found.append(_place(place))
    found += [*_data(facts), *_timeouts(facts)]
    if facts.unreadable:
        found.append(
            Finding("warn", f"{facts.unreadable} stored files cannot be read", "bench check")
        )
    return found


def _trainer(facts: Facts) -> Iterable[Finding]:
    if isinstance(facts.trainer, str):
        yield Finding(
            "fail", f"the trainer does not work: {facts.trainer}", "./run_benchmarks.sh --help"
        )
        return
    versions = facts.trainer["versions"]
    listed = ", ".join(f"{name} {versions[name]}" for name in ("tensorflow", "python", "numpy"))
    yield Finding("ok", f"the trainer starts: {listed}")
    for name, probe in facts.trainer["precision"].items():
        yield _precision(name, probe)


def _precision(name: str, probe: Mapping[str, Any]) -> Finding:
    if "not_available" in probe:
        return Finding("ok", f"{name} is not available here: {probe['not_available']}")
    bits, expected = probe["mantissa_bits"], probe["expected_mantissa_bits"]
    if probe["effective"] == name:
        return Finding("ok", f"{name} computes with {bits} mantissa bits, as it should")
    fix = "unset NVIDIA_TF32_OVERRIDE; pip install a TensorFlow that has this switch"
    if name == "fp32":
        fix = "export NVIDIA_TF32_OVERRIDE=0"
    return Finding("fail", f"{name} computes with {bits} mantissa bits instead of {expected}", fix)


def _driver(facts: Facts) -> Iterable[Finding]:
    host = facts.host
    if not host.gpus:
        reason = host.no_gpus or "none found"
        fix = "nvidia-smi" if "driver" in reason else ""
        yield Finding("ok", f"no GPU is used: {reason}", fix)
        return
    names = ", ".join(sorted({gpu.name for gpu in host.gpus}))
    yield Finding("ok", f"{len(host.gpus)} GPUs ({names}), driver {host.driver}")
    if isinstance(facts.trainer, str):
        return
    if not facts.trainer["gpus"]:
        yield Finding(
            "fail",
            f"the driver lists {len(host.gpus)} GPUs and TensorFlow sees none",
            "NCF_BENCH_FLAVOUR=cuda ./run_benchmarks.sh doctor",
        )
    major = str(facts.trainer["versions"].get("cuda", "")).partition(".")[0]
    least, branch = LEAST_DRIVER.get(major), (host.driver or "").partition(".")[0]
    if least is not None and branch.isdecimal() and int(branch) < least:
        yield Finding(
            "fail",
            f"driver {host.driver} is too old for CUDA {major} ({least} or later)",
            f"install driver {least} or later, or a TensorFlow built for an older CUDA",
        )


def _horovod(facts: Facts) -> Iterable[Finding]:
    if isinstance(facts.trainer, str):
        return
    build = facts.trainer["horovod"]
    if build["problem"]:
        yield Finding(
            "warn",
            f"more than 1 rank is not possible: Horovod: {build['problem']}",
            "python scripts/build_horovod.py",
        )
        return
    has = [name for name in ("gloo", "nccl", "mpi") if build[name]]
    yield Finding("ok", f"Horovod {build['version']} with {', '.join(has) or 'nothing'}")
    if not build["gloo"]:
        yield Finding("fail", "Horovod has no Gloo", "python scripts/build_horovod.py")
    if len(facts.host.gpus) > 1 and not build["nccl"]:
        yield Finding(
            "fail",
            f"{len(facts.host.gpus)} GPUs and a Horovod without NCCL",
            "NCF_BENCH_FLAVOUR=cuda python scripts/build_horovod.py",
        )


def _card(card: Mapping[str, Any]) -> Iterable[Finding]:
    name = f"GPU {card.get('uuid')}"
    if "all" in (card.get("null_reasons") or {}):
        yield Finding("warn", f"{name} cannot be watched: {card['null_reasons']['all']}")
        return
    if card.get("persistence_mode") == 0:
        fix = f"sudo nvidia-smi -i {card.get('uuid')} -pm 1"
        yield Finding("warn", f"{name}: persistence mode is off (slow starts, lost clocks)", fix)
    limit, default = card.get("power_limit_watts"), card.get("default_power_limit_watts")
    if limit is not None and default is not None and limit < default:
        fix = f"sudo nvidia-smi -i {card.get('uuid')} -pl {default:.0f}"
        yield Finding("warn", f"{name}: power limit {limit:.0f} W of {default:.0f} W", fix)
    clock, most = card.get("application_sm_clock_mhz"), card.get("max_sm_clock_mhz")
    if clock is not None and most is not None and clock < most:
        fix = f"sudo nvidia-smi -i {card.get('uuid')} -rac (if {clock} MHz is not its default)"
        yield Finding("ok", f"{name}: application clock {clock} MHz of {most} MHz", fix)
    slow = [reason for reason in card.get("event_reasons") or [] if reason in SLOWDOWNS]
    if slow and "gpu_idle" not in card["event_reasons"]:
        yield Finding(
            "fail", f"{name} is slowed down: {', '.join(slow)}", "check cooling and power"
        )
    if card.get("foreign_processes"):
        yield Finding(
            "warn",
            f"{name}: {card['foreign_processes']} processes of others",
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,name --format=csv",
        )


def _processor(facts: Facts) -> Iterable[Finding]:
    host, governor = facts.host, facts.state.get("governor")
    yield Finding("ok", f"{host.cpu_model}, {host.cores} cores")
    if governor not in (None, "performance"):
        yield Finding(
            "warn",
            f"the processor's clock governor is {governor}",
            "sudo cpupower frequency-set -g performance",
        )
    load = facts.state.get("load_1min")
    if load is not None and load > max(0.5, 0.2 * host.cores):
        yield Finding("warn", f"the machine is busy: load {load:.1f} on {host.cores} cores", "top")


def _memory(facts: Facts) -> Iterable[Finding]:
    available = facts.state.get("memory_available_bytes")
    if available is not None and available < LEAST_MEMORY_BYTES:
        yield Finding("warn", f"only {units.size(available)} of memory are available", "free -h")
    if len(facts.host.gpus) > 1 and (facts.shm_bytes or LEAST_SHM_BYTES) < LEAST_SHM_BYTES:
        size = units.size(facts.shm_bytes or 0)
        fix = "docker run --shm-size=1g (or --ipc=host) ..."
        what = f"shared memory: {size} free; NCCL needs more between GPUs"
        yield Finding("warn", what, fix)


def _environment(facts: Facts) -> Iterable[Finding]:
    for name in ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_STALL_CHECK_DISABLE"):
        value = facts.environment.get(name)
        if value is not None and (value == "0") == (name != "HOROVOD_STALL_CHECK_DISABLE"):
            what = f"{name}={value}: a dead rank would hang the others"
            yield Finding("warn", what, f"unset {name}")
    if facts.environment.get("CUDA_DEVICE_ORDER") == "FASTEST_FIRST" and (
        len({gpu.name for gpu in facts.host.gpus}) > 1
    ):
        what = "CUDA_DEVICE_ORDER=FASTEST_FIRST on unlike GPUs: no telemetry"
        yield Finding("warn", what, "unset CUDA_DEVICE_ORDER")


def _place(place: Place) -> Finding:
    if not place.writable:
        fix = f"chmod u+w {place.path}, or choose another with --{place.name}"
        return Finding("fail", f"{place.path} cannot be written", fix)
    if place.free_bytes is not None and place.free_bytes < LEAST_DISK_BYTES:
        size = units.size(place.free_bytes)
        return Finding("warn", f"{place.path}: only {size} are free", f"df -h {place.path}")
    free = "" if place.free_bytes is None else f", {units.size(place.free_bytes)} free"
    return Finding("ok", f"{place.path} can be written{free}")


def _data(facts: Facts) -> Iterable[Finding]:
    data = facts.data
    if data is None:
        return
    if data.get("problem"):
        fix = data.get("fix") or f"rm -r {data['folder']} (the sweep makes it again)"
        yield Finding("fail", f"data {data['folder']}: {data['problem']}", fix)
    elif data.get("folder"):
        yield Finding("ok", f"data {data['folder']}: every hash fits ({data['hash']})")
    else:
        yield Finding("ok", str(data["to_come"]))


def _timeouts(facts: Facts) -> Iterable[Finding]:
    for label, longest, timeout in facts.timeouts:
        if longest > timeout / 2:
            what = f"{label}: a run took {longest:.0f} s, and its time-out is {timeout:.0f} s"
            yield Finding("warn", what, f"raise [limits] timeout_s to {3 * longest:.0f}")
