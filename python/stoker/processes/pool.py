"""Worker processes as the loader sees them: started together, given tasks, and ended, whatever happens."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, reduction
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from stoker import _stoker
from stoker.errors import Error, InvalidArgument, IoError
from stoker.processes.fetch import Bad, Job, Task, make_fetcher
from stoker.processes.interrupts import HeldInterrupts
from stoker.processes.seeding import kept_generators
from stoker.processes.transport import Lease, Leases, Slots, read, write
from stoker.processes.worker import Reply, Request, run_worker

# A worker that is inside of a sample gets this time before it is killed.
_PATIENCE_SECONDS = 1.0
# A killed one ends at once, unless the machine gives it no core, or the kernel waits for a disk.
_KILLED_SECONDS = 10.0
# Tasks of a worker that it has not answered. With more, its pipe may be full at both ends: each process would wait for
# the other to read.
_MOST_TASKS = 64
# The longest wait for a worker's answer at once. Another thread, such as one of OpenBLAS, may take a Ctrl-C; the wait
# continues then, and the interpreter acts on the signal only when it ends.
_WAIT_SECONDS = 0.5
# After this time without a batch the workers are named: one may hang.
_LONG_SECONDS = 60.0

# The loaders' ends of all pipes. A forked child closes its copies: a worker ends when the last copy is closed.
_open_ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_ends() -> None:
    for end in list(_open_ends):
        end.close()


os.register_at_fork(after_in_child=_close_ends)


@dataclass
class Result:
    value: Any = None
    bad: Sequence[Bad] = ()
    end: bool = False
    error: BaseException | None = None  # of the data set or the collate function


def raise_taken(result: Result) -> None:
    """Raises the error of a result. Frames of its traceback hold the result: with the error in it they would be a cycle,
    which keeps the workers until it is collected."""
    error, result.error = result.error, None
    assert error is not None
    try:
        raise error
    finally:
        del error


class WorkerTraceback(Exception):
    """The cause of an exception from a worker: its traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Inline:
    """workers=0: the batches are made where they are asked for."""

    def __init__(self, job: Job, to_tensor: Callable[..., Any]) -> None:
        self._fetcher = make_fetcher(job, 0)
        self._to_tensor = to_tensor
        self._slots = Slots()
        self._memories: dict[int, _stoker.SharedMemory] = {}
        self._leases = Leases()

    def submit(self, worker: int, task: Task) -> None:
        """The work is done by `result`."""

    def result(self, task: Task) -> Result:
        dropped = self._slots.free(self._leases.freed(), keep=1)
        try:
            with kept_generators():
                fetched = self._fetcher.fetch(task, lambda: None)
                structure, slot, new = write(fetched.value, self._slots, dropped)
        except Exception as error:
            return Result(error=error)
        finally:
            for number in dropped:
                del self._memories[number]
        lease = None
        if slot is not None:
            if new:
                self._memories[slot.number] = _stoker.SharedMemory(slot.fd, slot.size)
                slot.close_file()
            lease = self._leases.hold(self._memories[slot.number], slot.number)
        return Result(read(structure, lease, self._to_tensor), fetched.bad, fetched.end)

    def least_loaded(self) -> int:
        return 0

    def discard(self) -> None:
        """Nothing is done ahead."""

    def close(self) -> None:
        """There is nothing to end."""


class _Worker:
    def __init__(self, process: BaseProcess, end: Connection) -> None:
        self.process = process
        self.end = end
        self.tasks = 0  # sent and not answered
        self.memories: dict[int, _stoker.SharedMemory] = {}
        self.leases = Leases()

    def lease(self, reply: Reply) -> Lease | None:
        return None if reply.slot is None else self.leases.hold(self.memories[reply.slot], reply.slot)


class Pool:
    """Processes with a pipe to each. Any exception in the middle of an exchange leaves the pool closed.

    It has an owner before `start`: Ctrl-C may come between the call and the assignment of what it returns.
    """

    def __init__(self, job: Job, ahead: int, to_tensor: Callable[..., Any]) -> None:
        self._job = job
        self._to_tensor = to_tensor
        self._keep = 2 + ahead // job.workers
        self._process = os.getpid()
        self._done: dict[int, tuple[_Worker, Reply]] = {}
        self._generation = 0
        self._all: list[_Worker] = []
        self._method = ""

    def start(self, method: str | None) -> None:
        """Begins the processes: all of them or, with an exception, none."""
        context = multiprocessing.get_context(method)
        self._method = context.get_start_method()
        _start_helpers(context.get_start_method())
        try:
            with HeldInterrupts(blocked=True):
                for number in range(self._job.workers):
                    self._all.append(_started(context, self._job, number))
        except BaseException as error:
            self.close()
            if _cannot_be_pickled(error):
                raise InvalidArgument(
                    "[multiprocessing_context] expected a data set and a collate_fn that can be pickled for "
                    f"{context.get_start_method()}, got {' '.join(str(error).split())}; define them at the top of a "
                    'module, or use "fork"'
                ) from error
            raise

    def submit(self, worker: int, task: Task) -> None:
        to = self._all[worker]
        self._generation = task.generation
        while to.tasks >= _MOST_TASKS:
            self._receive()
        try:
            to.end.send(Request(task, to.leases.freed(), self._keep))
        except (BrokenPipeError, ConnectionError):
            raise self._death_of(to) from None
        to.tasks += 1

    def result(self, task: Task) -> Result:
        """Waits for it. Raises IoError where a worker has ended."""
        warned_at = time.monotonic() + _LONG_SECONDS
        while task.number not in self._done:
            self._receive()
            if time.monotonic() >= warned_at and task.number not in self._done:
                warned_at = float("inf")
                self._warn_of_a_long_wait()
        worker, reply = self._done.pop(task.number)
        if reply.error is not None:
            error = _unpickled(reply.error, reply.said)
            error.__cause__ = WorkerTraceback(reply.trace)
            return Result(error=error)
        return Result(read(reply.structure, worker.lease(reply), self._to_tensor), reply.bad, reply.end)

    def _warn_of_a_long_wait(self) -> None:
        busy = " and ".join(str(worker.process.pid) for worker in self._all if worker.tasks)
        forked = '. A library may hold a lock since the fork: multiprocessing_context="spawn" has no such locks'
        warnings.warn(
            f"[workers] no batch for {_LONG_SECONDS:.0f} s from worker processes {busy}; `py-spy dump --pid PID` shows "
            f"where one is{forked if self._method == 'fork' else ''}",
            UserWarning,
            stacklevel=2,
        )

    def least_loaded(self) -> int:
        return min(range(len(self._all)), key=lambda number: self._all[number].tasks)

    def discard(self) -> None:
        """The tasks that were submitted are not wanted any more. The next one has a higher generation."""
        self._generation = -1
        for worker in self._all:
            worker.tasks = 0
        for worker, reply in self._done.values():
            worker.lease(reply)  # and gives the slot back
        self._done.clear()

    def close(self) -> None:
        """Ends the processes. In a forked child they are not ours."""
        if self._process != os.getpid():
            return
        with HeldInterrupts():
            for worker in self._all:
                worker.end.close()
            _end([worker.process for worker in self._all])
            self._all = []

    def _receive(self) -> None:
        ends = {worker.end: worker for worker in self._all}
        sentinels = {worker.process.sentinel: worker for worker in self._all}
        ready = connection.wait([*ends, *sentinels], _WAIT_SECONDS)
        for end in ready:
            if isinstance(end, Connection):
                self._read(ends[end])
        for sentinel in ready:
            if isinstance(sentinel, int) and not sentinels[sentinel].end.poll():
                raise self._death_of(sentinels[sentinel])
        for worker in self._all if not ready else ():
            # A process that the worker has forked may hold its end of the pipe.
            if not worker.process.is_alive() and not worker.end.poll():
                raise self._death_of(worker)

    def _read(self, worker: _Worker) -> None:
        try:
            reply: Reply = worker.end.recv()
            if reply.slot is not None and reply.new_bytes:
                while not worker.end.poll(_WAIT_SECONDS):  # Ctrl-C ends the wait
                    pass
                with HeldInterrupts():  # nothing would close a file that Ctrl-C keeps from its owner
                    worker.memories[reply.slot] = _received_memory(worker.end, reply.new_bytes)
        except (EOFError, OSError, RuntimeError) as error:  # RuntimeError: a message without its file
            if isinstance(error, RuntimeError) or getattr(error, "errno", None) == errno.EMFILE:
                raise IoError("[shared memory] expected a free file descriptor, got none; raise ulimit -n") from None
            if isinstance(error, IoError):
                raise
            raise self._death_of(worker) from None
        for number in reply.dropped:
            del worker.memories[number]
        if reply.task.generation == self._generation:
            worker.tasks -= 1
            self._done[reply.task.number] = (worker, reply)
        else:
            worker.lease(reply)

    def _death_of(self, worker: _Worker) -> IoError:
        worker.process.join(_PATIENCE_SECONDS)
        status, pid = worker.process.exitcode, worker.process.pid
        got, hint = f"status {status}", "its message is above, unless it called sys.exit or os._exit"
        if status is not None and status < 0:
            got, hint = f"its end by {signal.Signals(-status).name}", "faulthandler.enable() in the data set shows where"
        if status == -signal.SIGKILL:
            hint = "the kernel kills what takes too much memory: lower workers, prefetch or batch_size"
        return IoError(f"[workers] expected worker process {pid} to run, got {got}; {hint}")


def _unpickled(error: bytes, said: str) -> BaseException:
    """The error of a worker, or one with its text, as where its module is found in the worker alone."""
    try:
        found: BaseException = pickle.loads(error)
        return found
    except Exception:
        return Error(said)


def _started(context: Any, job: Job, number: int) -> _Worker:
    ours, theirs = context.Pipe(duplex=True)
    _open_ends.add(ours)
    try:
        process = context.Process(target=run_worker, args=(theirs, job, number), name=f"stoker-{number}", daemon=True)
        process.start()
    except BaseException as error:
        ours.close()
        if isinstance(error, BrokenPipeError):  # it did not read its data set
            raise IoError("[workers] expected a worker process to begin, got its end; its message is above") from None
        raise
    finally:
        theirs.close()
    return _Worker(process, ours)


def _received_memory(end: Connection, size: int) -> _stoker.SharedMemory:
    fd = reduction.recv_handle(end)
    try:
        return _stoker.SharedMemory(fd, size)
    finally:
        os.close(fd)


def _start_helpers(method: str) -> None:
    """multiprocessing's own processes, which must not inherit that we block signals."""
    if method != "fork":
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()
    if method == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


def _cannot_be_pickled(error: BaseException) -> bool:
    return type(error).__name__ == "PicklingError" or (
        isinstance(error, (AttributeError, TypeError)) and "pickle" in str(error)
    )


def _end(processes: list[BaseProcess]) -> None:
    """They end when their pipes are closed; those that are inside of a sample are killed."""
    for stop in (None, "terminate", "kill"):
        until = time.monotonic() + (_KILLED_SECONDS if stop == "kill" else _PATIENCE_SECONDS)
        for process in processes:
            if stop is not None and process.is_alive():
                getattr(process, stop)()
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
        if not any(process.is_alive() for process in processes):
            break
    for process in processes:
        if not process.is_alive():
            process.close()
