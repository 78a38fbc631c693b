"""Lines of the program on which the training thread spends its time, and how often each runs in a step.

A thread looks fifty times a second where the training thread is, and ten times a second after the first ten seconds.
Two early steps run under a trace function that counts lines, so that a loop over elements can be told from one long
operation.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from time import perf_counter, sleep
from types import CodeType, FrameType
from typing import Any

from stoker.watch.account import WAIT, Account
from stoker.watch.places import Line, find_line, is_own, place_name

PERIOD = 0.02  # seconds
LATE_PERIOD = 0.1
EARLY_SECONDS = 10.0
COUNTED_STEPS = (5, 9)
_MOST_EVENTS = 50_000  # of a counted step; the rest of the step runs untraced


class LineSampler:
    """Samples the innermost line of the program while a step runs and does not wait for its batch."""

    def __init__(self, account: Account, thread_id: int) -> None:
        self._account = account
        self._thread_id = thread_id
        self._stopped = False
        self._samples: dict[Line, float] = {}
        self._thread = threading.Thread(target=self._run, name="stoker-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """May be called again."""
        self._stopped = True
        self._thread.join()

    def take(self) -> dict[Line, float]:
        """Seconds by line since the last call."""
        samples, self._samples = self._samples, {}
        return samples

    def _run(self) -> None:
        begin = last = perf_counter()
        while not self._stopped:
            early = last - begin < EARLY_SECONDS
            sleep(PERIOD if early else LATE_PERIOD)  # an Event would take the interpreter's lock for longer
            now = perf_counter()
            if self._account.phase != WAIT:
                line = find_line(sys._current_frames().get(self._thread_id))
                if line is not None:
                    samples = self._samples
                    samples[line] = samples.get(line, 0.0) + now - last
            last = now


class LineCounter:
    """Counts how often each line of the program runs between two calls of `begin` and `end`."""

    def __init__(self) -> None:
        self.counts: dict[Line, int] = {}
        self._now: Counter[Line] = Counter()
        self._events = 0

    def begin(self) -> bool:
        """False if something else traces already, such as a debugger."""
        if sys.gettrace() is not None:
            return False
        self._now = Counter()
        self._events = 0
        frame: FrameType | None = sys._getframe(1)
        sys.settrace(self._called)
        while frame is not None:  # functions that run already
            if is_own(frame.f_code.co_filename) and frame.f_trace is None:
                frame.f_trace = self._in_function
            frame = frame.f_back
        return True

    def end(self) -> None:
        """Leaves alone what a debugger has put in the place of ours. A frame that was kept would keep its variables."""
        self._stop()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_trace == self._in_function:
                frame.f_trace = None
            frame = frame.f_back
        for line, count in self._now.items():
            self.counts[line] = max(count, self.counts.get(line, 0))
        self._now.clear()

    def _stop(self) -> None:
        if sys.gettrace() == self._called:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code: CodeType = frame.f_code
        return self._in_function(frame, "line", argument) if is_own(code.co_filename) else None

    def _in_function(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._now[frame.f_code.co_filename, frame.f_lineno] += 1
            self._events += 1
            if self._events > _MOST_EVENTS:
                self._stop()
                return None
        return self._in_function


def line_entries(samples: dict[Line, float], counts: dict[Line, int], most: int = 8) -> list[dict[str, Any]]:
    """`lines` of docs/records.md: the lines with the most time of an interval."""
    entries: list[dict[str, Any]] = []
    for line, seconds in sorted(samples.items(), key=lambda sample: -sample[1])[:most]:
        entry: dict[str, Any] = {"place": place_name(line), "us": 1e6 * seconds}
        if line in counts:
            entry["per_step"] = counts[line]
        entries.append(entry)
    return entries
