"""The GPUs of this machine, and which of them CUDA shows to a trainer, in the trainer's order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

FASTEST_FIRST = "FASTEST_FIRST"
"""CUDA's default order of devices, unknown to NVML; the sweep sets PCI_BUS_ID instead."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver describes it; None for facts that it does not provide.

    `slices` are the UUIDs of the MIG devices of a partitioned card; a slice is a Gpu with `card`.
    """

    name: str
    uuid: str | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    pci: str | None = None
    slices: tuple[str, ...] = ()
    card: str | None = None


def read_gpus(nvml: Any = None) -> tuple[tuple[Gpu, ...], str | None, str | None]:
    """GPUs in PCI order, the driver's version, and the reason if there are no GPUs.

    Args:
        nvml: the module to use; None for pynvml.
    """
    driver = connect(nvml)
    if isinstance(driver, str):
        return (), None, driver
    try:
        version = driver.ask("nvmlSystemGetDriverVersion").value
        count = driver.ask("nvmlDeviceGetCount")
        if count.value is None:
            return (), None, f"the NVIDIA driver does not list its GPUs ({count.reason})"
        gpus = [_read_gpu(driver, index) for index in range(count.value)]
    finally:
        driver.close()
    if all(gpu.pci for gpu in gpus):  # the driver's own order may change with a reboot
        gpus.sort(key=lambda gpu: gpu.pci or "")
    return tuple(gpus), version, None if gpus else f"NVIDIA driver {version} finds no GPU"


def _read_gpu(driver: Driver, index: int) -> Gpu:
    answer = driver.ask("nvmlDeviceGetHandleByIndex", index)
    if answer.value is None:  # a card that has fallen off the bus is listed, too
        return Gpu(f"GPU {index} ({answer.reason})")
    handle = answer.value
    memory = driver.ask("nvmlDeviceGetMemoryInfo", handle).value
    capability = driver.ask("nvmlDeviceGetCudaComputeCapability", handle).value
    pci = driver.ask("nvmlDeviceGetPciInfo", handle).value
    bus = getattr(pci, "busId", None)
    return Gpu(
        name=driver.ask("nvmlDeviceGetName", handle).value or f"GPU {index}",
        uuid=driver.ask("nvmlDeviceGetUUID", handle).value,
        memory_bytes=int(memory.total) if memory is not None else None,
        compute_capability=tuple(capability) if capability is not None else None,
        pci=bus.decode() if isinstance(bus, bytes) else bus,
        slices=tuple(_slices(driver, handle)),
    )


def _slices(driver: Driver, handle: Any) -> list[str]:
    """UUIDs of the MIG devices of a card; none if it is not partitioned."""
    mode = driver.ask("nvmlDeviceGetMigMode", handle).value
    if not mode or not mode[0]:
        return []
    most = driver.ask("nvmlDeviceGetMaxMigDeviceCount", handle).value or 0
    slices = (driver.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, i) for i in range(most))
    uuids = (driver.ask("nvmlDeviceGetUUID", part.value).value for part in slices if part.value)
    return [uuid for uuid in uuids if uuid]


def visible(
    gpus: tuple[Gpu, ...], cuda_visible_devices: str | None, order: str | None = None
) -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that CUDA will show to a trainer, and the reason if none. Pure.

    CUDA reads the list up to the first unknown entry and ignores the rest. An entry is an index or
    the beginning of a UUID. Of partitioned cards CUDA shows one slice.

    Args:
        gpus: all of them, in PCI order.
        cuda_visible_devices: the environment variable.
        order: CUDA_DEVICE_ORDER as the user set it.
    """
    ambiguous = order == FASTEST_FIRST and len({gpu.name for gpu in gpus}) > 1
    if cuda_visible_devices is None:
        whole = tuple(_whole(gpu) for gpu in gpus)
        split = [gpu for gpu in whole if gpu.card]
        shown = tuple(split[:1]) if split else whole
        return tuple(replace(gpu, uuid=None) for gpu in shown) if ambiguous else shown, None
    chosen: list[Gpu] = []
    for entry in cuda_visible_devices.split(","):
        gpu = _resolve(gpus, entry.strip())
        if gpu is None or gpu in chosen:
            break
        # CUDA may order devices differently from NVML, so an index is ambiguous: without a UUID
        # nothing is read, rather than the wrong GPU
        chosen.append(replace(gpu, uuid=None) if ambiguous and entry.strip().isdecimal() else gpu)
    if chosen:
        return tuple(chosen), None
    return (), f"CUDA_VISIBLE_DEVICES={cuda_visible_devices!r} hides all {len(gpus)} GPUs"


def _whole(gpu: Gpu) -> Gpu:
    """The card, or its first slice if it is partitioned."""
    return _slice(gpu, gpu.slices[0]) if gpu.slices else gpu


def _slice(gpu: Gpu, uuid: str) -> Gpu:
    return Gpu(f"MIG slice of {gpu.name}", uuid, None, gpu.compute_capability, card=gpu.uuid)


def _resolve(gpus: tuple[Gpu, ...], entry: str) -> Gpu | None:
    if entry.isdecimal():
        return _whole(gpus[int(entry)]) if int(entry) < len(gpus) else None
    if entry.startswith("MIG-"):
        listed = [(gpu, uuid) for gpu in gpus for uuid in gpu.slices]
        if not listed or "/" in entry:  # an old driver or an old name: its card is not known
            return Gpu(f"MIG slice {entry}", uuid=entry, card="unknown")
        slices = [_slice(gpu, uuid) for gpu, uuid in listed if uuid.startswith(entry)]
        return slices[0] if len(slices) == 1 else None
    matches = [gpu for gpu in gpus if entry and gpu.uuid and gpu.uuid.startswith(entry)]
    return _whole(matches[0]) if len(matches) == 1 else None


VALUE_NOT_AVAILABLE = 2**32 - 1
"""nvml.h: some drivers return this, with success, for values that the hardware lacks."""


@dataclass(frozen=True)
class Answer:
    """A value, or None and the reason."""

    value: Any
    reason: str | None = None


class Driver:
    """A connection to the driver. Questions are the names of NVML's functions.

    TensorFlow is never asked: a framework that lists its devices takes all of them, before the
    trainer can pin one to each rank.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def ask(self, question: str, *arguments: Any) -> Answer:
        """One answer; if the query fails (not supported, lost card, ...), None and the reason."""
        function = getattr(self._nvml, question, None)
        if function is None:
            return Answer(None, f"this nvidia-ml-py has no {question}")
        try:
            value = function(*arguments)
        except self._nvml.NVMLError as error:
            return Answer(None, str(error) or type(error).__name__)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if type(value) is int and value >= VALUE_NOT_AVAILABLE and "Energy" not in question:
            return Answer(None, "the driver has no value for it")
        return Answer(value)

    def close(self) -> None:
        """End the connection."""
        self.ask("nvmlShutdown")


def connect(nvml: Any = None) -> Driver | str:
    """A connection, or the reason: no Python library, no NVML, no driver.

    Args:
        nvml: the module to use; None for pynvml.
    """
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            return "the library nvidia-ml-py is not installed"
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return f"no NVIDIA driver answers ({error})"
    return Driver(nvml)
