"""The epochs of a Python data set: which batch comes next, what was bad, and the position as a state.

`Loader` uses these classes as it uses the C++ loader.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from stoker import _stoker
from stoker._arguments import one_of
from stoker.errors import InvalidArgument
from stoker.processes.collate import collate
from stoker.processes.fetch import Bad, Job, Task, bad_sample_error, is_stream
from stoker.processes.interrupts import HeldInterrupts, interrupt_soon
from stoker.processes.pool import Inline, Pool, Result, WorkerTraceback, raise_taken

# (index, key, reason, index of the replacement) of each bad sample
BadTuples = list[tuple[int, str, str, int | None]]


class Source:
    """What both kinds of data sets share: the workers, which begin with the first batch, and tasks in order."""

    def __init__(self, job: Job, method: str | None, prefetch: int, to_tensor: Callable[..., Any]) -> None:
        self.job = job
        self._method = method
        self._to_tensor = to_tensor
        self._ahead = job.workers + prefetch if job.workers else 1  # tasks in flight
        self._runner: Pool | Inline | None = None
        self._process = 0  # that the runner belongs to
        self._closed = False
        self._generation = 0
        self._numbered = 0
        self._tasks: deque[Task] = deque()  # submitted; their results are taken in this order
        self._broken = False  # in the middle of `next`, or left there by an exception: tasks and position may not fit

    def workers(self) -> int:
        return self.job.workers

    def close(self) -> None:
        """Ends the workers for good."""
        self._closed = True
        self._stop()

    def collected(self) -> None:
        """The loader is gone. Python drops what is raised meanwhile, which may be Ctrl-C: that is sent again.

        Not one that comes before the first line or after the last: workers then end by themselves, and multiprocessing
        clears them away when it starts the next process.
        """
        try:
            self.close()
        except KeyboardInterrupt:
            try:
                self.close()  # it may have come before the workers' end
            finally:
                interrupt_soon()

    def _stop(self) -> None:
        """Ends the workers. They begin again with the next batch."""
        with HeldInterrupts():
            if self._runner is not None:
                self._runner.close()
            self._runner = None
            self._tasks.clear()
            self._generation += 1
            self._broken = False

    def _discard(self) -> None:
        if self._broken:
            self._stop()
        self._tasks.clear()
        self._generation += 1
        if self._runner is not None:
            self._runner.discard()

    def _run(self) -> Pool | Inline:
        if self._closed:
            raise InvalidArgument("[loader] expected an open loader, got one that was closed")
        if self._runner is not None and self._process != os.getpid():
            raise InvalidArgument(
                "[loader] expected the process that began it, got a forked child, which has none of its workers; "
                "make the loader in the child"
            )
        self._process = os.getpid()
        if self._runner is None and self.job.workers == 0:
            self._runner = Inline(self.job, self._to_tensor)
        elif self._runner is None:
            self._runner = Pool(self.job, self._ahead, self._to_tensor)
            self._runner.start(self._method)
        return self._runner

    def _submit(self, worker: int, epoch: int, batch: int, skip: bool = False) -> None:
        task = Task(self._generation, self._numbered, epoch, batch, skip)
        self._numbered += 1
        self._run().submit(worker, task)
        self._tasks.append(task)

    def _first_result(self) -> Result:
        """The result of the first task in flight."""
        result = self._run().result(self._tasks[0])
        self._tasks.popleft()
        return result


class IndexedSource(Source):
    """A data set with an index, in the C++ loader's order."""

    def __init__(
        self, job: Job, method: str | None, prefetch: int, to_tensor: Callable[..., Any], bad_samples: str
    ) -> None:
        super().__init__(job, method, prefetch, to_tensor)
        self._order = job.order()
        self._check_ranks()
        self._bad_samples = bad_samples
        self._next = 0  # batches before the next one, over all epochs
        self._submitted = 0
        self._bad = 0  # in the epoch so far
        self._at_end = False

    def batches(self) -> int:
        return self._order.batches()

    def next(self) -> tuple[Any, BadTuples] | None:
        """The batch, or None once at the end of an epoch. A batch whose preparation failed is left out afterwards."""
        if self._at_end:
            self._at_end = False
            return None
        if self._broken:
            self._go_back()
        self._broken = True
        try:
            result = self._take()
            if self._next % self.batches() == 0:
                self._bad = 0
            taken = self._next + 1
            self._next, self._at_end = taken, taken % self.batches() == 0
            self._broken = False
        except BaseException:  # a worker has ended, or Ctrl-C. A second one may come here: then the next call goes back
            self._go_back()
            raise
        if result.error is not None:
            raise_taken(result)
        self._bad += len(result.bad)
        self._check_budget(result.bad)
        return result.value, [(bad.index, str(bad.index), bad.reason, bad.replaced_by) for bad in result.bad]

    def state(self) -> str:
        epoch, batch = divmod(self._next, self.batches())
        return self._order.state(epoch, batch, self._bad if batch else 0)

    def restore(self, state: str) -> None:
        epoch, batch, self._bad = self._order.restore(state)
        self._discard()
        self._next = self._submitted = epoch * self.batches() + batch
        self._at_end = False

    def _check_ranks(self) -> None:
        """A batch needs a sample for its form, so each rank needs one of the last batch."""
        ranks, last = self.job.world_size, self.job.size % (self.job.batch_size * self.job.world_size)
        if not self.job.drop_last and 0 < last < ranks:
            raise InvalidArgument(
                f"[batch_size] expected a sample for each of {ranks} ranks in the last batch of an epoch, got {last}; "
                "set drop_last=True, or another batch_size"
            )

    def _go_back(self) -> None:
        """To the batch that comes next, with new workers."""
        self._submitted = self._next
        self._stop()

    def _take(self) -> Result:
        while self._submitted < self._next + self._ahead:
            epoch, batch = divmod(self._submitted, self.batches())
            self._submit(self._run().least_loaded(), epoch, batch)
            self._submitted += 1
        return self._first_result()

    def _check_budget(self, found: Sequence[Bad]) -> None:
        replaced = all(bad.replaced_by is not None for bad in found)
        if not found or (self._bad <= self.job.budget and replaced):
            return
        advice = (
            "repair the data or raise bad_samples"
            if replaced
            else "no sample that was tried in its place is good: look at the data set's own code, whose traceback is above"
        )
        listed = "; ".join(f"sample {bad.index}: {bad.reason}" for bad in found[:5])
        raise bad_sample_error(
            found[0].index,
            f"[bad_samples] expected at most {self.job.budget} bad sample{'' if self.job.budget == 1 else 's'} in an epoch "
            f"(bad_samples="
            f"{self._bad_samples}), got more: {listed}{'; ...' if len(found) > 5 else ''}; {advice}",
        ) from WorkerTraceback(found[0].trace)


class StreamSource(Source):
    """An iterable. Its batches are taken in turn from the workers; each goes through its share of it."""

    def __init__(self, job: Job, method: str | None, prefetch: int, to_tensor: Callable[..., Any]) -> None:
        super().__init__(job, method, prefetch, to_tensor)
        self._epoch = 0
        self._batch = 0  # taken in the epoch
        self._begin(0)

    def batches(self) -> int:
        """Raises TypeError for a stream without `__len__`."""
        whole = self.job.batch_size * self.job.world_size
        return (len(self.job.dataset) + whole - self.job.least()) // whole

    def next(self) -> tuple[Any, BadTuples] | None:
        """The batch, or None once at the end of an epoch."""
        if self._broken:
            self._go_back()
        self._broken = True
        try:
            result = self._take()
            if result is None:
                self._epoch, self._batch = self._epoch + 1, 0
                self._begin(0)
            elif result.error is None or self._to_skip == 0:  # an error on the way to the position leaves it
                self._batch += 1
            self._broken = False
        except BaseException:
            self._go_back()
            raise
        if result is None:
            return None
        if result.error is not None:
            raise_taken(result)
        return result.value, []

    def state(self) -> str:
        return json.dumps({"epoch": self._epoch, "batch": self._batch, **self._settings()})

    def restore(self, state: str) -> None:
        given = json.loads(state)
        for name, own in self._settings().items():
            if given.get(name) != own:
                raise InvalidArgument(f"[loader state] expected {name} {given.get(name)}, as when it was saved, got {own}")
        epoch, batch = given.get("epoch"), given.get("batch")
        if not all(isinstance(number, int) and number >= 0 for number in (epoch, batch)):
            raise InvalidArgument(f"[loader state] expected an epoch and a batch, got {epoch} and {batch}")
        self._discard()
        self._epoch, self._batch = epoch, batch
        self._begin(batch)

    def _settings(self) -> dict[str, Any]:
        """The settings that the batches depend on."""
        job = self.job
        return {
            "order": "stream",
            "batch_size": job.batch_size * job.world_size,
            "seed": str(job.seed),
            "drop_last": job.drop_last,
            "workers": job.workers,
        }

    def _go_back(self) -> None:
        """To the batch that comes next, with new workers."""
        self._begin(self._batch)
        self._stop()

    def _begin(self, skipped: int) -> None:
        """At the start of an epoch, whose first `skipped` batches were taken before."""
        self._turns: deque[int] = deque(range(max(self.job.workers, 1)))  # workers that may have more, in their order
        self._given = [0] * len(self._turns)  # tasks to each
        self._owners: deque[int] = deque()  # of the tasks in flight
        self._to_skip = skipped
        self._to_send_as_skipped = skipped

    def _take(self) -> Result | None:
        """The result of the next batch; None at the end of the epoch."""
        while True:
            while self._turns and len(self._tasks) < self._ahead:
                self._submit_next()
            if not self._tasks:
                return None
            result = self._first_result()
            worker = self._owners.popleft()
            if result.end:
                if worker in self._turns:
                    self._turns.remove(worker)
            elif self._to_skip > 0 and result.error is None:
                self._to_skip -= 1
            else:
                return result

    def _submit_next(self) -> None:
        """To the worker whose turn it is. It may turn out to be behind the end, so no later one is skipped for it."""
        worker = self._turns[0]
        self._submit(worker, self._epoch, self._given[worker], skip=self._to_send_as_skipped > 0)
        self._to_send_as_skipped = max(self._to_send_as_skipped - 1, 0)
        self._turns.rotate(-1)
        self._given[worker] += 1
        self._owners.append(worker)


def make_source(dataset: Any, given: dict[str, Any], to_tensor: Callable[..., Any]) -> IndexedSource | StreamSource:
    """From the arguments of stoker.Loader. Raises InvalidArgument for impossible ones."""
    stream = is_stream(dataset)
    rank, world_size = given["rank"], given["world_size"]
    if rank >= world_size:
        raise InvalidArgument(f"[rank] expected a rank from 0 to {world_size - 1}, got {rank}")
    size = 0 if stream else len(dataset)
    budget = _stoker.bad_sample_budget(given, size)  # checks all settings
    workers = given["workers"]
    if workers == "auto":
        workers = 1 if stream else _stoker.auto_workers()
    method = one_of("multiprocessing_context", given["multiprocessing_context"], (None, "fork", "spawn", "forkserver"))
    job = Job(
        dataset=dataset,
        collate=given["collate_fn"] or collate,
        seed=given["seed"],
        shuffle=bool(given["shuffle"]),
        batch_size=int(given["batch_size"]),
        drop_last=bool(given["drop_last"]),
        rank=rank,
        world_size=world_size,
        budget=budget,
        workers=int(workers),
        size=size,
    )
    prefetch = int(given["prefetch"])
    if stream:
        return StreamSource(job, method, prefetch, to_tensor)
    return IndexedSource(job, method, prefetch, to_tensor, str(given["bad_samples"]))
