"""Whether the GPU has done the work of the last step, or is behind the program. Seen by an event; nothing waits."""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Any

import torch


class GpuBacklog:
    """Looks once after a step: `begin`, then `look` as often as wanted, then `take`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._began = 0
        self._looking = False
        self._seen: dict[str, Any] = {}

    def begin(self) -> None:
        """All work of the step has been launched. While a graph is captured, nothing is looked at."""
        self._seen = {}
        self._looking = self._call(torch.cuda.is_current_stream_capturing) is False
        if self._looking:
            self._began = perf_counter_ns()
            self._call(lambda: self._event.record(torch.cuda.current_stream(self._device)))

    def look(self) -> None:
        if self._looking:
            done = self._call(self._event.query)
        if self._looking:
            self._seen = {"gpu_done_us" if done else "gpu_busy_us": (perf_counter_ns() - self._began) / 1000}
            self._looking = not done

    def take(self) -> dict[str, Any]:
        """The key of docs/records.md; empty where nobody has looked."""
        seen, self._seen, self._looking = self._seen, {}, False
        return seen

    def _call(self, call: Any) -> Any:
        """After an error of CUDA, which the program also gets, there is nothing to see."""
        try:
            return call()
        except RuntimeError:
            self._looking, self._seen = False, {}


def backlog_of(device: torch.device | None) -> GpuBacklog | None:
    """None for other devices than CUDA's, and where each launch waits for its end."""
    blocking = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0"
    return GpuBacklog(device) if device is not None and device.type == "cuda" and not blocking else None
