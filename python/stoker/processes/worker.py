"""What runs in a worker process: takes tasks from a pipe, makes the batches, and sends where they lie."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from multiprocessing import reduction
from multiprocessing.connection import Connection

from stoker import _stoker
from stoker.processes.fetch import Bad, Job, Task, make_fetcher, said
from stoker.processes.transport import Slot, Slots, write

# How long a new position of the loader may wait for a worker that is inside of a batch.
_POLL_SECONDS = 0.05


@dataclass
class Request:
    """From the loader: a task, and the slots of batches that are gone."""

    task: Task
    freed: list[int]
    keep: int  # slots that stay when they are free


@dataclass
class Reply:
    """The result of a task. The file of a new slot follows in a separate message."""

    task: Task
    structure: bytes = b""
    slot: int | None = None
    new_bytes: int = 0  # of a new slot
    dropped: list[int] = field(default_factory=list)  # slots that have ended
    bad: list[Bad] = field(default_factory=list)
    end: bool = False
    error: bytes | None = None  # pickled: this process may not know its class
    said: str = ""  # its class and text
    trace: str = ""


class _Outdated(BaseException):
    """The loader has another position: this batch is not wanted any more. No error of the data set catches it."""


def run_worker(connection: Connection, job: Job, worker: int) -> None:
    """The main function of the process. Ends with the loader or its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the loader ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    _stoker.exit_after_hangup(connection.fileno())  # also inside of a sample
    try:
        _Worker(connection, job, worker).run()
    except (EOFError, ConnectionError):
        pass  # the loader was closed, or its process has ended


class _Worker:
    def __init__(self, connection: Connection, job: Job, worker: int) -> None:
        self._connection = connection
        self._fetcher = make_fetcher(job, worker)
        self._slots = Slots()
        self._tasks: deque[Task] = deque()
        self._dropped: list[int] = []
        self._generation = 0
        self._polled = 0.0

    def run(self) -> None:
        while True:
            while not self._tasks or self._connection.poll():
                self._take_request()
            task = self._tasks.popleft()
            try:
                self._send(*self._result(task))
            except _Outdated:
                continue

    def _take_request(self) -> None:
        request: Request = self._connection.recv()
        if request.task.generation > self._generation:
            self._generation = request.task.generation
            self._tasks.clear()
        self._tasks.append(request.task)
        self._dropped += self._slots.free(request.freed, request.keep)

    def _between_samples(self) -> None:
        now = time.monotonic()
        if now < self._polled + _POLL_SECONDS:
            return
        self._polled = now
        generation = self._generation
        while self._connection.poll():
            self._take_request()
        if self._generation != generation:
            raise _Outdated

    def _result(self, task: Task) -> tuple[Reply, Slot | None]:
        """The reply, and its slot where that is new."""
        try:
            fetched = self._fetcher.fetch(task, self._between_samples)
            structure, slot, new = write(fetched.value, self._slots, self._dropped)
        except Exception as error:
            return Reply(task, error=_pickled(error), said=said(error), trace=traceback.format_exc()), None
        reply = Reply(task, structure, bad=fetched.bad, end=fetched.end)
        if slot is not None:
            reply.slot, reply.new_bytes = slot.number, slot.size if new else 0
        return reply, slot if new else None

    def _send(self, reply: Reply, new: Slot | None) -> None:
        reply.dropped, self._dropped = self._dropped, []
        self._connection.send(reply)
        if new is not None:
            reduction.send_handle(self._connection, new.fd, os.getppid())
            new.close_file()


def _pickled(error: BaseException) -> bytes:
    """Nothing where it would not be the same after."""
    try:
        pickled = pickle.dumps(error)
        return pickled if type(pickle.loads(pickled)) is type(error) else b""
    except Exception:
        return b""
