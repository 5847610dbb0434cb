"""Ranks: the only place that knows Horovod, and that chooses devices.

One rank does not need Horovod. With several, the launcher (horovodrun, mpirun) gives each process
its place in environment variables; they are read before TensorFlow is imported.
"""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ncf.errors import UserError
from ncf.ranks import watchdog as watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# (rank, size, local rank, local size) as the launchers name them.
_LAUNCHERS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


@dataclass(frozen=True)
class Place:
    """Place of a process: rank of size in the job, local_rank of local_size on its host."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


def place_from_environment(environment: Mapping[str, str] = os.environ) -> Place:
    """The place that the launcher gave this process; alone if there is no launcher."""
    for names in _LAUNCHERS:
        if names[0] in environment and names[1] in environment:
            rank, size = int(environment[names[0]]), int(environment[names[1]])
            local_rank = int(environment.get(names[2], rank))
            return Place(rank, size, local_rank, int(environment.get(names[3], size)))
    return Place()


def device_index(local_rank: int, local_size: int, devices: int) -> int:
    """The one function of the local rank that chooses a GPU.

    Raises:
        UserError: there are fewer GPUs than ranks on this host; the same line on all of them.
    """
    if local_size > devices:
        many = "s" if devices > 1 else ""
        raise UserError(
            f"{local_size} ranks, {devices} GPU{many} on this host: start at most {devices} here, "
            "or set CUDA_VISIBLE_DEVICES"
        )
    return local_rank


class Devices(NamedTuple):
    """What this rank computes on: CPU threads, and how many pieces of work run side by side."""

    on_gpu: bool
    threads: int
    streams: int


LONG_STEP = 131_072
"""Samples of a rank from which on chunks make up most of a step, not Adam and the all-reduce."""


def prepare_devices(
    place: Place, threads: int, most_streams: int = 1, *, in_turn: bool = False
) -> Devices:
    """Pin one GPU, then allow its memory to grow, then set threads: before TensorFlow starts.

    Any other query first would make every rank open a context on GPU 0.

    Args:
        place: of this rank.
        threads: CPU threads of this rank; 0 shares the cores among the local ranks.
        most_streams: up to so many pieces of work are run side by side on a CPU, each operation
            with its share of the threads, instead of one operation after the other with all.
        in_turn: on a rank with one thread nothing runs side by side. By default TensorFlow starts
            operations on as many threads as the host has cores: good while a step waits for the
            all-reduce, but two on one core push each other's chunk out of its cache.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        mine = gpus[device_index(place.local_rank, place.local_size, len(gpus))]
        tf.config.set_visible_devices([mine], "GPU")
        tf.config.experimental.set_memory_growth(mine, True)  # noqa: FBT003 - TensorFlow's signature
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = threads or max(1, (cores or 1) // place.local_size)
    streams = 1 if gpus else min(most_streams, threads)
    # TensorFlow refuses other threads once it runs in this process.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads // streams)
        if streams > 1 or (in_turn and threads == 1 and not gpus):
            tf.config.threading.set_inter_op_parallelism_threads(streams)
    return Devices(bool(gpus), threads, streams)


class Ranks:
    """Collectives over the ranks of a job; every rank must make the same calls in the same order.

    With one rank every call returns its own argument.

    Args:
        place: of this rank.
        pace_ms: see `pace_ms`; None leaves it to Horovod.
    """

    def __init__(self, place: Place, *, pace_ms: int | None = None) -> None:
        self.place = place
        self.rank, self.size = place.rank, place.size
        self._horovod: Any = None
        if self.size > 1:
            self._horovod = _start_horovod(self.size, pace_ms)
            self.rank = self._horovod.rank()

    @property
    def is_first(self) -> bool:
        """Rank 0 prints, decides and writes."""
        return self.rank == 0

    def sum_gradients(self, tensors: Sequence[Any]) -> list[Any]:
        """Sum dense tensors over ranks in one fused call; usable inside tf.function."""
        if self._horovod is None:
            return list(tensors)
        summed = self._horovod.grouped_allreduce(list(tensors), op=self._horovod.Sum)
        return list(summed)

    def max_tensor(self, tensor: Any) -> Any:
        """Largest over ranks of each element; usable inside tf.function."""
        if self._horovod is None:
            return tensor
        return self._horovod.allreduce(tensor, op=self._horovod.Max, name="ncf.max_tensor")

    def sum(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Sum a few numbers over ranks, in float64."""
        return self._reduce(values, "Sum")

    def max(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Largest over ranks of each of a few numbers, in float64."""
        return self._reduce(values, "Max")

    def _reduce(self, values: Sequence[float], kind: str) -> NDArray[np.float64]:
        array = np.asarray(values, np.float64)
        if self._horovod is None:
            return array
        operation = getattr(self._horovod, kind)
        result = self._horovod.allreduce(array, op=operation, name=f"ncf.{kind}")
        return np.asarray(result, np.float64)

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Give every rank the first rank's variables."""
        if self._horovod is not None:
            self._horovod.broadcast_variables(list(variables), root_rank=0)

    def broadcast_object(self, value: Any) -> Any:
        """The first rank's value, on every rank."""
        if self._horovod is None:
            return value
        return self._horovod.broadcast_object(value, root_rank=0)

    def gather_objects(self, value: Any) -> list[Any]:
        """Every rank's value, in rank order."""
        if self._horovod is None:
            return [value]
        return list(self._horovod.allgather_object(value))

    def gather_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The rows of all ranks, rank after rank; [n, width] with an n of each rank's own."""
        if self._horovod is None:
            return rows
        return np.asarray(self._horovod.allgather(rows, name="ncf.gather_rows"))

    def broadcast_array(self, array: NDArray[Any]) -> NDArray[Any]:
        """The first rank's array; every rank passes one of that shape."""
        if self._horovod is None:
            return array
        return np.asarray(self._horovod.broadcast(array, root_rank=0, name="ncf.broadcast_array"))

    def version(self) -> str:
        """Horovod's version, or that it is not used."""
        if self._horovod is None:
            return "not used"
        import horovod

        return str(horovod.__version__)


def horovod_build() -> dict[str, Any]:
    """Version of Horovod and what it was built with, or why it cannot be used."""
    try:
        import horovod
        import horovod.tensorflow as hvd
    except ImportError as error:
        return {"problem": _first_line(error)}
    return {
        "problem": None,
        "version": str(horovod.__version__),
        "gloo": bool(hvd.gloo_built()),
        "nccl": bool(hvd.nccl_built()),
        "mpi": bool(hvd.mpi_built()),
    }


def pace_ms(samples: int) -> int:
    """How often Horovod's thread should meet those of the other ranks, on a CPU: ms.

    By default it is 1 ms, on a core that computes. A turn costs about c = 0.25 ms of that core, and
    a step of S ms waits half a turn for its all-reduce: c / T + T / 2S is least at T = sqrt(2 c S).
    A core trains about 225 samples a ms (docs/multi-gpu.md).

    Args:
        samples: of one rank in one step.
    """
    return min(50, max(1, round(math.sqrt(2 * 0.25 * samples / 225))))


def horovod_settings(*, watched: bool, pace_ms: int | None = None) -> dict[str, str]:
    """Horovod's own stall check, which is a time limit on every collective, and its pace.

    Where `ncf.ranks.watchdog` watches the ranks, Horovod's check only warns, because a limit would
    also end slow ranks (one that compiles, or writes a large checkpoint). Elsewhere it is the only
    check. Gloo's own 30 s to connect are too few on a busy machine, where ranks import TensorFlow
    at different speeds.
    """
    pace = {"HOROVOD_CYCLE_TIME": str(pace_ms)} if pace_ms else {}
    return {
        **pace,
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "120",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "20",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0" if watched else "40",
    }


def _start_horovod(size: int, pace_ms: int | None) -> Any:
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise UserError(
            f"{size} ranks need Horovod, which cannot be imported ({_first_line(error)}): "
            "build it with `python scripts/build_horovod.py`, or start 1 rank"
        ) from None
    for name, value in horovod_settings(watched=watch.running(), pace_ms=pace_ms).items():
        os.environ.setdefault(name, value)
    with watch.joining():
        hvd.init()
    if hvd.size() != size:
        raise UserError(
            f"the launcher announced {size} ranks and Horovod found {hvd.size()}: "
            "start the job with `horovodrun --gloo`, or build Horovod with MPI for mpirun"
        )
    return hvd


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_HIGHEST = 15  # 2**16 overflows float16


def peaks(tensors: Sequence[Any]) -> Any:
    """The largest magnitude of each tensor, float32 [n]; infinite where a tensor is not finite."""
    import tensorflow as tf

    largest = tf.stack([tf.reduce_max(tf.abs(tensor)) for tensor in tensors])
    return tf.where(tf.math.is_nan(largest), float("inf"), largest)


def scales(largest: Any, size: int) -> Any:
    """Powers of two [n] that bring `size` times the largest magnitudes [n] just below 2**15.

    1 for a tensor of zeros, and for one that is not finite, which stays so in float16.

    A gradient of a mean over a million samples is about 1e-9, which float16 rounds to 0. So all
    ranks multiply a tensor by the same power of two, for which `size` of its largest elements can
    be added without overflow. Rounding then costs at most 2**-11 of an element; elements below
    2**-26 of the largest lose more (Micikevicius et al., "Mixed Precision Training", ICLR 2018,
    scale the loss for the same reason).
    """
    import tensorflow as tf

    exponent = _HIGHEST - tf.math.ceil(tf.math.log(largest * float(size)) / tf.math.log(2.0))
    usable = (largest > 0) & tf.math.is_finite(largest)
    # A float32 holds no larger power of two than 2**127; 126 leaves room for its inverse, too.
    return tf.where(usable, tf.pow(2.0, tf.clip_by_value(exponent, -126.0, 126.0)), 1.0)


def halved(tensors: Sequence[Any], factors: Any) -> list[Any]:
    """The tensors times their factors, float16."""
    import tensorflow as tf

    each = zip(tensors, tf.unstack(factors), strict=True)
    return [tf.cast(tensor * factor, tf.float16) for tensor, factor in each]


def restored(tensors: Sequence[Any], factors: Any) -> list[Any]:
    """The reverse of `halved`, also for a sum of its results; float32."""
    import tensorflow as tf

    each = zip(tensors, tf.unstack(factors), strict=True)
    return [tf.cast(tensor, tf.float32) / factor for tensor, factor in each]
