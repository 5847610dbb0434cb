"""The published figures: the CSV as rows, and the questions a table asks of them.

`read` opens the file; everything else is pure. Nothing is computed here but the match between a
published system and a machine.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

COLUMNS = (
    "source",
    "section",
    "system",
    "gpus",
    "precision",
    "metric",
    "value",
    "unit",
    "batch_per_gpu",
    "aggregation",
    "note",
)

SOURCES = {
    "nvidia-ngc-ncf-2019": 'NVIDIA NGC model page "NCF for TensorFlow" (2019)',
    "nvidia-dle-ncf-tf1-2020-06": "NVIDIA DeepLearningExamples, NCF for TensorFlow 1, "
    "README of June 2020",
    "nvidia-dle-ncf-pytorch-2021-06": "NVIDIA DeepLearningExamples, NCF for PyTorch, "
    "README of June 2021",
}
"""What each source is, in words; results/published/README.md says more."""


@dataclass(frozen=True)
class Figure:
    """One published number; `text` keeps the digits in which it was printed.

    `gpus` and `batch_per_gpu` are None where the source is silent.
    """

    source: str
    section: str
    system: str
    gpus: int | None
    precision: str
    metric: str
    value: float
    text: str
    unit: str
    batch_per_gpu: int | None
    aggregation: str
    note: str


def read(path: Path) -> tuple[Figure, ...]:
    """Read the CSV.

    Raises:
        UserError: the file is missing, lacks a column, or a line holds no number; names the line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if lacking:
                raise UserError(f"{path}: no column {lacking[0]!r}; needed: {', '.join(COLUMNS)}")
            return tuple(_figure(row, path, reader.line_num) for row in reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"{path}: {reason}; restore it from version control (results/published)"
        ) from None


def _figure(row: Mapping[str, str | None], path: Path, line: int) -> Figure:
    def whole(name: str) -> int | None:
        text = (row[name] or "").strip()
        return int(text) if text else None

    try:
        texts = {name: (row[name] or "").strip() for name in COLUMNS}
        return Figure(
            source=texts["source"],
            section=texts["section"],
            system=texts["system"],
            gpus=whole("gpus"),
            precision=texts["precision"],
            metric=texts["metric"],
            value=float(texts["value"]),
            text=texts["value"],
            unit=texts["unit"],
            batch_per_gpu=whole("batch_per_gpu"),
            aggregation=texts["aggregation"],
            note=texts["note"],
        )
    except ValueError as error:
        raise UserError(
            f"{path}, line {line}: {error}; give numbers in value, gpus and batch_per_gpu"
        ) from None


def select(figures: Iterable[Figure], **wanted: Any) -> tuple[Figure, ...]:
    """The figures whose named fields have these values, in file order."""
    return tuple(
        figure
        for figure in figures
        if all(getattr(figure, name) == value for name, value in wanted.items())
    )


def distinct(figures: Iterable[Figure], field: str) -> list[Any]:
    """The values of one field, each once, in file order."""
    return list(dict.fromkeys(getattr(figure, field) for figure in figures))


def lookup(
    figures: Iterable[Figure], metric: str, gpus: int, precision: str, batch: int | None = None
) -> Figure | None:
    """The one figure of a table's cell, or None where the source does not give it."""
    found = select(figures, metric=metric, gpus=gpus, precision=precision)
    if batch is not None:
        found = select(found, batch_per_gpu=batch)
    return found[0] if found else None


def is_inverted(figures: Iterable[Figure]) -> bool:
    """Whether the source prints its speed-ups as full / mixed precision."""
    return any("inverted" in figure.note for figure in figures)


def parse_system(system: str) -> tuple[int, str, int] | None:
    """GPU count, model and memory in GB out of "DGX-1 8x V100 32GB"; None where it names none."""
    match = re.search(r"(\d+)x (\S+) (\d+)GB$", system)
    return (int(match[1]), match[2], int(match[3])) if match else None


def matches(system: str, gpus: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a machine's GPUs are those of a published system: count, model and memory.

    Args:
        system: as in the CSV, for instance "DGX A100 8x A100 40GB".
        gpus: per GPU its `name` and `memory_bytes`.
    """
    wanted = parse_system(system)
    if wanted is None or len(gpus) != wanted[0]:
        return False
    _, model, gigabytes = wanted
    for gpu in gpus:
        name = str(gpu.get("name") or "")
        memory = gpu.get("memory_bytes")
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(model)}(?![0-9])", name) is None:
            return False
        # A "40GB" card reports 39.4 to 42.9 GB, by driver, ECC and the meaning of GB.
        if not isinstance(memory, int | float) or abs(memory / 1e9 - gigabytes) > 0.12 * gigabytes:
            return False
    return True


def nearest(
    figures: Sequence[Figure], gpus: Sequence[Mapping[str, Any]], metric: str = "train_throughput"
) -> tuple[str, ...]:
    """The published system most like a machine: its GPU model, then memory, then count.

    Empty where no source has that model; a machine without GPUs is like none of them.

    Args:
        figures: all published ones.
        gpus: per GPU its `name` and `memory_bytes`.
        metric: what the system must have been published for.
    """
    if not gpus:
        return ()
    name, memory = str(gpus[0].get("name") or ""), gpus[0].get("memory_bytes")
    size = memory / 1e9 if isinstance(memory, int | float) else 0.0
    found = []
    for system in distinct(select(figures, metric=metric), "system"):
        parsed = parse_system(system)
        if parsed is None:
            continue
        count, model, gigabytes = parsed
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(model)}(?![0-9])", name):
            found.append((abs(gigabytes - size), abs(count - len(gpus)), system))
    return (min(found)[2],) if found else ()
