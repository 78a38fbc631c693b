"""The iterator that a program's loop holds in the place of torch's. It gives the same batches, and changes between ways
to load them at the borders of batches.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker.watch.fix.order import Order
from stoker.watch.fix.same import RandomState, Replayed, difference, file_offsets, is_same
from stoker.watch.fix.ways import Way

CHECKED = 3  # batches that both ways load before a change is measured


class Sameness(Enum):
    """How the batches of a changed way differ from those of the way before."""

    SAME = "the same batches"
    CLOSE = "values that are rounded otherwise"
    RANDOM = "random numbers that the way before does not draw"
    OTHER = "other samples"


class Check:
    """Compares the next batches of two ways. The program gets those of the first."""

    def __init__(self, other: Way, tolerance: float, draws: bool) -> None:
        """tolerance: of values. draws: the other way draws its own random numbers: only labels can be compared."""
        self.found = Sameness.SAME
        self.error: Exception | None = None  # of the other way
        self.seconds = 0.0  # that the other way took for the newest batch
        self.other = other
        self._tolerance = tolerance
        self._draws = draws
        self._left = CHECKED

    def next(self, own: Way, index: Any) -> Any:
        """The batch as `own` loads it."""
        state, offsets = RandomState.now(), file_offsets()
        own.feed(index)
        batch = own.next()  # one after the other: they may share what the data set has open
        if own.workers == 0 and state != RandomState.now():
            self.found = Sameness.RANDOM
        if own.workers == 0 and offsets != file_offsets(offsets):
            self.error = RuntimeError("the data set reads files that its workers would share")
            self._left = 0
            return batch
        start = perf_counter()
        try:
            self.other.feed(index)
            other = self.other.next()
            self.seconds = perf_counter() - start
            self._compare(own, Replayed(index, state), batch, other)
        except Exception as error:
            self.error = error
            self._left = 0
        return batch

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def _compare(self, own: Way, again: Replayed, batch: Any, other: Any) -> None:
        found = Sameness.SAME if is_same(batch, other) else self._kind_of_difference(own, again, batch, other)
        order = list(Sameness)
        self.found = max(self.found, found, key=order.index)
        self._left = 0 if self.found == Sameness.OTHER else self._left - 1

    def _kind_of_difference(self, own: Way, again: Replayed, batch: Any, other: Any) -> Sameness:
        if self._draws:
            return Sameness.RANDOM if _same_but_values(batch, other) else Sameness.OTHER
        if self._tolerance and difference(batch, other) <= self._tolerance:
            return Sameness.CLOSE
        if not self.other.replays:
            return Sameness.OTHER
        # The program's own way never loads a batch twice: its data set may count.
        loads = [batch] if own.workers == 0 else []
        for _ in range(self.other.workers + 1):  # workers take turns: one of them loads it twice
            self.other.feed(again)
            loads.append(self.other.next())
        return Sameness.RANDOM if all(is_same(loads[0], load) for load in loads) else Sameness.OTHER


def _same_but_values(one: Any, other: Any) -> bool:
    """Whether integers such as labels are the same, and other values have the same type and shape."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and (one.is_floating_point() or is_same(one, other))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same_but_values, one, other))
    return is_same(one, other)


class SwitchIterator(_BaseDataLoaderIter):
    """failed: asked for another way when one has raised an error; None: the error is the program's."""

    def __init__(self, loader: Any, order: Order, way: Way, failed: Callable[[SwitchIterator, Exception], Way | None]) -> None:
        # Not that of the base, which draws a random number: it was drawn already.
        self.order = order
        self.way = self.base = way  # base: with which the pass begins
        self._then: Way | None = None
        self._check: Check | None = None
        self._is_over = False
        self._opens = False  # the way is to be opened with the next batch
        self.draws = False
        self._failed = failed
        self.loader = loader
        self._sampler_iter: Any = order
        here = weakref.ref(self)
        order.user = lambda: None if (switch := here()) is None or switch._is_over else switch
        self._num_yielded = 0
        self._persistent_workers = loader.persistent_workers
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = None
        self._index_sampler = loader._index_sampler
        self._profile_name = f"enumerate(DataLoader)#{type(way.inner).__name__}.__next__"

    @property
    def _num_workers(self) -> int:  # type: ignore[override]
        return self.way.workers

    def uses(self, way: Way) -> bool:
        return way is self.way or way is self._then or (self._check is not None and self._check.other is way)

    def turn_to(self, way: Way) -> None:
        """The batches after those that the present way has in work come from `way`."""
        if way is not self.way:
            self.way.close()
            self._then = way

    def open_first(self) -> None:
        """The way takes indices when the first batch is asked for, and not before."""
        self._then = self.way

    def check(self, check: Check) -> None:
        """The present way's next batches are compared. Then `turn_to` or `proceed` follows."""
        self.way.close()
        self._check = check

    def proceed(self) -> None:
        self._check = None
        self._opens = True

    def restart(self, way: Way) -> None:
        """As `turn_to`, after the present way has failed."""
        self.order.give_back(self.way.forget())
        self._then = self._check = None
        self.way = way
        way.open()

    def _next_data(self) -> Any:
        if self.way.pending == 0 and self._then is not None:
            self.way, self._then = self._then, None
            self._opens = True
        if self.way.pending == 0 and self._check is not None:
            if not self._check.is_over and (index := self.order.take_or_none()) is not None:
                return self._check.next(self.way, index)
            self.proceed()  # at the order's end, the pass ends as it does without us
        way = self.way
        try:
            if self._opens:
                self._opens = False
                way.open()
            return self._own_next() if way.workers == 0 else way.next()
        except StopIteration:
            self._is_over = True
            raise
        except Exception as error:
            instead = self._failed(self, error)
            if instead is None:
                raise
        self.restart(instead)
        return instead.next()

    def _own_next(self) -> Any:
        """In this process. Whether the data set draws random numbers is noted, also if no value shows them."""
        if self.draws or self._num_yielded == 0:  # with the first batch a sampler draws its seed
            return self.way.next()
        state = RandomState.now()
        batch = self.way.next()
        self.draws = state != RandomState.now()
        return batch

    def __getattr__(self, name: str) -> Any:
        """What programs and the watch read of torch's iterator, such as its queues."""
        if name.startswith("__") or name == "way":
            raise AttributeError(name)
        return getattr(self.way.inner, name)
