"""Makes one batch from the data set, in a worker process or in the caller's: samples in order, seeds, bad samples."""

from __future__ import annotations

import contextlib
import errno
import itertools
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from stoker import _stoker
from stoker.errors import InvalidArgument, IoError, TooManyBadSamples
from stoker.processes.opened import OpenedSamples
from stoker.processes.seeding import loaded_generators, seed_generators, seedable

# A generator's stream for work other than samples: the collate function.
_BATCHES = 0xFFFF
_WORKERS = 0xFFFE

# Another sample would also meet these, so they end the run, as in the C++ loader.
_SYSTEM_FAILURES = frozenset(
    (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.ESTALE, errno.ENODEV)
)


@dataclass(frozen=True)
class Job:
    """The settings that a worker needs to make any batch."""

    dataset: Any
    collate: Callable[[list[Any]], Any]
    seed: int
    shuffle: bool
    batch_size: int  # of one rank
    drop_last: bool
    rank: int
    world_size: int
    budget: int  # bad samples in an epoch
    workers: int
    size: int  # samples when the loader was made; of a stream 0

    def least(self) -> int:
        """Samples of a stream's last batch, over all ranks: each has one at least."""
        return self.batch_size * self.world_size if self.drop_last else self.world_size

    def order(self) -> _stoker.Order:
        whole = self.batch_size * self.world_size
        return _stoker.Order(self.size, self.seed, self.shuffle, whole, self.drop_last, self.rank, self.world_size)


class Task(NamedTuple):
    generation: int  # tasks of an older one are not wanted any more
    number: int
    epoch: int
    batch: int  # of the epoch; of a stream: of this worker in the epoch
    skip: bool = False  # of a stream: read it, but do not make the batch


@dataclass(frozen=True)
class Bad:
    """A bad sample of a batch and its replacement."""

    index: int
    reason: str
    replaced_by: int | None
    trace: str


@dataclass
class Fetched:
    value: Any = None
    bad: list[Bad] = field(default_factory=list)
    end: bool = False  # the stream has no more batches in this epoch


class Indexed:
    """Batches of a data set with `__getitem__` and `__len__`, in the C++ loader's order."""

    def __init__(self, job: Job, worker: int) -> None:
        self._job = job
        self._order = job.order()
        self._share = _Share(worker, job.workers, job.seed, job.dataset) if job.workers else None
        self._epoch: int | None = None  # that the data set was told
        self._seedable = seedable(job.dataset)
        self._most = _stoker.most_substitutes(job.budget)

    def fetch(self, task: Task, between: Callable[[], None]) -> Fetched:
        """`between` is called before each sample."""
        with _as_worker(self._share):
            samples, bad = self._samples(task, between)
        seed_generators(_batch_seed(self._job, task.epoch, task.batch))
        complete = bool(samples) and not any(one.replaced_by is None for one in bad)
        return Fetched(self._job.collate(samples) if complete else None, bad)

    def _samples(self, task: Task, between: Callable[[], None]) -> tuple[list[Any], list[Bad]]:
        if self._epoch != task.epoch and self._share is not None:
            self._share.begin(task.epoch)
        if self._epoch != task.epoch and hasattr(self._job.dataset, "set_epoch"):
            self._job.dataset.set_epoch(task.epoch)
        self._epoch = task.epoch
        samples: list[Any] = []
        bad: list[Bad] = []
        for item, (index, occurrence) in enumerate(self._order.draw(task.epoch, task.batch)):
            between()
            draw = _Draw(self._job.seed, task.epoch, index, occurrence)
            reason = self._try(index, draw, samples)
            used: int | None = index
            attempt = 0
            while used is not None and len(samples) == item:
                none_left = attempt == self._most
                used = None if none_left else self._order.substitute(task.epoch, task.batch, item, attempt)
                attempt += 1
                if used is not None:
                    between()
                    self._try(used, draw, samples)
            if reason is not None:
                bad.append(replace(reason, replaced_by=used))
            if used is None:
                break  # no sample is good
        return samples, bad

    def _try(self, index: int, draw: _Draw, samples: list[Any]) -> Bad | None:
        """Appends the sample, or returns why it is bad, without its replacement.

        No sample is known to be bad: with other random numbers it may be good, and other workers would not know it.
        """
        try:
            samples.append(draw.read(self._job.dataset, index, self._seedable))
            return None
        except Exception as error:
            if _ends_the_run(error):
                raise
            bad = Bad(index, said(error), None, traceback.format_exc())
            if self._job.budget == 0:
                raise bad_sample_error(
                    index,
                    f"[sample {index}] expected a sample that can be read, got {bad.reason}; "
                    "bad_samples=10 replaces up to ten in an epoch",
                ) from error
            return bad


class _Draw(NamedTuple):
    """A sample that the order has chosen. What replaces it has its random numbers."""

    seed: int
    epoch: int
    sample: int
    occurrence: int

    def read(self, dataset: Any, index: int, objects: list[Any]) -> Any:
        loaded = loaded_generators()
        seed_generators(_stoker.sample_seed(*self), objects)
        sample = dataset.read(index, *self) if isinstance(dataset, OpenedSamples) else dataset[index]
        return sample if loaded_generators() == loaded else self.read(dataset, index, objects)  # it imported one, not seeded


class Stream:
    """Batches of an iterable; each worker iterates over it separately."""

    def __init__(self, job: Job, worker: int) -> None:
        self._job = job
        self._worker = worker
        self._at: tuple[int, int] | None = None  # (generation, epoch) of the iterator
        self._iterator: Iterator[Any] = iter(())
        self._read = 0
        self._error: BaseException | None = None
        self._share = _Share(worker, job.workers, job.seed, job.dataset)
        self._seedable = seedable(job.dataset)

    def fetch(self, task: Task, between: Callable[[], None]) -> Fetched:
        if self._at != (task.generation, task.epoch):
            self._begin(task)
        if self._error is not None:
            raise self._error
        whole = self._job.batch_size * self._job.world_size
        try:
            with _as_worker(self._share if self._job.workers else None):
                samples = list(itertools.islice(self._samples(task.epoch, between), whole))
        except Exception as error:
            self._error = error  # an iterator may only look as if it had ended
            raise
        self._check_share()
        count = len(samples)
        if count < self._job.least():
            return Fetched(end=True)
        if task.skip:
            return Fetched()
        begin, end = (count * rank // self._job.world_size for rank in (self._job.rank, self._job.rank + 1))
        batch = task.batch * max(self._job.workers, 1) + self._worker
        seed_generators(_batch_seed(self._job, task.epoch, batch))
        return Fetched(self._job.collate(samples[begin:end]))

    def _begin(self, task: Task) -> None:
        self._at, self._read, self._error = (task.generation, task.epoch), 0, None
        self._share.begin(task.epoch)
        with _as_worker(self._share if self._job.workers else None):
            if hasattr(self._job.dataset, "set_epoch"):
                self._job.dataset.set_epoch(task.epoch)
            self._seed(task.epoch)
            self._iterator = iter(self._job.dataset)

    def _samples(self, epoch: int, between: Callable[[], None]) -> Iterator[Any]:
        while True:
            between()
            self._seed(epoch)
            try:
                sample = next(self._iterator)
            except StopIteration:
                self._iterator = iter(())  # the program's may begin again when it is asked once more
                return
            self._read += 1
            yield sample

    def _seed(self, epoch: int) -> None:
        seed_generators(_stoker.sample_seed(self._job.seed, epoch, self._read, self._worker), self._seedable)

    def _check_share(self) -> None:
        if self._job.workers > 1 and not self._share.asked:
            raise InvalidArgument(
                f"[workers] expected a stream that divides itself among {self._job.workers} workers by "
                "torch.utils.data.get_worker_info(), got one that did not ask for it, so each worker would give all of "
                "it; workers=1 reads it once"
            )


class _Share:
    """What torch.utils.data.get_worker_info() returns in a worker."""

    def __init__(self, worker: int, workers: int, seed: int, dataset: Any) -> None:
        self.asked = False
        self._id, self._num_workers = worker, workers
        self._seed = seed
        self.dataset = dataset

    def begin(self, epoch: int) -> None:
        """`seed - id` is one number on all workers, as in torch: data sets shuffle by it and then divide. It is the same
        on all ranks, and fits into a tensor."""
        self.seed = (_stoker.sample_seed(self._seed, epoch, 0, _WORKERS) >> 2) + self._id

    @property
    def id(self) -> int:
        self.asked = True
        return self._id

    @property
    def num_workers(self) -> int:
        self.asked = True
        return self._num_workers


@contextlib.contextmanager
def _as_worker(share: _Share | None) -> Iterator[None]:
    """torch's data sets see a worker meanwhile. Its default_collate would write to /dev/shm if it saw one."""
    if share is None or "torch" not in sys.modules:
        yield
        return
    import torch.utils.data._utils.worker as worker

    worker._worker_info = share  # type: ignore[assignment]
    try:
        yield
    finally:
        worker._worker_info = None


def make_fetcher(job: Job, worker: int) -> Indexed | Stream:
    return Stream(job, worker) if is_stream(job.dataset) else Indexed(job, worker)


def is_stream(dataset: Any) -> bool:
    """Iterated, not indexed. torch's IterableDataset inherits a `__getitem__` that it does not have."""
    torch = sys.modules.get("torch.utils.data")
    if torch is not None and isinstance(dataset, torch.IterableDataset):
        return True
    indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return not indexed and not isinstance(dataset, OpenedSamples)


def bad_sample_error(index: int, message: str) -> TooManyBadSamples:
    error = TooManyBadSamples(message)
    error.index, error.key = index, str(index)
    return error


def _batch_seed(job: Job, epoch: int, batch: int) -> int:
    """For the collate function; another one on each rank."""
    return _stoker.sample_seed(job.seed, epoch, batch * job.world_size + job.rank, _BATCHES)


def _ends_the_run(error: Exception) -> bool:
    """Failures of the system, and of the place where the sample is read: every sample would meet them."""
    if isinstance(error, (MemoryError, IoError)):
        return True
    if isinstance(error, OSError):
        return error.errno in _SYSTEM_FAILURES
    return type(error).__name__ == "BdbQuit" or "re-initialize CUDA in forked" in said(error)


def said(error: BaseException) -> str:
    """The class and the text of an exception, on one line."""
    name = type(error).__name__
    try:
        return f"{name}: {' '.join(str(error).split())}".rstrip(": ")
    except Exception:  # of a class whose __str__ fails
        return name
