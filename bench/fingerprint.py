"""Fingerprint of a run: six short hashes of all that must agree before numbers are pooled.

Pure. Derived from what the record says, never stored: hardware (processor, memory, GPUs, driver,
the machine's random name), software (versions), code (the trainer's source), data (the split),
protocol (candidates and k), cell (ranks, precision, every option). `bench.group` pools by the same
facts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from bench.group import NOT_USED, Machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.store import Attempt

CODE, HOROVOD = "code", "horovod"
"""Names among the versions of a record; the first is a hash of the trainer's source."""


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
    def of(cls, attempt: Attempt) -> Fingerprint:
        """The fingerprint of an attempt that has the trainer's record."""
        run = attempt.run
        assert run is not None
        software = {name: value for name, value in run.versions.items() if name != CODE}
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
        names = (field.name for field in fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))


def _short(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def is_stale(versions: Mapping[str, str], installed: Mapping[str, str]) -> bool:
    """Whether a run was made by other software or code than is installed now.

    Only what both know is compared; a build suffix (2.17.0+nv24) is no other version.
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

    One rank does not load Horovod: that is no other software, unless several versions of it are.
    """
    good = [attempt for attempt in attempts if attempt.ok and attempt.run is not None]
    used = {run.versions.get(HOROVOD) for attempt in good if (run := attempt.run)}
    several = len(used - {None, NOT_USED}) > 1
    counted: Counter[tuple[str, ...]] = Counter()
    last: dict[tuple[str, ...], str] = {}
    for attempt in good:
        found = Fingerprint.of(attempt if several else _without_horovod(attempt))
        key = (found.hardware, found.software, found.code, found.data, found.protocol)
        counted[key] += 1
        last[key] = max(last.get(key, ""), attempt.finished_at)
    names = ("hardware", "software", "code", "data", "protocol")
    return [
        f"fingerprint {' '.join(f'{n} {v}' for n, v in zip(names, key, strict=True))}: "
        f"{n} good runs, the last {last[key]}"
        for key, n in counted.most_common()
    ]


def _without_horovod(attempt: Attempt) -> Attempt:
    assert attempt.run is not None
    versions = {name: value for name, value in attempt.run.versions.items() if name != HOROVOD}
    return replace(attempt, run=replace(attempt.run, versions=versions))
