"""An NVML of plain data, with the quirks that real ones have; no real run can reach it.

A card is a dictionary from what is asked to the answer; what is missing is "Not Supported", and a
callable is asked afresh each time. Functions named in `lacking` do not exist, as in an older
library.
"""

from __future__ import annotations

from types import SimpleNamespace

CARD = {
    "name": "NVIDIA A100",
    "uuid": "GPU-aaaa",
    "pci": "00000000:07:00.0",
    "memory": SimpleNamespace(total=40 << 30, used=2 << 30),
    "capability": [8, 0],
    "power": 250_000,
    "energy": 1_000_000,
    "clock": {1: 1410, 2: 1215},
    "temperature": 55,
    "utilization": SimpleNamespace(gpu=97, memory=40),
    "reasons": 0,
    "processes": [],
    "power_limit": 400_000,
    "max_clock": {1: 1410},
    "application_clock": {1: 1095, 2: 1215},
    "persistence": 1,
    "mig": [0, 0],
}
QUESTIONS = {
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetMemoryInfo": "memory",
    "nvmlDeviceGetCudaComputeCapability": "capability",
    "nvmlDeviceGetPowerUsage": "power",
    "nvmlDeviceGetTotalEnergyConsumption": "energy",
    "nvmlDeviceGetClockInfo": "clock",
    "nvmlDeviceGetTemperature": "temperature",
    "nvmlDeviceGetUtilizationRates": "utilization",
    "nvmlDeviceGetCurrentClocksEventReasons": "reasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "reasons",
    "nvmlDeviceGetComputeRunningProcesses": "processes",
    "nvmlDeviceGetPowerManagementLimit": "power_limit",
    "nvmlDeviceGetMaxClockInfo": "max_clock",
    "nvmlDeviceGetApplicationsClock": "application_clock",
    "nvmlDeviceGetPersistenceMode": "persistence",
    "nvmlDeviceGetMigMode": "mig",
    "nvmlDeviceGetEccMode": "ecc",
}


class NVMLError(Exception):
    pass


def card(**changes):
    """A card like CARD; a value of None takes the answer away."""
    return {name: value for name, value in {**CARD, **changes}.items() if value is not None}


class FakeNvml:
    NVMLError = NVMLError

    def __init__(self, *cards, init=None, count=None, driver="535.1", lacking=()):
        self.cards, self.init, self.count, self.driver = cards, init, count, driver
        self.asked = []
        for question, answer in QUESTIONS.items():
            if question not in lacking:
                setattr(self, question, self._question(question, answer))

    def _question(self, question, answer):
        def ask(handle, *more):
            self.asked.append((question, handle.get("uuid")))
            if answer not in handle:
                raise NVMLError("Not Supported")
            found = handle[answer]
            if callable(found):
                found = found()
            if isinstance(found, Exception):
                raise found
            return found[more[0]] if isinstance(found, dict) else found

        return ask

    def nvmlInit(self):
        if self.init:
            raise NVMLError(self.init)

    def nvmlShutdown(self):
        pass

    def nvmlSystemGetDriverVersion(self):
        return self.driver

    def nvmlDeviceGetCount(self):
        if self.count:
            raise NVMLError(self.count)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        if self.cards[index] is None:
            raise NVMLError("GPU is lost")
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for one in self.cards:
            for handle in [one, *(one or {}).get("slices", [])]:
                if handle and handle.get("uuid") == uuid:
                    return handle
        raise NVMLError("Not Found")

    def nvmlDeviceGetPciInfo(self, handle):
        if "pci" not in handle:
            raise NVMLError("Not Supported")
        return SimpleNamespace(busId=handle["pci"].encode())

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        slices = handle.get("slices", [])
        if index >= len(slices):
            raise NVMLError("Not Found")
        return slices[index]


def process(pid):
    return SimpleNamespace(pid=pid, usedGpuMemory=None)
