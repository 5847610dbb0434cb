"""What this installation can do, as plain data: `bench doctor` asks for it. Trains nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncf.cli import need_tensorflow
from ncf.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


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
        "precision": {name: _precision(name, gpu) for name in ("fp32", "tf32", "amp")},
        "horovod": distributed.horovod_build(),
        "data": _data(Path(data)) if data else None,
    }


def _precision(name: str, gpu: dict[str, Any] | None) -> dict[str, Any]:
    """Mantissa bits found and expected; or why this precision is not available."""
    import tensorflow as tf

    from ncf.model import precision
    from ncf.model.reference import dense
    from ncf.runtime import environment

    try:
        capable = environment.tf32_capable(gpu)
        chosen = precision.plan(name, "auto", on_gpu=gpu is not None, tf32_capable=capable)
    except UserError as error:
        return {"not_available": str(error)}
    precision.apply(chosen)
    dtype = tf.as_dtype(chosen.compute_dtype)
    matmul: Callable[[Any, Any], Any] = lambda a, b: tf.cast(dense(a, b, dtype), tf.float32)  # noqa: E731
    found = precision.probe(chosen, matmul)
    return {"effective": found.effective, "compute_dtype": found.compute_dtype, **found.probe}


def _data(folder: Path) -> dict[str, Any]:
    from ncf.data import dataset

    try:
        data = dataset.verify(folder)
    except UserError as error:
        return {"problem": str(error)}
    return {"hash": data.hash, "problem": None}
