"""Ways to load the batches of a program's DataLoader: its own, and changed ones, all in the program's own order."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from stoker.watch.fix.order import Gate, Order
from stoker.watch.fix.same import kept_random_state

_TIMEOUT = 120  # seconds: a worker that hangs, forked when another thread held a lock, must not hang the program
Settings = dict[str, Any]  # keyword arguments of a DataLoader


class Way(Protocol):
    """Gives the data of batches in the order in which it took their indices."""

    inner: Any  # the iterator of torch that it drives; None of others
    workers: int

    @property
    def order(self) -> Order: ...

    @property
    def pending(self) -> int:
        """Batches whose indices it took and whose data was not asked for yet."""

    def attach(self, order: Order) -> None:
        """A new pass of the sampler. Nothing may be pending."""

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

    def __init__(self, inner: Any, order: Order, is_open: bool) -> None:
        self.inner = inner
        self.workers = int(inner._num_workers)
        self._gate = Gate(order, is_open)
        if is_open:  # it has begun with the sampler itself
            self._gate.given.extend([None] * self.pending)
        inner._sampler_iter = self._gate

    @property
    def order(self) -> Order:
        return self._gate.order

    @property
    def pending(self) -> int:
        if self.workers == 0:
            return len(self._gate.wanted)
        return int(self.inner._send_idx - self.inner._rcvd_idx)

    def attach(self, order: Order) -> None:
        self._gate.order = order
        self._gate.given.clear()

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


def changed_way(loader: Any, settings: Settings, order: Order) -> TorchWay:
    """The loader with other settings: workers that stay from one pass to the next. Draws no random numbers."""
    shadow = copy.copy(loader)
    gate = Gate(order)
    batched = loader.batch_sampler is not None
    changes: Settings = {"prefetch_factor": loader.prefetch_factor or 2, **settings, "persistent_workers": True}
    if changes.get("num_workers", loader.num_workers) > 0:
        changes["timeout"] = loader.timeout or _TIMEOUT
    shadow.__dict__.update(changes, _iterator=None, **{"batch_sampler" if batched else "sampler": gate})
    generator = loader.generator
    state = None if generator is None else generator.get_state()
    workers = shadow.num_workers > 0
    with kept_random_state():
        inner = (_MultiProcessingDataLoaderIter if workers else _SingleProcessDataLoaderIter)(shadow)
    if generator is not None:
        generator.set_state(state)
    return TorchWay(inner, order, is_open=False)


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
