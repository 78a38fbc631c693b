"""Writes the records of docs/records.md: facts, steps, intervals and evaluations of one rank, as lines of JSON."""

from __future__ import annotations

import json
import os
from time import perf_counter_ns
from typing import Any

from stoker.watch import fetch_clock
from stoker.watch.account import WAIT, Times, add_times, microseconds, no_time
from stoker.watch.counters import CounterReader, Counters, differences
from stoker.watch.gpu_backlog import GpuBacklog
from stoker.watch.gpu_clocks import GpuClocks
from stoker.watch.lines import LineCounter, LineSampler, line_entries
from stoker.watch.step_rows import StepRows

SCHEMA = 1
_INTERVAL = 500_000_000  # nanoseconds
_SHORT = 250_000_000  # an evaluation ends an interval of this length


class RecordWriter:
    """The lines of one rank. The file is complete after `close`; until then it lacks the current interval."""

    def __init__(
        self,
        path: str,
        rank: int,
        thread: int,  # that is watched, as the system numbers it
        clocks: fetch_clock.WorkerClocks,
        own_clock: fetch_clock.FetchClock,
        lines: LineSampler,
    ) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._rank = rank
        self._clocks = clocks
        self._own_clock = own_clock
        self._sampler = lines
        self.counter = LineCounter()
        self.rows = StepRows()  # steps that are not in _lines yet
        self.rows.due = self._end_with_step
        self.evaluations = 0
        self.gpu: GpuClocks | None = None
        self.backlog: GpuBacklog | None = None
        self.syncs: dict[str, list[int]] = {}  # place -> count, nanoseconds
        self.loader_starts = 0  # nanoseconds in which workers were started and stopped
        self._lines: list[str] = []
        self._times = no_time()  # of the interval's steps
        self._total = no_time()
        self._first = 1
        self._reader = CounterReader()
        self._queued_time = fetch_clock.QueuedTime(f"self/task/{thread}")
        self.begin()

    def begin(self) -> None:
        """The first interval begins now; time before it belongs to no step."""
        workers, pids = self._clocks.read()
        self._open_interval(workers, self._reader.read(pids, workers[fetch_clock.PRIVATE]))

    @property
    def steps(self) -> int:
        return self.rows.steps

    @property
    def paused(self) -> bool:
        return self.rows.paused

    def pause(self) -> None:
        """Until `resume`, steps and evaluations are counted and not written: a profiler slows them."""
        self._close_interval()
        self.rows.paused = True

    def resume(self) -> None:
        self.rows.paused = False
        self.begin()

    def restart(self) -> None:
        """Forgets all records: the program runs otherwise from now on."""
        self.rows.take_lines(self._rank)
        self._lines.clear()
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        self._total = no_time()
        self.begin()

    def _format_steps(self) -> None:
        lines, times = self.rows.take_lines(self._rank)
        self._lines.append(lines)
        add_times(self._times, times)
        add_times(self._total, times)

    def wait_share(self) -> float:
        """The share of the wait in the time of all steps."""
        self._format_steps()
        return self._total[WAIT] / max(1, sum(self._total))

    def evaluation_begins(self) -> None:
        if not self.paused and perf_counter_ns() - self._began >= _SHORT:
            self._close_interval()

    def evaluation(self, times: Times, samples: int) -> None:
        self.evaluations += 1
        if self.paused:
            return
        head = {"type": "evaluation", "schema": SCHEMA, "rank": self._rank, "step": self.steps}
        self._write({**head, "samples": samples, "us": microseconds(times)})
        if self._first == self.steps + 1:
            self.begin()

    def functions(self, record: dict[str, Any]) -> None:
        self._write({"type": "functions", "schema": SCHEMA, "step": self.steps, "rank": self._rank, **record})

    def facts(self, facts: dict[str, Any]) -> None:
        head = {"type": "facts", "schema": SCHEMA, "step": self.steps, "writer": "torch", "rank": self._rank}
        self._write({**head, **facts})

    def close(self) -> None:
        try:
            self._close_interval()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes the file without what is not in it yet. May be called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._queued_time.close()

    def _write(self, record: dict[str, Any]) -> None:
        self._format_steps()
        self._lines.append(json.dumps(record) + "\n")

    def _open_interval(self, workers: fetch_clock.Sums, counters: Counters) -> None:
        self._began = perf_counter_ns()
        self.rows.until = self._began + _INTERVAL
        self._workers = workers
        self._own = list(self._own_clock.sums)
        self._queued = self._queued_time.read()
        self._counters = counters
        self.syncs = {}
        self.loader_starts = 0
        self._sampler.take()
        self._times = no_time()
        self._first = self.steps + 1

    def _end_with_step(self) -> None:
        """The interval is long enough, and its last step has just been made."""
        if self.backlog is not None and not self.paused:
            self.backlog.begin()
        self._close_interval()

    def _look_at_gpu(self) -> None:
        if self.backlog is not None:
            self.backlog.look()

    def _close_interval(self) -> None:
        if self.steps >= self._first and not self.paused:
            workers, pids = self._clocks.read()
            self._look_at_gpu()
            counters = self._reader.read(pids, workers[fetch_clock.PRIVATE])
            self._look_at_gpu()
            self._format_steps()
            self._look_at_gpu()
            self._write(self._interval(workers, counters))
            self._open_interval(workers, counters)
        data = "".join(self._lines).encode()
        self._lines.clear()
        while data:
            data = data[os.write(self._file, data) :]

    def _interval(self, workers: fetch_clock.Sums, counters: Counters) -> dict[str, Any]:
        record: dict[str, Any] = {
            "type": "interval",
            "schema": SCHEMA,
            "step": self.steps,
            "rank": self._rank,
            "first_step": self._first,
            "last_step": self.steps,
            "seconds": counters.time - self._counters.time,
            "us": microseconds(self._times),
        }
        queued = self._queued_time.read() - self._queued
        own = self._own_clock.sums
        if workers[fetch_clock.SAMPLES] > self._workers[fetch_clock.SAMPLES]:
            record["workers_us"] = fetch_clock.stages_of(self._workers, workers, workers=True)
        elif own[fetch_clock.SAMPLES] > self._own[fetch_clock.SAMPLES]:
            record["workers_us"] = fetch_clock.stages_of(self._own, own, workers=False, own_queued=queued)
        if self.syncs:
            places = sorted(self.syncs.items(), key=lambda place: -place[1][1])
            record["syncs"] = [{"place": name, "count": count, "us": time / 1000} for name, (count, time) in places]
        if self.loader_starts:
            record["start_us"] = self.loader_starts / 1000
        if queued:
            record["core_wait_us"] = queued / 1000
        lines = line_entries(self._sampler.take(), self.counter.counts)
        if lines:
            record["lines"] = lines
        gpu = self.backlog.take() if self.backlog is not None else {}
        gpu |= self.gpu.read() if self.gpu is not None else {}
        return {**record, **differences(self._counters, counters), **gpu}
