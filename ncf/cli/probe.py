"""What this installation can do, as plain data: `bench doctor` asks for it. Trains nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.cli import need_tensorflow
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse


def probe_arguments(parser: argparse.ArgumentParser) -> None:
    """Give parser the arguments of `ncf probe`."""
    parser.add_argument("--data", default="", help="a data folder whose hashes are verified")


def probe(parsed: argparse.Namespace) -> int:
    """Run `ncf probe`: print the facts as JSON."""
    need_tensorflow()
    print(json.dumps(facts(parsed.data)))
    return 0


def facts(data: str = "") -> dict[str, Any]:
    """Versions, devices, the precision that matmuls really have, Horovod's build, the data.

    Args:
        data: a data folder whose every hash is compared; none if empty.
    """
    import tensorflow as tf

    from ncf.ranks import horovod as distributed
    from ncf.runtime import environment

    on_gpu = distributed.prepare_devices(distributed.Place(), 0).on_gpu
    build = tf.sysconfig.get_build_info()
    gpu = environment.gpu_details() if on_gpu else None
    return {
        "versions": environment.versions("not used"),
        "cuda_build": bool(build.get("is_cuda_build")),
        "gpus": len(tf.config.list_physical_devices("GPU")),
        "gpu": gpu,
        "precision": {name: _precision(name, on_gpu=on_gpu) for name in ("fp32", "tf32", "amp")},
        "horovod": distributed.horovod_build(),
        "data": _data(Path(data)) if data else None,
    }


def _precision(name: str, *, on_gpu: bool) -> dict[str, Any]:
    """Mantissa bits measured and expected; or why this precision is not available."""
    from ncf.model import precision

    try:
        probed = precision.establish(name, "auto", on_gpu=on_gpu)
    except UserError as error:
        return {"not_available": str(error)}
    return {"effective": probed.effective, "compute_dtype": probed.compute_dtype, **probed.probe}


def _data(folder: Path) -> dict[str, Any]:
    from ncf.data import dataset

    try:
        data = dataset.verify(folder)
    except UserError as error:
        return {"problem": str(error)}
    return {"hash": data.hash, "problem": None}
