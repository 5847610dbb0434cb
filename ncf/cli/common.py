"""What commands that use a model have in common: its options, its data, the device, tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ncf import record
    from ncf.data.dataset import Data
    from ncf.ranks.horovod import Devices, Ranks
    from ncf.training.checkpoint import Restored

MOST_STREAMS = 64
"""Chunks scored side by side; more threads than this share the operations of a chunk."""

EXIT_CODES = {"ok": 0, "nan": 3, "invalid": 4, "interrupted": 130}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, and the data that its rows belong to."""
    parser.add_argument(
        "--checkpoint", required=True, metavar="PATH", help="a checkpoint, or the folder with one"
    )
    parser.add_argument(
        "--data", default="", metavar="DIR", help="the data folder [the one it was trained on]"
    )


def load_model_and_data(checkpoint: str, folder: str) -> tuple[Data, Restored]:
    """The model, and the data that it was made on.

    Raises:
        UserError: one of them is missing, damaged, or they do not belong together.
    """
    from ncf.data import dataset
    from ncf.training.checkpoint import Reader, find, restore

    path = find(Path(checkpoint), "--checkpoint")
    name = folder or str(Reader(path, "--checkpoint").meta.get("data_folder") or "")
    if not name:
        raise UserError("--data is missing: name the folder that the model was trained on")
    try:
        data = dataset.load(Path(name))
    except UserError as error:
        if folder:
            raise
        raise UserError(f"{error} (the folder it was trained on; name another by --data)") from None
    return data, restore(path, "--checkpoint", data)


class Machine(NamedTuple):
    """What a command computes on: one rank, its devices, the precision and its matmuls' type."""

    ranks: Ranks
    devices: Devices
    hardware: dict[str, Any]
    precision: record.Precision
    dtype: Any


def require_one_rank(command: str) -> None:
    """Raise a UserError if a launcher started several ranks."""
    from ncf.ranks.horovod import place_from_environment

    if (size := place_from_environment().size) > 1:
        raise UserError(f"ncf {command} runs on 1 rank, and {size} were started")


def prepare_machine(
    precision: str = "fp32",
    amp_dtype: str = "auto",
    *,
    threads: int = 0,
    streams: int = MOST_STREAMS,
) -> Machine:
    """Pin the device and establish the precision.

    Raises:
        UserError: the device cannot compute in this precision.
    """
    import tensorflow as tf

    from ncf.model.precision import establish
    from ncf.ranks import horovod
    from ncf.runtime import environment

    place = horovod.place_from_environment()
    devices = horovod.prepare_devices(place, threads, streams)
    established = establish(precision, amp_dtype, on_gpu=devices.on_gpu)
    hardware = environment.hardware(on_gpu=devices.on_gpu, threads=devices.threads)
    dtype = tf.as_dtype(established.compute_dtype)
    return Machine(horovod.Ranks(horovod.Place()), devices, hardware, established, dtype)


def markdown_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str]
) -> str:
    """A Markdown table of texts; columns with the headers `left` are aligned left."""
    from tabulate import tabulate

    cells = [[text.replace("|", "\\|") for text in row] for row in rows]
    sides = ["left" if header in left else "right" for header in headers]
    return tabulate(cells, headers, tablefmt="pipe", colalign=sides, disable_numparse=True)
