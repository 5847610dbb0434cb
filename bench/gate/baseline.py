"""A baseline: every sample of one side, who saved it, when and why, as a text file.

Files are committed: one line of JSON per metric and cell keeps their diffs readable. Nothing in
them is rounded.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.analysis import metrics
from bench.errors import UserError, did_you_mean
from bench.gate.samples import CellSamples, RunRef, Side
from bench.records.attempt import decode
from bench.stats.variance import Noise  # noqa: TC001 - msgspec reads the annotations
from ncf.record import RecordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SCHEMA_VERSION = 3
"""History: 1 (2026-11) first form; 2 (2026-11) `calibrated`, and `noise` of a cell;
3 (2026-12) facts are values, no longer the text that was shown."""


@dataclass(frozen=True)
class Signed:
    """Who did something, why and when (UTC)."""

    who: str
    why: str
    when: str


@dataclass(frozen=True)
class Promotion(Signed):
    """A baseline of this name became the one that gates use."""

    name: str


@dataclass(frozen=True)
class Baseline:
    """Samples to compare with.

    Attributes:
        saved: when the samples were put together.
        promoted: every baseline of the suite that gates used, the latest last; empty for one that
            was only saved.
        calibrated: who measured the noise and when; None where nobody did.
        noise: by cell and metric.
    """

    name: str
    suite: str
    saved: Signed
    side: Side
    promoted: tuple[Promotion, ...] = ()
    calibrated: Signed | None = None
    noise: Mapping[tuple[str, str], Noise] = field(default_factory=dict)

    def promote(self, by: Signed, before: Baseline | None) -> Baseline:
        """This baseline as the suite's own; the history of the one before goes on."""
        history = before.promoted if before else ()
        return replace(self, promoted=(*history, Promotion(by.who, by.why, by.when, self.name)))


def to_text(baseline: Baseline) -> str:
    """The file."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": "baseline",
        "name": baseline.name,
        "suite": baseline.suite,
        "saved": asdict(baseline.saved),
        "promoted": [asdict(item) for item in baseline.promoted],
        "calibrated": asdict(baseline.calibrated) if baseline.calibrated else None,
        "cells": [_cell(cell, baseline.noise) for cell in baseline.side.cells.values()],
    }
    return _lines(data) + "\n"


def _cell(cell: CellSamples, noise: Mapping[tuple[str, str], Noise]) -> dict[str, Any]:
    return {
        "key": cell.key,
        "label": cell.label,
        "fingerprint": dict(cell.fingerprint),
        "facts": {part: dict(found) for part, found in cell.facts.items()},
        "flags": dict(cell.flags),
        "runs": {
            "seed": [run.seed for run in cell.runs],
            "attempt": [run.attempt for run in cell.runs],
            "finished_at": [run.finished_at for run in cell.runs],
        },
        "samples": {name: list(values) for name, values in cell.samples.items()},
        "noise": {name: asdict(found) for (key, name), found in noise.items() if key == cell.key},
    }


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with a list of plain values on one line."""
    pad = " " * (depth + 1)
    if isinstance(value, dict) and value:
        items = (f"{pad}{json.dumps(k)}: {_lines(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(items) + f"\n{' ' * depth}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[\n" + ",\n".join(pad + _lines(v, depth + 1) for v in value) + f"\n{' ' * depth}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def from_text(text: str | bytes, where: str) -> Baseline:
    """Read the file; versions from 1 to this program's are understood.

    Raises:
        UserError: not a baseline, a later schema, a field of a wrong type, or samples that cannot
            be compared; names the place.
    """
    try:
        data = decode(text, _File, "baseline", SCHEMA_VERSION)
    except RecordError as error:
        raise UserError(f"{where}: not a baseline (`ncf-bench baseline save`): {error}") from None
    cells = [_cell_of(cell, data.schema_version, where) for cell in data.cells]
    return Baseline(
        name=data.name,
        suite=data.suite,
        saved=data.saved,
        side=Side(f"baseline {data.name}", {cell.key: cell for cell in cells}),
        promoted=data.promoted,
        calibrated=data.calibrated,
        noise={
            (cell.key, name): noise for cell in data.cells for name, noise in cell.noise.items()
        },
    )


@dataclass(frozen=True)
class _Runs:
    seed: tuple[int, ...]
    attempt: tuple[int, ...]
    finished_at: tuple[str, ...]


@dataclass(frozen=True)
class _FileCell:
    key: str
    label: str
    fingerprint: dict[str, str]
    facts: dict[str, dict[str, Any]]
    runs: _Runs
    samples: dict[str, tuple[float | None, ...]]
    flags: dict[str, int] = field(default_factory=dict)
    noise: dict[str, Noise] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    """What msgspec reads; fields with a default are not in every schema."""

    schema_version: int
    name: str
    suite: str
    saved: Signed
    cells: tuple[_FileCell, ...]
    promoted: tuple[Promotion, ...] = ()
    calibrated: Signed | None = None


def _cell_of(data: _FileCell, version: int, where: str) -> CellSamples:
    runs = data.runs
    if not len(runs.seed) == len(runs.attempt) == len(runs.finished_at):
        raise UserError(f"{where}: broken baseline: the runs of cell {data.key} differ in length")
    cell = CellSamples(
        key=data.key,
        label=data.label,
        facts=data.facts if version >= 3 else _values_of_text(data.facts),
        fingerprint=data.fingerprint,
        runs=tuple(map(RunRef, runs.seed, runs.attempt, runs.finished_at)),
        samples=data.samples,
        flags=data.flags,
    )
    _check(cell, where)
    return cell


def _values_of_text(facts: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """Facts of schemas 1 and 2, which held them as the text that was shown then."""
    return {
        part: {name: _value_of_text(part, name, text) for name, text in values.items()}
        for part, values in facts.items()
    }


def _value_of_text(part: str, name: str, text: str) -> Any:
    if name == "gpus":
        return _gpus(text)
    if part == "cell" or name in _NUMBERS:
        return _parsed(text)
    return None if text == "unknown" else text


_NUMBERS = ("cores", "memory_gib", "gpu_count", "mig_slices", "candidates_per_user", "k")
_GPUS = re.compile(r"(\d+)x (.*?)(?: \(([\d.]+) ([KMGT])iB\))?(?:, (?=\d+x )|$)")
_GIB = {"K": 2**-20, "M": 2**-10, "G": 1, "T": 2**10}


def _gpus(text: str) -> list[list[Any]]:
    """`8x NVIDIA A100-SXM4-40GB (40.0 GiB)`, as Machine.gpu_kinds has it; [] for `no GPU`."""
    return [
        [int(count), name, round(float(size) * _GIB[unit], 1) if size else None]
        for count, name, size, unit in _GPUS.findall(text)
    ]


def _parsed(text: str) -> Any:
    """The value that was written as text: `2`, `0.0045`, `True`, `256-128-64`, `unknown`."""
    words: dict[str, Any] = {"unknown": None, "None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    parts = text.split("-")
    if all(part.isdecimal() for part in parts):
        return [int(part) for part in parts]
    return text


def _check(cell: CellSamples, where: str) -> None:
    """A zero or a missing sample cannot be divided by, and must not become a pass."""
    for name, values in cell.samples.items():
        metric = metrics.gated(name, f"{where}: cell {cell.key}: ")
        if len(values) != len(cell.runs):
            raise UserError(
                f"{where}: broken baseline: {name} of cell {cell.key} has {len(values)} values "
                f"for {len(cell.runs)} runs"
            )
        for value in cell.values(name):
            if not math.isfinite(value) or (metric.scale == "ratio" and value <= 0):
                raise UserError(
                    f"{where}: broken baseline: {name} of cell {cell.key} has the value "
                    f"{value:g}; save it again from good runs"
                )


FOLDER = "baselines"


def own_path(results: Path, suite: str) -> Path:
    """The baseline that gates of a suite use."""
    return results / FOLDER / f"{suite}.json"


def saved_path(results: Path, suite: str, name: str) -> Path:
    """A saved baseline."""
    return results / FOLDER / suite / f"{name}.json"


def find(results: Path, suite: str, given: str | None) -> Path:
    """The file that is meant: a path, the name of a saved baseline, or the suite's own.

    Raises:
        UserError: there is no such baseline.
    """
    if given is not None and (given.endswith(".json") or "/" in given):
        return Path(given)
    path = own_path(results, suite) if given is None else saved_path(results, suite, given)
    if path.is_file():
        return path
    if given is None:
        raise UserError(
            f"{path}: {suite} has no promoted baseline: name one "
            f"(`ncf-bench baseline list {suite}`), or `ncf-bench baseline save {suite} --name NAME "
            "--why TEXT` and `promote` it"
        )
    names = [one.stem for one in files(results, suite) if one.parent.name == suite]
    listed = f" (saved: {', '.join(names)})" if names else ""
    raise UserError(f"{path}: no baseline {given!r}{did_you_mean(given, names)}{listed}")


def files(results: Path, suite: str | None) -> Sequence[Path]:
    """Every baseline's file, the promoted ones first."""
    own = sorted((results / FOLDER).glob(f"{suite or '*'}.json"))
    return [*own, *sorted((results / FOLDER).glob(f"{suite or '*'}/*.json"))]


def read(path: Path) -> Baseline:
    """A baseline from its file; UserError says why not."""
    try:
        return from_text(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
