"""The training thread's time by phase. The thread is in exactly one phase; a nested phase suspends the outer one."""

from __future__ import annotations

from stoker._watch import PHASES, Account

__all__ = ["PHASES", "Account", "Times", "add_times", "microseconds", "no_time"]

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
