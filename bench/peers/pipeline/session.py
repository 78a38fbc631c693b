"""One pipeline under measurement: a process of a session of its own, with all the processes it starts. Its events are
timed here, by a clock outside of it; between its rounds it is stopped, so that it takes nothing from the others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from environments import Skipped, last_line

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Round:
    seconds: float
    cpu_seconds: float


class Session:
    def __init__(self, command: list[str], patience: float = 600) -> None:
        """Starts the command and waits for its first batch; `patience` seconds for each event."""
        self.patience = patience
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True
        )
        try:
            self.bytes_on_disk = int(self.expect("open").split()[1])
            opened = time.perf_counter()
            self.expect("first")
            self.first_seconds = time.perf_counter() - opened
        except BaseException:
            self.close()
            raise
        self.pause()

    def expect(self, event: str) -> str:
        timer = threading.Timer(self.patience, self.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if line.split()[:1] != [event]:
            self.log.seek(0)
            raise Skipped(f'expected "{event}", got "{line.strip() or "its end"}": {last_line(self.log.read())}')
        return line

    def round(self, batches: int) -> Round:
        self.signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):  # it has ended: its last line comes next
            self.process.stdin.write(f"{batches}\n")
            self.process.stdin.flush()
        self.expect("begin")
        begin, cpu = time.perf_counter(), self.cpu_seconds()
        self.expect("end")
        done = Round(time.perf_counter() - begin, self.cpu_seconds() - cpu)
        self.pause()
        return done

    def peak_mb(self, batches: int) -> float:
        """Peak memory of a round that is not timed, because reading it takes a while. Shared pages count once."""
        peak, done = 0.0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while True:  # also read once if the round is short
                peak = max(peak, self.memory_mb())
                if done.wait(0.05):
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            self.round(batches)
        finally:
            done.set()
            watcher.join()
        return peak

    def pids(self) -> list[tuple[int, list[str]]]:
        """Our processes, each with the fields of its stat line from the state on."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                except OSError:  # it has ended
                    continue
                if int(fields[3]) == self.process.pid:
                    found.append((int(entry), fields))
        return found

    def cpu_seconds(self) -> float:
        """User and system time of running processes and of ended ones that were waited for."""
        return sum(sum(map(int, fields[11:15])) for _, fields in self.pids()) / TICK

    def memory_mb(self) -> float:
        """Proportional set size: a page that n processes share counts 1/n for each of them."""
        kib = 0
        for pid, _ in self.pids():
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            kib += next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
        return kib / 1024

    def signal(self, number: int) -> None:
        for pid, _ in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()
