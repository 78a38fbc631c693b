"""What torch's threads gain in small operations, while the workers of the program and other processes run.

An operation is done when the last thread is. Where something else has the core of one, the others wait for it.
"""

from __future__ import annotations

from time import perf_counter_ns

import torch

MEASURED_STEPS = range(12, 80, 8)  # after these, so that short programs also have it
_GRAIN = 32768  # elements: torch gives a thread as many at least (at::internal::GRAIN_SIZE)
_MOST = 8  # threads
_ROUNDS = 50
_LONGEST = 30_000_000  # nanoseconds, in one step


class ThreadSpeed:
    """Compares an operation that torch gives to one thread with one of as many elements for each of several threads."""

    def __init__(self) -> None:
        self._threads = 1
        self._one = 0  # nanoseconds
        self._all = 0

    def measure(self) -> None:
        """In the training thread; takes a millisecond where cores are free."""
        if self._all == 0:
            self._threads = min(torch.get_num_threads(), _MOST)
        if self._threads == 1:
            return
        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            one = torch.zeros(_GRAIN - 1, dtype=torch.float32, device="cpu")
            all_threads = torch.zeros(_GRAIN * self._threads, dtype=torch.float32, device="cpu")
            begin = perf_counter_ns()
            for _ in range(_ROUNDS):
                start = perf_counter_ns()
                one.mul_(2)
                between = perf_counter_ns()
                all_threads.mul_(2)
                end = perf_counter_ns()
                self._one += between - start
                self._all += end - between
                if end - begin > _LONGEST:
                    break

    def speedup(self) -> float | None:
        """How many times as fast the threads are as one; None where there is one, or nothing was measured."""
        return self._threads * self._one / self._all if self._all else None
