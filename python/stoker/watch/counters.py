"""Counters of this process, its loader workers and the host, read from /proc and the control group (Linux)."""

from __future__ import annotations

import functools
import os
import re
import resource
import time
from dataclasses import dataclass, field

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _named(text: str, name: str) -> int | None:
    """The number of a line `name 123` or `name: 123 kB`."""
    found = re.search(rf"^{name}[: ]\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def _group_folders(controller: str) -> list[str]:
    """The folders of this process's control group and those above it, for version 2 or a controller of version 1."""
    folders = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = "/sys/fs/cgroup" + (f"/{controller}" if names else "")
        parts = [part for part in path.split("/") if part and part != ".."]
        for count in range(len(parts), -1, -1):
            folder = "/".join([root, *parts[:count]])
            if os.path.isdir(folder):
                folders.append(folder)
    return folders


def allowed_cores() -> float:
    """Cores that the process may use: its affinity and the container's quota."""
    cores = float(len(os.sched_getaffinity(0)))
    for folder in _group_folders("cpu"):
        quota, *period = _read(f"{folder}/cpu.max").split() or ["max"]
        if not period:
            quota = _read(f"{folder}/cpu.cfs_quota_us").strip() or "max"
            period = _read(f"{folder}/cpu.cfs_period_us").split()
        if quota.isdigit() and period and int(period[0]) > 0:
            cores = min(cores, int(quota) / int(period[0]))
    return cores


def allowed_memory() -> int | None:
    """Bytes that the process may use."""
    total = _named(_read("/proc/meminfo"), "MemTotal")
    limits = [] if total is None else [1024 * total]
    for folder in _group_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(f"{folder}/{name}").strip()
            if text.isdigit():
                limits.append(int(text))
    return min(limits, default=None)


@functools.cache
def processor_name() -> str:
    """As /proc/cpuinfo names it; empty where it does not."""
    found = re.search(r"^model name\s*:\s*(.*)", _read("/proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


def private_bytes() -> int:
    """Memory that this process shares with no other and that no file holds; 0 where the kernel does not tell."""
    return 1024 * (_named(_read("/proc/self/smaps_rollup"), "Private_Dirty") or 0)


@dataclass
class Counters:
    """One reading. What could not be read is None."""

    time: float = field(default_factory=time.perf_counter)
    user: float = 0.0  # seconds of CPU time of this process, and of workers where they have ended
    system: float = 0.0
    rss: int | None = None  # bytes of this process and its workers, without mapped files
    read_bytes: int | None = None
    major_faults: int = 0
    cores: list[int] | None = None  # ticks of the cores that the process may use: busy, idle, iowait, steal
    periods: int | None = None  # of the container's quota
    throttled: int | None = None
    swapped_in: int | None = None  # pages


class CounterReader:
    """Reads all counters in about a quarter of a millisecond."""

    def __init__(self) -> None:
        self._affinity = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        self._stat = next((f for f in _group_folders("cpu") if os.path.exists(f"{f}/cpu.stat")), None)

    def read(self, workers: list[int], private: int) -> Counters:
        """workers: process ids. private: bytes that these have for themselves."""
        now = Counters()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        now.user, now.system = usage.ru_utime + ended.ru_utime, usage.ru_stime + ended.ru_stime
        now.major_faults = usage.ru_majflt
        resident = self._resident()
        now.rss = None if resident is None else resident + private
        for pid in workers:
            self._add_worker(now, pid)
        now.read_bytes = _named(_read("/proc/self/io"), "read_bytes")
        now.cores = self._core_ticks()
        if self._stat is not None:
            text = _read(f"{self._stat}/cpu.stat")
            now.periods, now.throttled = _named(text, "nr_periods"), _named(text, "nr_throttled")
        now.swapped_in = _named(_read("/proc/vmstat"), "pswpin")
        return now

    def _resident(self) -> int | None:
        words = _read("/proc/self/statm").split()
        return _PAGE * (int(words[1]) - int(words[2])) if len(words) > 2 else None

    def _add_worker(self, now: Counters, pid: int) -> None:
        words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # from the third field on
        if len(words) > 12 and words[1] == str(os.getpid()):
            now.user += int(words[11]) / _TICK
            now.system += int(words[12]) / _TICK

    def _core_ticks(self) -> list[int] | None:
        sums = [0, 0, 0, 0]
        found = False
        for line in _read("/proc/stat").splitlines():
            name, *numbers = line.split()
            if not name.startswith("cpu"):
                break
            if name in self._affinity and len(numbers) >= 8:
                user, nice, system, idle, iowait, irq, softirq, steal = map(int, numbers[:8])
                for i, ticks in enumerate((user + nice + system + irq + softirq, idle, iowait, steal)):
                    sums[i] += ticks
                found = True
        return sums if found else None


def differences(before: Counters, after: Counters) -> dict[str, float]:
    """The counters of an interval, as docs/records.md names them. Shares need some ticks of 10 ms."""
    out: dict[str, float] = {
        "user_seconds": max(0.0, after.user - before.user),
        "system_seconds": max(0.0, after.system - before.system),
        "major_faults": after.major_faults - before.major_faults,
    }
    if after.rss is not None:
        out["rss_bytes"] = after.rss
    if before.read_bytes is not None and after.read_bytes is not None:
        out["read_bytes"] = after.read_bytes - before.read_bytes
    if before.cores is not None and after.cores is not None:
        busy, idle, iowait, steal = (new - old for new, old in zip(after.cores, before.cores))
        total = busy + idle + iowait + steal
        if total > 0:
            out |= {"busy_share": busy / total, "iowait_share": iowait / total, "steal_share": steal / total}
    if None not in (before.periods, after.periods, before.throttled, after.throttled):
        periods = (after.periods or 0) - (before.periods or 0)
        out["throttled_share"] = ((after.throttled or 0) - (before.throttled or 0)) / periods if periods else 0.0
    seconds = after.time - before.time
    if before.swapped_in is not None and after.swapped_in is not None and seconds > 0:
        out["swap_in_bytes_per_second"] = _PAGE * (after.swapped_in - before.swapped_in) / seconds
    return out
