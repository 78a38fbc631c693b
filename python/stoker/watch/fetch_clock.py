"""Clocks of loading: what fetching batches took, in worker processes and, without them, in the training thread.

A worker writes its sums into a file of its own, which the watched process reads at the end of each interval.
"""

from __future__ import annotations

import functools
import mmap
import os
import sys
import time
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any

import torch

from stoker.watch.counters import private_bytes
from stoker.watch.fix.same import Replayed
from stoker.watch.patches import Patches

# All but counts are nanoseconds, summed over
# batches of `samples`: `fetch` is the wall time of whole batches, `core` CPU time of the thread, `queued` the time in
# which it was ready to run and had no core, `decode` the wall time of image decoders, `idle` the time in which a
# worker had nothing to do. `pillow` and `torchvision` are counts of the images that each has decoded. The last two
# are no sums: a position in CODECS, and the bytes that a worker has for itself.
FIELDS = ("samples", "fetch", "core", "queued", "decode", "idle", "pillow", "torchvision", "codec", "private")
SAMPLES, FETCH, CORE, QUEUED, DECODE, IDLE, PILLOW, TORCHVISION, CODEC, PRIVATE = range(len(FIELDS))
CODECS = ("", "jpeg", "png", "webp", "bmp", "gif", "tiff", "other")

_SIZE = 8 * len(FIELDS)
Sums = list[int]


class QueuedTime:
    """Nanoseconds in which a thread was ready to run and had no core; 0 where the kernel does not count.

    thread: its folder in /proc; by default that of the calling thread.
    """

    def __init__(self, thread: str = "thread-self") -> None:
        try:
            self._file = os.open(f"/proc/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def read(self) -> int:
        if self._file < 0:
            return 0
        try:
            return int(os.pread(self._file, 64, 0).split()[1])
        except (OSError, IndexError, ValueError):
            return 0

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class FetchClock:
    """Sums over the fetches of one thread. `sums` may be shared memory."""

    def __init__(self, sums: Any) -> None:
        self.sums = sums

    def fetch(self, original: Callable[[Any, Any], Any], fetcher: Any, index: Any, queued: QueuedTime) -> Any:
        """Calls `original` in a worker."""
        start, core, waited = perf_counter_ns(), thread_time_ns(), queued.read()
        try:
            return original(fetcher, index)
        finally:
            sums = self.sums
            sums[FETCH] += perf_counter_ns() - start
            sums[CORE] += thread_time_ns() - core
            sums[QUEUED] += queued.read() - waited
            sums[SAMPLES] += len(index) if isinstance(index, (list, tuple)) else 1

    def add(self, samples: int, wall: int, core: int) -> None:
        """A batch that the training thread has fetched. core: 0 where that was not measured."""
        sums = self.sums
        sums[FETCH] += wall
        sums[CORE] += core or wall
        sums[SAMPLES] += samples or 1

    def add_decode(self, nanoseconds: int, codec: str, decoder: int) -> None:
        """decoder: PILLOW or TORCHVISION."""
        self.sums[DECODE] += nanoseconds
        self.sums[decoder] += 1
        self.sums[CODEC] = CODECS.index(codec) if codec in CODECS else len(CODECS) - 1


class TimedQueue:
    """A worker's queue of tasks. Waiting for a task is idle time, but waiting for a core is not."""

    def __init__(self, queue: Any, sums: Any, queued: QueuedTime) -> None:
        self._queue = queue
        self._sums = sums
        self._queued = queued

    def get(self, *args: Any, **options: Any) -> Any:
        start = perf_counter_ns()
        queued = self._queued.read()
        try:
            return self._queue.get(*args, **options)
        finally:
            queued = self._queued.read() - queued
            self._sums[IDLE] += max(0, perf_counter_ns() - start - queued)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


class MemoryClock:
    """Writes how many bytes this worker has for itself, at most twice a second and for 0.5 % of its time.

    The kernel goes through all pages for that, 20 ms for a gigabyte. What it tells in no time counts the memory of the
    watched process again in each worker that was forked.
    """

    def __init__(self, sums: Any) -> None:
        self._sums = sums
        self._due = 0

    def look(self) -> None:
        start = perf_counter_ns()
        if start >= self._due:
            self._sums[PRIVATE] = private_bytes()
            end = perf_counter_ns()
            self._due = end + max(500_000_000, 200 * (end - start))


def watch_fetches(patches: Patches, clock: FetchClock, queued: QueuedTime) -> None:
    """Makes the loader's fetchers of this worker count into `clock`."""
    from torch.utils.data._utils import fetch

    memory = MemoryClock(clock.sums)
    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        original = kind.fetch

        def timed(self: Any, index: Any, original: Any = original) -> Any:
            if type(index) is Replayed:  # asked for by the watch itself
                return index.load(functools.partial(original, self))
            batch = clock.fetch(original, self, index, queued)
            memory.look()
            return batch

        patches.replace(kind, "fetch", functools.wraps(original)(timed))


def watch_decoders(patches: Patches, clock: FetchClock, here: Callable[[], bool]) -> None:
    """Makes the image decoders of this process count into `clock` on threads where `here()`."""
    watch_pillow(patches, clock, here)
    watch_torchvision(patches, clock, here)


def watch_pillow(patches: Patches, clock: FetchClock, here: Callable[[], bool]) -> None:
    try:
        from PIL.ImageFile import ImageFile
    except ImportError:
        return
    original = ImageFile.load

    @functools.wraps(original)
    def load(self: Any) -> Any:
        if not getattr(self, "tile", None) or not here():  # decoded already
            return original(self)
        codec = str(self.format or "").lower()
        start = perf_counter_ns()
        try:
            return original(self)
        finally:
            clock.add_decode(perf_counter_ns() - start, codec, PILLOW)

    patches.replace(ImageFile, "load", load)


class TimedOperator:
    """Stands for an operator of PyTorch that decodes an image."""

    def __init__(self, operator: Any, codec: str, clock: FetchClock, here: Callable[[], bool]) -> None:
        self._operator, self._clock, self._here = operator, clock, here
        self._codec = codec if codec in CODECS else ""  # "image" may be any

    def __call__(self, *args: Any, **options: Any) -> Any:
        if not self._here():
            return self._operator(*args, **options)
        start = perf_counter_ns()
        try:
            return self._operator(*args, **options)
        finally:
            self._clock.add_decode(perf_counter_ns() - start, self._codec, TORCHVISION)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)


def watch_torchvision(patches: Patches, clock: FetchClock, here: Callable[[], bool]) -> None:
    """Of the operators, which torchvision looks up at each call: a program may hold its functions already.

    Does nothing before torchvision is loaded, and may be called again.
    """
    if "torchvision.io.image" not in sys.modules:
        return
    operators = torch.ops.image
    for codec in ("image", "jpeg", "png", "gif", "webp"):
        name = f"decode_{codec}"
        operator = getattr(operators, name, None)  # torchvision may lack its library
        if operator is not None and not isinstance(operator, TimedOperator):
            patches.replace_operator(operators, name, TimedOperator(operator, codec, clock, here))


class WorkerTarget:
    """The target of a DataLoader's worker process: the worker loop that it had before, with a clock."""

    def __init__(self, folder: str, loop: Callable[..., None]) -> None:
        self.folder = folder
        self._loop = loop

    def __reduce__(self) -> Any:  # for spawned workers, which find PyTorch's own
        return _spawned_target, (self.folder,)

    def __call__(self, *args: Any, **options: Any) -> None:
        try:
            sums = self._open_sums()
        except OSError:  # the disk is full, or the folder is gone: the watch has ended
            return self._loop(*args, **options)
        queued = QueuedTime()
        clock = FetchClock(sums)
        watch_fetches(Patches(), clock, queued)
        watch_decoders(Patches(), clock, lambda: True)
        kind, dataset, tasks, *others = args
        self._loop(kind, dataset, TimedQueue(tasks, sums, queued), *others, **options)

    def _open_sums(self) -> memoryview:
        path = os.path.join(self.folder, f"{os.getpid()}-{time.monotonic_ns()}.clock")
        with open(path, "wb+") as file:
            os.posix_fallocate(file.fileno(), 0, _SIZE)  # a store into a hole of a full disk is a SIGBUS
            return memoryview(mmap.mmap(file.fileno(), _SIZE)).cast("q")


def _spawned_target(folder: str) -> WorkerTarget:
    from torch.utils.data._utils import worker

    return WorkerTarget(folder, worker._worker_loop)


class WorkerClocks:
    """The clocks of all workers that have begun since the start. Those of ended ones are read once more and deleted."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._ended: Sums = [0] * len(FIELDS)

    def read(self) -> tuple[Sums, list[int]]:
        """Their sums, and the process ids of those that run."""
        total = list(self._ended)
        pids = []
        for name in os.listdir(self._folder):
            if not name.endswith(".clock"):
                continue
            path, pid = os.path.join(self._folder, name), int(name.split("-")[0])
            runs = _runs(pid)  # first: counts from before its end are in the file
            with open(path, "rb") as file:
                sums = memoryview(file.read(_SIZE)).cast("q")
            _add_sums(total, sums)
            if runs:
                pids.append(pid)
                total[PRIVATE] += sums[PRIVATE] if len(sums) == len(FIELDS) else 0
            else:
                _add_sums(self._ended, sums)
                os.unlink(path)
        return total, pids


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # also where another user's process has its number now
        return False
    return True


def _add_sums(total: Sums, sums: memoryview) -> None:
    if len(sums) < len(FIELDS):  # the worker is about to begin
        return
    for field in range(CODEC):
        total[field] += sums[field]
    total[CODEC] = max(total[CODEC], sums[CODEC])


def stages_of(before: Sums, after: Sums, workers: bool, own_queued: int = 0) -> dict[str, float]:
    """`workers_us` of docs/records.md. Time without a core, unless it was waiting for one, counts as `read`.

    own_queued: without workers, the time in which the training thread waited for a core.
    """
    fetch, core, queued, decode, idle = (after[i] - before[i] for i in (FETCH, CORE, QUEUED, DECODE, IDLE))
    read = max(0, fetch - core - queued - own_queued)
    pixels = decode * (fetch - read) // fetch if fetch else 0
    stages = {
        "samples": after[SAMPLES] - before[SAMPLES],
        "read": read / 1000,
        "entropy": 0.0,
        "pixels": pixels / 1000,
        "augment": max(0, fetch - read - pixels) / 1000,
        "blocked": idle / 1000 if workers else 0.0,
    }
    return {**stages, "cpu": core / 1000} if workers else stages
