"""Steps as numbers, until an interval ends and they are written as lines of JSON (docs/records.md)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable

from stoker.watch.account import PHASES, Times, add_times, no_time

_COUNTS = 4  # epoch, samples, ready, bytes copied; nanoseconds by phase follow
_WIDTH = _COUNTS + len(PHASES)


class StepRows:
    """A step appends to one piece of memory: objects would wake the garbage collector."""

    def __init__(self) -> None:
        self.steps = 0  # that were made, also while it was paused
        self.batches = 0  # in these steps
        self.samples = 0  # likewise
        self.until = 0  # a step that ends later calls `due`
        self.due: Callable[[], None] | None = None
        self.paused = False  # steps are counted, not kept
        self.last: Times = []  # of the newest step
        self._numbers = array("q")

    def add(self, epoch: int, batches: int, samples: int, ready: int, copied: int, times: Times, now: int) -> None:
        """samples: 0 if they are unknown. ready: -1 if that is unknown."""
        self.steps += 1
        self.batches += batches
        self.samples += samples
        self.last = times
        if self.paused:
            return
        self._numbers.extend((epoch, samples, ready, copied, *times))
        if now >= self.until and self.due is not None:
            self.due()

    def take_lines(self, rank: int) -> tuple[str, Times]:
        """The lines of the steps since the last call, and the sums of their times by phase."""
        numbers, self._numbers = self._numbers, array("q")
        first = self.steps - len(numbers) // _WIDTH + 1
        lines, sums = [], no_time()
        for begin in range(0, len(numbers), _WIDTH):
            epoch, samples, ready, copied, *times = numbers[begin : begin + _WIDTH]
            add_times(sums, times)
            line = {"type": "step", "schema": 1, "rank": rank, "step": first + begin // _WIDTH, "epoch": epoch}
            if samples > 0:
                line["samples"] = samples
            if ready >= 0:
                line["ready"] = ready
            if copied > 0:
                line["copy_bytes"] = copied
            line["us"] = {name: (time + 500) // 1000 for name, time in zip(PHASES, times) if time}
            lines.append(json.dumps(line, separators=(",", ":")) + "\n")
        return "".join(lines), sums
