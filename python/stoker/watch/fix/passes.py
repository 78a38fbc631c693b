"""Passes over the program's loaders: each begins with the program's own way, or with a change that was kept."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from stoker.watch.fix.changes import LoaderChange
from stoker.watch.fix.order import Order
from stoker.watch.fix.same import RandomState
from stoker.watch.fix.switch import SwitchIterator
from stoker.watch.fix.ways import TorchWay, Way, changed_way, is_changeable, settings_of
from stoker.watch.seen import PLACE, LoaderNote, attribute_of
from stoker.watch.steps import LOADER, Steps


class Target:
    """The loader that a change is of, also where the program makes it anew on the same line, over the same data."""

    def __init__(self, loader: Any) -> None:
        self._place = attribute_of(loader, PLACE) or id(loader)
        dataset = loader.dataset
        try:
            self._dataset: Callable[[], Any] = weakref.ref(dataset)
        except TypeError:  # a list
            self._dataset = lambda: dataset

    def is_of(self, loader: Any) -> bool:
        return (attribute_of(loader, PLACE) or id(loader)) == self._place and loader.dataset is self._dataset()


@dataclass
class Kept:
    """A way that later passes of a loader begin with."""

    target: Target
    loader: weakref.ref[Any]
    change: LoaderChange
    way: Way | None


class Passes:
    """Called by the hooks for each loop over a DataLoader."""

    def __init__(self, steps: Steps, taken_back: Callable[[LoaderChange, Exception], None]) -> None:
        """taken_back: told of a kept change that has failed."""
        self._steps = steps
        self._taken_back = taken_back
        self._kept: list[Kept] = []
        self._unused: list[Way] = []  # that are to be stopped
        self._broken: set[int] = set()  # ids of ways that raised an error
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()  # loaders whose first pass was a changed one

    def begin(self, loader: Any, original: Callable[[Any], Any]) -> Any:
        """What `iter(loader)` returns. original: torch's own `DataLoader.__iter__`."""
        kept = self.kept_of(loader)
        if kept is not None and (kept.way is None or is_free(kept.way)):
            state = RandomState.now()
            own = None if loader.generator is None else loader.generator.get_state()
            try:
                return self._begin_changed(loader, kept)
            except Exception as error:
                state.restore()
                if own is not None:
                    loader.generator.set_state(own)
                self._drop(kept, error)
        inner = original(loader)
        if not is_changeable(loader, inner):
            return inner
        order = Order(inner._sampler_iter)
        return self._switch(loader, order, TorchWay(inner, order, is_open=True))

    def _begin_changed(self, loader: Any, kept: Kept) -> Any:
        """Draws the random numbers that torch would draw for the pass."""
        if kept.loader() is not loader:  # the program makes it anew for each pass
            self.retire(kept.way)
            kept.loader, kept.way = weakref.ref(loader), None
        batches = iter(loader._index_sampler)
        persistent = loader.persistent_workers and loader.num_workers > 0
        if not persistent or (loader._iterator is None and loader not in self._begun):
            self._begun.add(loader)
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
            if loader.num_workers > 0:
                batches = iter(loader._index_sampler)
        order = Order(batches)
        if kept.way is None:
            kept.way = kept.change.way(loader, order)
        else:
            kept.way.attach(order)
        iterator = self._switch(loader, order, kept.way, kept.change)
        if loader.num_workers > 0:
            kept.way.open()
        else:  # a sampler draws its seed when it is asked first, which is with the first batch
            iterator.open_first()
        return iterator

    def _switch(self, loader: Any, order: Order, way: Way, change: LoaderChange | None = None) -> SwitchIterator:
        iterator = SwitchIterator(loader, order, way, self._way_failed)
        note(iterator, change)
        return iterator

    def _way_failed(self, switch: SwitchIterator, error: Exception) -> Way | None:
        """Another way; None: the error is the program's."""
        way = switch.way
        kept = next((kept for kept in self._kept if kept.way is way), None)
        if kept is None and way is switch.base:
            return None
        self._broken.add(id(way))
        if kept is not None:
            self._drop(kept, error)
        else:
            self.retire(way)
        if way is switch.base:
            switch.base = changed_way(switch.loader, settings_of(switch.loader), switch.order)
        return switch.base

    def _drop(self, kept: Kept, error: Exception) -> None:
        self._kept.remove(kept)
        self.retire(kept.way)
        self._taken_back(kept.change, error)

    def kept_of(self, loader: Any) -> Kept | None:
        return next((kept for kept in self._kept if kept.target.is_of(loader)), None)

    def keep(self, target: Target, loader: Any, change: LoaderChange, way: Way) -> None:
        """Later passes begin with it."""
        former = self.kept_of(loader)
        if former is not None:
            self._kept.remove(former)
            self.retire(former.way)
        self._kept.append(Kept(target, weakref.ref(loader), change, way))

    def retire(self, way: Way | None) -> None:
        """It is stopped when nothing of it is in work."""
        if way is not None and way not in self._unused:
            self._unused.append(way)

    def is_broken(self, way: Way) -> bool:
        return id(way) in self._broken

    def finish(self, way: Way) -> None:
        """A trial has ended without it."""
        if not any(kept.way is way for kept in self._kept):
            self.retire(way)

    def stop_unused(self) -> None:
        for way in list(self._unused):
            switch = way.order.user()
            if (switch is None or not switch.uses(way)) and (way.pending == 0 or self.is_broken(way)):
                self._unused.remove(way)
                way.stop()

    def stop(self) -> None:
        """Ends the workers of all changes."""
        for kept in self._kept:
            self.retire(kept.way)
        for way in self._unused:
            way.close()
            way.stop()
        self._unused.clear()

    def running(self, target: Target | None = None) -> SwitchIterator | None:
        """The pass that gave the last batch, if it is one of `target`."""
        iterator = self._steps.iterator
        if not isinstance(iterator, SwitchIterator):
            return None
        return iterator if target is None or target.is_of(iterator.loader) else None


def note(iterator: SwitchIterator, change: LoaderChange | None) -> None:
    """The facts of the loader, as it runs with the change."""
    note = LoaderNote(iterator.loader)
    if change is not None:
        note.workers, note.persistent = change.settings.get("num_workers", iterator.way.workers), True
        note.prefetch_factor = change.settings.get("prefetch_factor", note.prefetch_factor or 2)
        if change.samples is not None:
            note.name, note.prefetch_factor = "stoker.Loader", None
    setattr(iterator, LOADER, note)


def is_free(way: Way) -> bool:
    """Whether no pass that still runs loads by it, such as the outer one of two loops over a loader."""
    switch = way.order.user()
    return switch is None or not switch.uses(way)
