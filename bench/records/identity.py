"""What identifies a run, as values: which runs are pooled, compared and stale. Pure.

Nothing here decides by text. The words for people (`gpus_text`, `fact_text`) are made from the
values and may change freely.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.render import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.records.attempt import Attempt
    from bench.suite.model import Cell
    from ncf.record import Dataset

NOT_USED = "not used"
"""What a record says of Horovod when its single rank did not load it: agrees with any version."""


@dataclass(frozen=True)
class Machine:
    """The properties of a host that must agree: processor, memory, GPUs, driver and name."""

    cpu_model: str
    cores: int | None
    memory_gib: int | None
    gpus: tuple[tuple[str, int | None], ...]
    driver: str | None
    name: str | None = None
    """Random, chosen by the orchestrator, so that two machines of one kind differ."""
    slots: str | None = None
    """Ranks on each of several hosts, `8+8`."""

    @property
    def gpu_kinds(self) -> list[list[Any]]:
        """Number, name and memory in GiB (to a tenth; None if unknown) of each kind of GPU."""
        kinds = Counter(self.gpus)
        return [
            [count, name, None if memory is None else round(memory / 2**30, 1)]
            for (name, memory), count in kinds.items()
        ]

    @classmethod
    def of(cls, host: Mapping[str, Any]) -> Machine:
        """The machine that an attempt's `host` describes."""
        memory = host.get("memory_bytes")
        gpus = tuple(
            (str(gpu.get("name")), gpu.get("memory_bytes")) for gpu in host.get("gpus") or ()
        )
        return cls(
            cpu_model=str(host.get("cpu_model") or "unknown processor"),
            cores=host.get("cores"),
            # A kernel update moves the total by some MiB; that is the same machine.
            memory_gib=round(memory / 2**30) if memory else None,
            gpus=gpus,
            driver=host.get("driver") if gpus else None,
            name=host.get("machine_id"),
            slots=host.get("slots"),
        )


@dataclass(frozen=True)
class Condition:
    """What two runs must have in common before a number is made of both."""

    machine: Machine
    dataset: Dataset
    topk: int
    versions: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, attempt: Attempt) -> Condition:
        """The condition under which a good attempt ran."""
        run = attempt.run
        assert run is not None
        versions = {k: v for k, v in run.versions.items() if v != NOT_USED}
        machine = Machine.of(attempt.host)
        return cls(machine, run.dataset, run.topk, tuple(sorted(versions.items())))


TRAINER, CODE, HOROVOD = "ncf", "code", "horovod"
"""Names among the versions of a record: the trainer's own, and a hash of its source."""
PARTS = ("hardware", "software", CODE, "data", "protocol", "cell")
"""What identifies a run consists of. Runs are pooled if all parts agree, and compared by a gate if
all but the code do; a run is stale where software or code differ from what is installed."""

Facts = Mapping[str, Mapping[str, Any]]
"""By part and name, what must agree; values are what JSON has, None where a record does not say."""


def facts(attempt: Attempt) -> dict[str, dict[str, Any]]:
    """Everything that identifies a good attempt."""
    run, condition = attempt.run, Condition.of(attempt)
    assert run is not None
    machine, data, versions = condition.machine, condition.dataset, dict(condition.versions)
    code = {name: (versions.pop(name, "") or None) for name in (CODE, TRAINER)}
    gpus: Sequence[Mapping[str, Any]] = attempt.host.get("gpus") or ()
    options = {**attempt.cell.trainer_options, "batch_size": run.global_batch}
    options.pop("precision", None)  # what was effective counts
    return {
        "hardware": {
            "processor": machine.cpu_model,
            "cores": machine.cores,
            "memory_gib": machine.memory_gib,
            "gpus": machine.gpu_kinds,
            "gpu_count": len(gpus),
            "mig_slices": sum(bool(gpu.get("card")) for gpu in gpus),
            "driver": machine.driver,
            "machine_id": machine.name,
            **({"ranks_on_hosts": machine.slots} if machine.slots else {}),
        },
        "software": versions,
        CODE: {name: value and value[:12] for name, value in code.items()},
        "data": {"name": data.name, "hash": data.hash},
        "protocol": {
            "protocol": data.protocol,
            "candidates_per_user": data.candidates_per_user,
            "candidates_hash": data.candidates_hash,
            "k": condition.topk,
        },
        "cell": {
            "ranks": run.world_size,
            "precision": run.precision.effective,
            **{name: listed(value) for name, value in sorted(options.items())},
        },
    }


@dataclass(frozen=True)
class Difference:
    """A fact on which a baseline and new runs disagree; ABSENT where one side does not have it."""

    part: str
    name: str
    baseline: Any
    here: Any

    @property
    def key(self) -> str:
        """`hardware.gpus`."""
        return f"{self.part}.{self.name}"

    def __str__(self) -> str:
        old, new = (fact_text(self.name, value) for value in (self.baseline, self.here))
        return f"{self.key}: {old} in the baseline, {new} here"


ABSENT = object()


def differences(
    baseline: Facts, here: Facts, across: Sequence[str] = (), left_out: Sequence[str] = ()
) -> tuple[Difference, ...]:
    """What keeps two cells from being compared.

    Other code is what a gate is there to compare: it never keeps cells apart.

    Args:
        baseline: facts of the older runs.
        here: facts of the tested runs.
        across: parts that may differ.
        left_out: keys of single facts that may differ.
    """
    result = []
    for part in PARTS:
        if part == CODE or part in across:
            continue
        old, new = baseline.get(part, {}), here.get(part, {})
        for name in dict.fromkeys((*old, *new)):
            if name == HOROVOD and not (name in old and name in new):
                continue  # one rank may not have loaded it
            item = Difference(part, name, old.get(name, ABSENT), new.get(name, ABSENT))
            if item.baseline != item.here and item.key not in left_out:
                result.append(item)
    return tuple(result)


@dataclass(frozen=True)
class Fingerprint:
    """Eight hex digits a part; "unknown" where the record does not say."""

    hardware: str
    software: str
    code: str
    data: str
    protocol: str
    cell: str

    @classmethod
    def of(cls, attempt: Attempt, ignored: Sequence[str] = ()) -> Fingerprint:
        """The fingerprint of an attempt that has the trainer's record.

        Args:
            attempt: ok or not.
            ignored: software that does not count.
        """
        run = attempt.run
        assert run is not None
        left_out = (CODE, *ignored)
        software = {name: value for name, value in run.versions.items() if name not in left_out}
        protocol = [
            run.dataset.protocol,
            run.dataset.candidates_per_user,
            run.dataset.candidates_hash,
            run.topk,
        ]
        return cls(
            hardware=_short(asdict(Machine.of(attempt.host))),
            software=_short(software),
            code=run.versions.get(CODE, "unknown")[:8],
            data=run.dataset.hash[:8],
            protocol=_short(protocol),
            cell=attempt.cell.key.rpartition("-")[2],
        )

    def differs(self, other: Fingerprint) -> tuple[str, ...]:
        """Names of the parts that differ."""
        return tuple(part for part in PARTS if getattr(self, part) != getattr(other, part))


def _short(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def is_stale(versions: Mapping[str, str], installed: Mapping[str, str]) -> bool:
    """Whether a run was made by other software or code than is installed now.

    Only names that both have are compared; a build suffix (2.17.0+nv24) does not count.
    """
    return any(
        _plain(versions[name]) != _plain(value)
        for name, value in installed.items()
        if name in versions
    )


def _plain(version: str) -> str:
    return version.partition("+")[0]


def summary(attempts: Iterable[Attempt]) -> list[str]:
    """A line per fingerprint of the good attempts (their cells left out), the most frequent first.

    One rank does not load Horovod, which makes no other software unless several versions of it
    were used.
    """
    good = [(attempt, attempt.run) for attempt in attempts if attempt.ok and attempt.run]
    horovod_versions = {run.versions.get(HOROVOD) for _, run in good} - {None, NOT_USED}
    ignored = () if len(horovod_versions) > 1 else (HOROVOD,)
    finished: dict[str, list[str]] = {}
    for attempt, _ in good:
        parts = asdict(Fingerprint.of(attempt, ignored))
        key = " ".join(f"{part} {value}" for part, value in parts.items() if part != "cell")
        finished.setdefault(key, []).append(attempt.finished_at)
    return [
        f"fingerprint {key}: {len(times)} good runs, the last {max(times)}"
        for key, times in sorted(finished.items(), key=lambda item: -len(item[1]))
    ]


@dataclass(frozen=True)
class DataIdentity:
    """The data really used: hashes of the interactions and of the evaluation candidates."""

    hash: str
    candidates_hash: str

    def differs(self, dataset: Dataset, cell: Cell) -> str | None:
        """How a run's data differ from these, or None. Runs on different data are never pooled."""
        if dataset.hash != self.hash:
            return f"trained on data {dataset.hash} instead of {self.hash}"
        own_candidates = {"protocol", "valid_negative"} & set(cell.trainer_options)
        if dataset.candidates_hash != self.candidates_hash and not own_candidates:
            return f"candidates {dataset.candidates_hash} instead of {self.candidates_hash}"
        return None


def gpus_text(machine: Machine) -> str:
    """The GPUs in words: "8x NVIDIA A100-SXM4-40GB (40.0 GiB)", "no GPU"."""
    return fact_text("gpus", machine.gpu_kinds)


def fact_text(name: str, value: Any) -> str:
    """A fact in words."""
    if value is ABSENT:
        return "not there"
    if name == "gpus":
        kinds = (
            f"{count}x {model}" + (f" ({units.size(gib * 2**30)})" if gib else "")
            for count, model, gib in value
        )
        return ", ".join(kinds) or "no GPU"
    if isinstance(value, list):
        return "-".join(map(str, value))
    return "unknown" if value is None else str(value)


def listed(value: Any) -> Any:
    """A value as JSON has it: a list where a record that was not stored yet holds a tuple."""
    return list(value) if isinstance(value, tuple) else value
