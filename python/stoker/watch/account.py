"""The training thread's time by phase. The thread is in exactly one phase; a nested phase suspends the outer one."""

from __future__ import annotations

from time import perf_counter_ns

PHASES = ("wait", "copy", "forward", "backward", "optimizer", "communication", "sync", "checkpoint", "unmeasured")
# Positions in PHASES, which has the names of docs/records.md.
WAIT, COPY, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, SYNC, CHECKPOINT, UNMEASURED = range(len(PHASES))

Times = list[int]  # nanoseconds by phase


def no_time() -> Times:
    return [0] * len(PHASES)


def add_times(total: Times, times: Times) -> None:
    for phase, nanoseconds in enumerate(times):
        total[phase] += nanoseconds


def microseconds(times: Times) -> dict[str, float]:
    """As records have them: phases that took no time are left out."""
    return {name: time / 1000 for name, time in zip(PHASES, times) if time}


class Account:
    """Used by the training thread only; others may read `phase`."""

    __slots__ = ("phase", "since", "times")

    def __init__(self) -> None:
        self.phase = UNMEASURED
        self.since = perf_counter_ns()
        self.times = no_time()

    def enter(self, phase: int) -> int:
        """Switches to `phase` and returns the phase that was running."""
        now, previous = perf_counter_ns(), self.phase
        self.times[previous] += now - self.since
        self.since = now
        self.phase = phase
        return previous

    def charge(self, phase: int, nanoseconds: int) -> None:
        """Moves time that was measured within the running phase to another one."""
        self.times[phase] += nanoseconds
        self.times[self.phase] -= nanoseconds

    def running(self) -> int:
        """The running phase's time since the last `take`. Differences leave out nested phases and charges."""
        return self.times[self.phase] + perf_counter_ns() - self.since

    def take(self) -> Times:
        """The time since the last call, by phase."""
        self.enter(self.phase)
        times, self.times = self.times, no_time()
        return times
