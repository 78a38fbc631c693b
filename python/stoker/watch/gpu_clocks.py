"""Temperature and clocks of the GPU that trains, from NVML, the library of NVIDIA's driver (as src/stoker/monitor/nvml)."""

from __future__ import annotations

import ctypes
from time import monotonic
from typing import Any

import torch

_EVERY = 1.0  # seconds: the driver may take a millisecond
_SM_CLOCK = 1  # NVML_CLOCK_SM
_TEMPERATURE = 0  # NVML_TEMPERATURE_GPU
_LIMITS = {  # those of nvmlClocksEventReasons that throttle, in the words of monitor/gpu_counters.cpp
    0x004: "power limit",
    0x008: "hardware slowdown",
    0x010: "slowest GPU of a sync group",
    0x020: "temperature",
    0x040: "temperature (hardware)",
    0x080: "power brake of the power supply",
}


class GpuClocks:
    """uuid: of the GPU, without "GPU-". Raises OSError or AttributeError without a driver that knows it."""

    def __init__(self, uuid: str, library: str = "libnvidia-ml.so.1") -> None:
        self._nvml = nvml = ctypes.CDLL(library)
        self._device = ctypes.c_void_p()
        self._read_at = -_EVERY
        self._reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons")
        if nvml.nvmlInit_v2() != 0:
            raise OSError("NVML does not start")
        if nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(), ctypes.byref(self._device)) != 0:
            raise OSError(f"NVML has no GPU {uuid}")

    def _number(self, function: Any, kind: type, *selector: int) -> int | None:
        value = kind()
        return int(value.value) if function(self._device, *selector, ctypes.byref(value)) == 0 else None

    def read(self) -> dict[str, Any]:
        """The keys of docs/records.md; empty within a second of the last reading."""
        now = monotonic()
        if now - self._read_at < _EVERY:
            return {}
        self._read_at = now
        out: dict[str, Any] = {}
        nvml, unsigned = self._nvml, ctypes.c_uint
        celsius = self._number(nvml.nvmlDeviceGetTemperature, unsigned, _TEMPERATURE)
        clock = self._number(nvml.nvmlDeviceGetClockInfo, unsigned, _SM_CLOCK)
        most = self._number(nvml.nvmlDeviceGetMaxClockInfo, unsigned, _SM_CLOCK)
        reasons = self._number(self._reasons, ctypes.c_ulonglong) or 0
        if celsius is not None:
            out["gpu_celsius"] = celsius
        if clock is not None and most:
            out["gpu_clock_share"] = clock / most
        if reasons & sum(_LIMITS):
            out["gpu_clock_limit"] = ", ".join(name for bit, name in sorted(_LIMITS.items()) if reasons & bit)
        return out


def clocks_of(device: torch.device | None) -> GpuClocks | None:
    """None for a CPU, and where NVML or this version of torch cannot tell."""
    if device is None or device.type != "cuda":
        return None
    try:
        return GpuClocks(str(torch.cuda.get_device_properties(device).uuid))
    except (AttributeError, OSError):
        return None
