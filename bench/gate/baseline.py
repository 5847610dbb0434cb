"""A baseline: a side with every sample, who saved it, when and why, as a text file.

Files are committed: a line of JSON per metric and cell, so that a difference between two baselines
can be read. Nothing in them is rounded.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.analysis import metrics
from bench.errors import UserError, did_you_mean
from bench.gate.samples import CellRuns, Made, Side
from bench.stats.variance import Noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA_VERSION = 2
"""History: 1 (2026-11) first form; 2 (2026-11) `calibrated`, and `noise` of a cell."""


@dataclass(frozen=True)
class Signed:
    """Who did something, why and when (UTC)."""

    who: str
    why: str
    when: str


@dataclass(frozen=True)
class Baseline:
    """Samples to compare with.

    Attributes:
        saved: when the samples were put together.
        promoted: every time one baseline of the suite became the one that gates use, the latest
            last, with the name of the baseline then chosen; empty for one that was only saved.
        calibrated: who measured the noise and when; None where nobody did.
        noise: by cell and metric.
    """

    name: str
    suite: str
    saved: Signed
    side: Side
    promoted: tuple[tuple[str, Signed], ...] = ()
    calibrated: Signed | None = None
    noise: Mapping[tuple[str, str], Noise] = field(default_factory=dict)

    def promote(self, by: Signed, before: Baseline | None) -> Baseline:
        """This baseline as the suite's own; the history of the one before goes on."""
        history = before.promoted if before else ()
        return replace(self, promoted=(*history, (self.name, by)))


def to_text(baseline: Baseline) -> str:
    """The file."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": "baseline",
        "name": baseline.name,
        "suite": baseline.suite,
        "saved": asdict(baseline.saved),
        "promoted": [{"name": name, **asdict(signed)} for name, signed in baseline.promoted],
        "calibrated": asdict(baseline.calibrated) if baseline.calibrated else None,
        "cells": [_cell(cell, baseline.noise) for cell in baseline.side.cells.values()],
    }
    return _lines(data) + "\n"


def _cell(cell: CellRuns, noise: Mapping[tuple[str, str], Noise]) -> dict[str, Any]:
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


def from_text(text: str, where: str) -> Baseline:
    """Read the file; versions from 1 to this program's are understood.

    Raises:
        UserError: no baseline, a later schema, or samples that cannot be ones; names the place.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error}): no baseline") from None
    if not isinstance(data, dict) or data.get("kind") != "baseline":
        raise UserError(f"{where}: no baseline (`bench baseline save SUITE` makes one)")
    version = data.get("schema_version")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise UserError(
            f"{where}: schema_version {version!r} is not between 1 and {SCHEMA_VERSION}: "
            "a later program wrote it"
        )
    try:
        name = str(data["name"])
        cells = [_read_cell(cell) for cell in data["cells"]]
        found = Baseline(
            name=name,
            suite=str(data["suite"]),
            saved=Signed(**data["saved"]),
            side=Side(f"baseline {name}", {cell.key: cell for cell in cells}),
            promoted=tuple(
                (str(one["name"]), Signed(one["who"], one["why"], one["when"]))
                for one in data.get("promoted", ())
            ),
            # Neither was in schema 1.
            calibrated=Signed(**data["calibrated"]) if data.get("calibrated") else None,
            noise={
                (str(cell["key"]), metric): Noise(**found)
                for cell in data["cells"]
                for metric, found in cell.get("noise", {}).items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{where}: broken baseline: {type(error).__name__} {error}") from None
    for cell in cells:
        _check(cell, where)
    return found


def _read_cell(data: Mapping[str, Any]) -> CellRuns:
    runs = data["runs"]
    columns = (runs["seed"], runs["attempt"], runs["finished_at"])
    return CellRuns(
        key=str(data["key"]),
        label=str(data["label"]),
        facts={
            part: {name: str(value) for name, value in found.items()}
            for part, found in data["facts"].items()
        },
        fingerprint=dict(data["fingerprint"]),
        runs=tuple(Made(int(s), int(a), str(t)) for s, a, t in zip(*columns, strict=True)),
        samples={
            name: tuple(None if value is None else float(value) for value in values)
            for name, values in data["samples"].items()
        },
        flags={name: int(n) for name, n in data.get("flags", {}).items()},
    )


def _check(cell: CellRuns, where: str) -> None:
    """A zero or a missing sample cannot be divided by, and must not become a pass."""
    for name, values in cell.samples.items():
        one = metrics.gated(name, f"{where}: cell {cell.key}: ")
        if len(values) != len(cell.runs):
            raise UserError(
                f"{where}: broken baseline: {name} of cell {cell.key} has {len(values)} values "
                f"for {len(cell.runs)} runs"
            )
        for value in cell.values(name):
            if not math.isfinite(value) or (one.scale == "ratio" and value <= 0):
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
            f"{path}: {suite} has no promoted baseline: name one (`bench baseline list {suite}`), "
            f"or `bench baseline save {suite} --name NAME --why TEXT` and `promote` it"
        )
    names = [one.stem for one in _all(results, suite) if one.parent.name == suite]
    listed = f" (saved: {', '.join(names)})" if names else ""
    raise UserError(f"{path}: no baseline {given!r}{did_you_mean(given, names)}{listed}")


def _all(results: Path, suite: str | None) -> Sequence[Path]:
    """Every baseline's file, a suite's own one first."""
    own = sorted((results / FOLDER).glob(f"{suite or '*'}.json"))
    return [*own, *sorted((results / FOLDER).glob(f"{suite or '*'}/*.json"))]


def read(path: Path) -> Baseline:
    """A baseline from its file; UserError says why not."""
    try:
        return from_text(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text: no baseline") from None
