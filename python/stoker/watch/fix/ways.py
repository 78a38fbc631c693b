"""Ways to load the batches of a program's DataLoader: its own, and changed ones, all in the program's own order."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from stoker.watch.fix.order import Gate, Order
from stoker.watch.fix.same import kept_random_state

_signals: Any = signal_handling
_SAMPLERS = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)
_TIMEOUT = 30  # seconds: a worker that hangs, forked when another thread held a lock, must not hang the program
Settings = dict[str, Any]  # keyword arguments of a DataLoader


class Way(Protocol):
    """Gives the data of batches in the order in which it took their indices."""

    inner: Any  # the iterator of torch that it drives; None of others
    workers: int
    replays: bool  # it can load a batch again from a random state

    @property
    def order(self) -> Order: ...

    @property
    def pending(self) -> int:
        """Batches whose indices it took and whose data was not asked for yet."""

    def attach(self, order: Order) -> None:
        """A new pass of the sampler. Batches of a pass that was left early are dropped. Raises what loading raises."""

    def open(self) -> None:
        """It takes indices from the order, ahead of their use."""

    def close(self) -> None:
        """It takes no more, and gives what is pending."""

    def feed(self, index: Any) -> None:
        """It takes this batch, while it is closed."""

    def next(self) -> Any:
        """Raises StopIteration at the end of the order, and the errors of the program's data set."""

    def forget(self) -> list[Any]:
        """Drops what is pending, and returns its indices."""

    def stop(self) -> None:
        """Ends its workers."""


class TorchWay:
    """An iterator of torch, whose sampler is replaced by a gate."""

    replays = True

    def __init__(self, inner: Any, order: Order, is_open: bool, again: Callable[[Gate], Any] | None = None) -> None:
        """again: makes the iterator for a further pass; None: it lasts for one pass, or torch resets it."""
        self._again = again
        self._hold(inner, Gate(order, is_open))
        if is_open:  # it has begun with the sampler itself
            self._gate.given.extend([None] * self.pending)

    def _hold(self, inner: Any, gate: Gate) -> None:
        self.inner = inner
        self.workers = int(inner._num_workers)
        self._gate = gate
        inner._sampler_iter = gate

    @property
    def order(self) -> Order:
        return self._gate.order

    @property
    def pending(self) -> int:
        if self.workers == 0:
            return len(self._gate.wanted)
        return int(self.inner._send_idx - self.inner._rcvd_idx)

    def attach(self, order: Order) -> None:
        """Workers are begun anew, unless the program's stay: it may have changed its data set between passes."""
        self.close()
        gate = Gate(order)
        inner = self.inner
        if self._again is not None:
            self.stop()
            inner = self._again(gate)
        while self._again is None and (pending := self.pending) > 0:
            try:
                self.next()
            except Exception:  # of the program's data set, for a batch that nobody wants
                if self.pending == pending:
                    raise
        self._hold(inner, gate)

    def open(self) -> None:
        self._gate.is_open = True
        self._take()

    def close(self) -> None:
        self._gate.is_open = False

    def feed(self, index: Any) -> None:
        self._gate.wanted.append(index)
        self._take()

    def _take(self) -> None:
        """Workers get as many batches as they may have."""
        inner = self.inner
        while self.workers > 0 and inner._tasks_outstanding < inner._prefetch_factor * self.workers:
            sent = inner._send_idx
            inner._try_put_index()
            if inner._send_idx == sent:
                return

    def next(self) -> Any:
        gate = self._gate
        data = self.inner._next_data()
        if gate.given:
            gate.given.popleft()
        return data

    def forget(self) -> list[Any]:
        self.close()
        lost = list(self._gate.given)
        self._gate.wanted.clear()
        self._gate.given.clear()
        return lost

    def stop(self) -> None:
        if self.workers > 0:
            self.inner._shutdown_workers()
            self.inner._rcvd_idx = self.inner._send_idx  # nothing is pending any more


def changed_way(loader: Any, settings: Settings, order: Order) -> TorchWay:
    """The loader with other settings. Draws no random numbers, of a loader without a generator."""
    again = functools.partial(_changed_iterator, weakref.ref(loader), settings)
    return TorchWay(again(Gate(order)), order, False, None if loader.persistent_workers else again)


def _changed_iterator(made: weakref.ref[Any], settings: Settings, gate: Gate) -> Any:
    loader = made()
    if loader is None:
        raise RuntimeError("the program has dropped its loader")
    shadow = copy.copy(loader)
    batched = loader.batch_sampler is not None
    changes: Settings = {"prefetch_factor": loader.prefetch_factor or 2, **settings}
    workers = changes.get("num_workers", loader.num_workers) > 0
    if workers:
        changes["timeout"] = loader.timeout or _TIMEOUT
    shadow.__dict__.update(changes, _iterator=None, **{"batch_sampler" if batched else "sampler": gate})
    with kept_random_state(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has said it of the program's own
        inner: Any = (_MultiProcessingDataLoaderIter if workers else _SingleProcessDataLoaderIter)(shadow)
    if workers:  # one that dies is an error of this iterator, not one that a signal raises anywhere in the program
        _signals._remove_worker_pids(id(inner))
        inner._worker_pids_set = False
    return inner


def why_not_ahead(loader: Any) -> str:
    """Why indices cannot be taken ahead of the program's own time; empty if they can."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if type(sampler) not in _SAMPLERS:
        return "the program has a sampler that torch does not know"
    if loader.generator is not None or getattr(sampler, "generator", None) is not None:
        return "the program may use its generator meanwhile"
    return ""


def settings_of(loader: Any) -> Settings:
    names = ("num_workers", "prefetch_factor", "persistent_workers")
    return {name: getattr(loader, name) for name in names if getattr(loader, name) is not None}


def is_changeable(loader: Any, inner: Any) -> bool:
    """Streams divide themselves among workers, and batches out of order have no order to keep."""
    from torch.utils.data import MapDataPipe

    known = type(inner) in (_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter)
    return (
        isinstance(loader, DataLoader)
        and type(loader)._get_iterator is DataLoader._get_iterator  # not stoker.DataLoader
        and known
        and inner._dataset_kind == _DatasetKind.Map
        and getattr(loader, "in_order", True)
        and not isinstance(loader.dataset, MapDataPipe)
    )
