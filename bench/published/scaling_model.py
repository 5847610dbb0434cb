"""What a training step costs on more GPUs: an alpha-beta model. Pure.

    step = compute * samples / GPUs + Adam + launches + all-reduce

Two numbers are fitted on published throughputs, of 1 GPU and of a few: the seconds of compute of a
sample, and the bytes per second of the all-reduce. All else is given (docs/scaling.md says where
it comes from). The all-reduce is a ring inside a host, 2 (n - 1) / n of the bytes pass every GPU
(Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009),
with a latency alpha for every one of its 2 (n - 1) hops, and a tree between hosts, 2 log2(hosts)
hops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Parallel = Literal["replicated", "user-sharded"]
FLOAT_BYTES = 4
ADAM_BYTES = 7 * FLOAT_BYTES
"""Of one parameter: gradient, weight and two moments are read, weight and moments written."""
HELD_BYTES = 4 * FLOAT_BYTES
"""Of one parameter: weight, two moments, gradient."""
IMBALANCE = 1.01
"""User-sharded: the largest share of the interactions against the mean."""


@dataclass(frozen=True)
class Sizes:
    """The model's tables: embeddings of width `gmf` and `mlp`, an MLP of widths `layers`."""

    users: int
    items: int
    gmf: int = 64
    mlp: int = 128
    layers: tuple[int, ...] = (256, 256, 128, 64)

    @property
    def width(self) -> int:
        """Parameters of one user or item."""
        return self.gmf + self.mlp

    @property
    def user_parameters(self) -> int:
        """Of all users."""
        return self.users * self.width

    @property
    def shared_parameters(self) -> int:
        """Of items and MLP, which every rank needs: kernels and biases, and the output's."""
        pairs = zip(self.layers, self.layers[1:], strict=False)
        mlp = sum((below + 1) * above for below, above in pairs)
        return self.items * self.width + mlp + self.gmf + self.layers[-1] + 1


ML_20M = Sizes(users=138_493, items=26_744)


@dataclass(frozen=True)
class Machine:
    """What is given, not fitted.

    Attributes:
        memory_bytes_s: bytes/s that Adam gets of a GPU's memory.
        launch_s: seconds of a step that do not shrink with the batch.
        hop_s: latency of one hop inside a host.
        gpus_per_host: after so many GPUs the next host begins.
        network_bytes_s: bytes/s into and out of a host.
        network_hop_s: latency of one hop between hosts.
    """

    memory_bytes_s: float
    launch_s: float
    hop_s: float = 5e-6
    gpus_per_host: int = 8
    network_bytes_s: float = 160e9
    network_hop_s: float = 10e-6


@dataclass(frozen=True)
class Fit:
    """The two fitted numbers: seconds of compute a sample, bytes/s of the ring."""

    sample_s: float
    ring_bytes_s: float


@dataclass(frozen=True)
class Step:
    """Seconds of one step on every GPU, by part."""

    compute: float
    adam: float
    launch: float
    reduce: float

    @property
    def seconds(self) -> float:
        """All parts: nothing overlaps."""
        return self.compute + self.adam + self.launch + self.reduce


class NoFitError(ValueError):
    """The throughputs contradict the model: what would be fitted is not positive."""


def adam_seconds(sizes: Sizes, machine: Machine, ranks: int, parallel: Parallel) -> float:
    """Dense Adam over what a GPU holds."""
    own = sizes.user_parameters / (ranks if parallel == "user-sharded" else 1)
    return (own + sizes.shared_parameters) * ADAM_BYTES / machine.memory_bytes_s


def reduced_bytes(sizes: Sizes, parallel: Parallel) -> int:
    """Gradients that one rank hands to the all-reduce in a step."""
    local = sizes.user_parameters if parallel == "replicated" else 0
    return (local + sizes.shared_parameters) * FLOAT_BYTES


def reduce_seconds(nbytes: float, ranks: int, machine: Machine, ring_bytes_s: float) -> float:
    """An all-reduce of so many bytes over so many GPUs."""
    if ranks == 1:
        return 0.0
    hosts = math.ceil(ranks / machine.gpus_per_host)
    inside = 2 * (min(ranks, machine.gpus_per_host) - 1) * machine.hop_s
    between = 2 * math.log2(hosts) * machine.network_hop_s
    speed = ring_bytes_s if hosts == 1 else min(ring_bytes_s, machine.network_bytes_s)
    return inside + between + 2 * (ranks - 1) / ranks * nbytes / speed


def fit(rates: dict[int, float], few: int, batch: int, sizes: Sizes, machine: Machine) -> Fit:
    """The two numbers from the throughputs of 1 GPU and of a few, replicated.

    Args:
        rates: samples/s by number of GPUs, at the same global batch.
        few: the other number of GPUs to fit on.
        batch: global batch, samples.
        sizes: the model.
        machine: what is given.

    Raises:
        NoFitError: compute or all-reduce would have to be free, or less.
    """
    fixed = adam_seconds(sizes, machine, 1, "replicated") + machine.launch_s
    compute = batch / rates[1] - fixed
    left = batch / rates[few] - fixed - compute / few
    left -= reduce_seconds(0, few, machine, 1.0)
    if compute <= 0 or left <= 0:
        raise NoFitError(f"no time is left for the all-reduce of {few} GPUs")
    nbytes = reduced_bytes(sizes, "replicated")
    return Fit(compute / batch, 2 * (few - 1) / few * nbytes / left)


def step(
    found: Fit, machine: Machine, sizes: Sizes, ranks: int, batch: int, parallel: Parallel
) -> Step:
    """The parts of a step of `batch` samples over all GPUs."""
    uneven = IMBALANCE if parallel == "user-sharded" and ranks > 1 else 1.0
    nbytes = reduced_bytes(sizes, parallel)
    return Step(
        compute=uneven * found.sample_s * batch / ranks,
        adam=adam_seconds(sizes, machine, ranks, parallel),
        launch=machine.launch_s,
        reduce=reduce_seconds(nbytes, ranks, machine, found.ring_bytes_s),
    )


def held_bytes(sizes: Sizes, ranks: int, *, items_sharded: bool = False) -> float:
    """Parameters, moments and gradients on one GPU when users are sharded, and items perhaps."""
    shared = sizes.shared_parameters / (ranks if items_sharded else 1)
    return (sizes.user_parameters / ranks + shared) * HELD_BYTES
