"""Tries the changes that the findings of a running program ask for: one at a time, measured in turns of steps, kept or
taken back.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from stoker.watch.account import CHECKPOINT
from stoker.watch.fix.changes import Change, LoaderChange, OptimizerChange, ThreadsChange, changes_of
from stoker.watch.fix.findings import Question
from stoker.watch.fix.kernels import has_kernel, set_kernel, updates_alike
from stoker.watch.fix.order import Order
from stoker.watch.fix.same import kept_random_state
from stoker.watch.fix.switch import Check, Sameness, SwitchIterator
from stoker.watch.fix.trials import Gain, Trial
from stoker.watch.fix.ways import TorchWay, Way, changed_way, is_changeable, settings_of
from stoker.watch.recorder import RecordWriter
from stoker.watch.seen import PLACE, SOURCE, LoaderNote, attribute_of
from stoker.watch.steps import LOADER, Steps

_FIRST_LOOK = 2.0  # seconds of training before the findings are asked for
_FIRST_STEPS = 8
_TURN = 0.4  # seconds
_TURN_STEPS = (4, 200)
_SETTLING = 10  # steps after a change that are not recorded
_COLD = 1  # steps of a turn that are not counted, or a quarter of them

Steady = Generator[None, None, Any]  # runs from step to step


@dataclass
class Tried:
    """A change, and what became of it. gain: None where it was not measured."""

    change: Change
    kept: bool = False
    gain: Gain | None = None
    reason: str = ""  # why it was not kept, or not tried
    source: tuple[str, int] | None = None  # file and line of the call that it changes
    kind: str = "DataLoader"  # the class that this call makes


class _Target:
    """The loader that a change is of, also where the program makes it anew on the same line, over the same data."""

    def __init__(self, loader: Any) -> None:
        self._place = attribute_of(loader, PLACE) or id(loader)
        self._dataset = loader.dataset

    def is_of(self, loader: Any) -> bool:
        return (attribute_of(loader, PLACE) or id(loader)) == self._place and loader.dataset is self._dataset


@dataclass
class _Kept:
    """A way that later passes of a loader begin with."""

    target: _Target
    loader: weakref.ref[Any]
    change: LoaderChange
    way: Way | None


class Fixer:
    """Called by the hooks of the watch: `begin_pass` for each loop over a DataLoader, `stepped` after each step."""

    def __init__(
        self, folder: Path, program: Path, steps: Steps, writer: RecordWriter, allowed: frozenset[str]
    ) -> None:
        self.tried: list[Tried] = []
        self._steps = steps
        self._writer = writer
        self._allowed = allowed
        self._question = Question(program, folder)
        self._kept: list[_Kept] = []
        self._ways: list[Way] = []  # that are to be stopped
        self._optimizer: weakref.ref[Any] | None = None
        self._plan: Iterator[None] = self._try_all()
        self._step_time = 0.0
        self._usual_step = 0.0  # seconds
        self._broken: set[int] = set()  # ids of ways that raised an error
        self.restarted: Callable[[], None] = lambda: None  # the program runs otherwise from now on

    # passes

    def begin_pass(self, loader: Any, original: Callable[[Any], Any]) -> Any:
        """What `iter(loader)` returns. original: torch's own `DataLoader.__iter__`."""
        kept = self._kept_of(loader)
        if kept is not None and (kept.way is None or _is_free(kept.way)):
            if kept.loader() is not loader:  # the program makes it anew for each pass
                self._ways += [] if kept.way is None else [kept.way]
                kept.loader, kept.way = weakref.ref(loader), None
            return self._begin_changed(loader, kept)
        inner = original(loader)
        if not is_changeable(loader, inner):
            return inner
        order = Order(inner._sampler_iter)
        return self._switch(loader, order, TorchWay(inner, order, is_open=True))

    def _switch(self, loader: Any, order: Order, way: Way, change: LoaderChange | None = None) -> SwitchIterator:
        iterator = SwitchIterator(loader, order, way, self._way_failed)
        _note(iterator, change)
        return iterator

    def _kept_of(self, loader: Any) -> _Kept | None:
        return next((kept for kept in self._kept if kept.target.is_of(loader)), None)

    def _begin_changed(self, loader: Any, kept: _Kept) -> Any:
        """Draws the random numbers that torch would draw for the pass."""
        batches = iter(loader._index_sampler)
        first = not (loader.persistent_workers and loader.num_workers > 0)
        if first:
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
            if loader.num_workers > 0:
                batches = iter(loader._index_sampler)
        order = Order(batches)
        way = kept.way
        if way is None:
            way = kept.way = kept.change.way(loader, order)
        else:
            _drain(way)
            way.attach(order)
        iterator = self._switch(loader, order, way, kept.change)
        if loader.num_workers > 0:
            way.open()
        else:  # a sampler draws its seed when it is asked first, which is with the first batch
            iterator.open_first()
        return iterator

    def _way_failed(self, way: Way, error: Exception) -> Way | None:
        iterator = self._iterator()
        kept = next((kept for kept in self._kept if kept.way is way), None)
        changed = kept is not None or (iterator is not None and way is not iterator.base)
        if not changed or iterator is None:
            return None
        self._broken.add(id(way))
        self._ways.append(way)
        if kept is None:
            return iterator.base
        self._kept.remove(kept)
        for tried in self.tried:
            if tried.change is kept.change:
                tried.kept, tried.reason = False, f"taken back: {_first_line(error)}"
        loader = iterator.loader
        iterator.base = changed_way(loader, settings_of(loader), iterator.order)
        return iterator.base

    def _iterator(self) -> SwitchIterator | None:
        iterator = self._steps.iterator
        return iterator if isinstance(iterator, SwitchIterator) else None

    # steps

    def stepped(self, optimizer: Any) -> None:
        times = self._steps.rows.last
        self._step_time = (sum(times) - times[CHECKPOINT]) / 1e9
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)
        self._stop_ways()
        next(self._plan, None)

    def finish(self) -> None:
        """Ends the workers of changes. Optimizers keep what was kept: the program may still use them."""
        for tried in self.tried:
            if not tried.kept and not tried.reason:
                tried.reason = "the program ended before it was measured"
        self._ways += [kept.way for kept in self._kept if kept.way is not None]
        for way in self._ways:
            way.close()
            way.stop()
        self._ways.clear()

    def _stop_ways(self) -> None:
        """Those that no pass uses any more and that have nothing in work."""
        iterator = self._iterator()
        used = None if iterator is None else iterator.way
        for way in [way for way in self._ways if way is not used and (way.pending == 0 or id(way) in self._broken)]:
            self._ways.remove(way)
            way.stop()

    def _try_all(self) -> Iterator[None]:
        names: set[str] = set()
        wait = _FIRST_LOOK
        while True:
            yield from self._train_for(wait)
            self._question.ask()
            while not self._question.is_answered:
                yield
            iterator = self._iterator()
            optimizer = None if self._optimizer is None else self._optimizer()
            loader = None if iterator is None else iterator.loader
            now = {} if loader is None else settings_of(loader)
            kept = None if loader is None else self._kept_of(loader)
            if kept is not None:
                now |= kept.change.settings
                loader = None if kept.change.samples is not None else loader  # C++ loads as fast as it can
            found = changes_of(self._question.findings, loader, now, optimizer)
            del iterator, loader
            fresh = [change for change in found if change.name not in names]
            if not fresh:
                wait = min(2 * wait, 60.0)
                continue
            names.add(fresh[0].name)
            tried = Tried(fresh[0])
            self.tried.append(tried)
            self._writer.pause()
            try:
                if isinstance(fresh[0], LoaderChange):
                    yield from self._try_loader(tried, fresh[0])
                elif isinstance(fresh[0], ThreadsChange):
                    yield from self._try_threads(tried, fresh[0])
                else:
                    yield from self._try_optimizer(tried, fresh[0], optimizer)
                for _ in range(_SETTLING if tried.kept else 0):
                    yield
            finally:
                self._writer.resume()
            if tried.kept:
                self.restarted()
                wait = _FIRST_LOOK

    def _train_for(self, seconds: float) -> Iterator[None]:
        end, times = perf_counter() + seconds, deque[float](maxlen=100)
        while perf_counter() < end or len(times) < _FIRST_STEPS:
            yield
            times.append(self._step_time)
        self._usual_step = median(times)

    # changes of a loader

    def _try_loader(self, tried: Tried, change: LoaderChange) -> Steady:
        iterator = self._iterator()
        if iterator is None:
            tried.reason = "not tried: the loop was over"
            return
        loader = iterator.loader
        target = _Target(loader)
        tried.source = attribute_of(loader, SOURCE)
        del iterator
        way: Way | None = None
        try:
            with kept_random_state():
                way = change.way(loader, self._order())
        except Exception as error:
            tried.reason = f"not tried: {_first_line(error)}"
            return
        found = yield from self._checked(change, way, target)
        if change.samples is not None:
            change.predicted = change.predicted_with(self._usual_step, found.seconds)
        tried.reason = self._refusal(change, found)
        if not tried.reason:
            yield from self._measure(tried, lambda changed: self._turn_of_loader(target, way, changed))
        if id(way) in self._broken:
            tried.kept = False
        if tried.kept:
            for former in [kept for kept in self._kept if kept.target.is_of(loader)]:
                self._kept.remove(former)
                self._ways += [] if former.way is None else [former.way]
            self._kept.append(_Kept(target, weakref.ref(loader), change, way))
            self._turn(target, way)
            if (running := self._iterator_of(target)) is not None:
                _note(running, change)
        else:
            self._turn(target, None)
            self._ways.append(way)

    def _order(self) -> Order:
        iterator = self._iterator()
        return Order(iter(())) if iterator is None else iterator.order

    def _checked(self, change: LoaderChange, way: Way, target: _Target) -> Generator[None, None, Check]:
        """The comparison of the next batches, when it is over. A pass may end meanwhile."""
        check: Check | None = None
        checked: Any = None
        while check is None or not check.is_over:
            iterator = self._iterator_of(target)
            if iterator is not None and iterator is not checked and _is_free(way):
                checked = iterator
                _drain(way)
                way.attach(iterator.order)
                check = Check(way, change.tolerance, change.draws)
                iterator.check(check)
            del iterator
            yield
        return check

    def _refusal(self, change: LoaderChange, check: Check) -> str:
        if check.error is not None:
            return f"taken back: {_first_line(check.error)}"
        if check.found == Sameness.OTHER:
            return "taken back: other samples"
        if check.found == Sameness.RANDOM and "random" not in self._allowed:
            return "not measured: random ops would draw other numbers; --allow random"
        pixels = check.found == Sameness.CLOSE or (change.samples is not None and check.found == Sameness.RANDOM)
        if pixels and "numerics" not in self._allowed:
            return "not measured: pixels are rounded otherwise; --allow numerics"
        return ""

    def _iterator_of(self, target: _Target) -> SwitchIterator | None:
        iterator = self._iterator()
        return iterator if iterator is not None and target.is_of(iterator.loader) else None

    def _turn(self, target: _Target, way: Way | None) -> bool:
        """Whether the pass that runs uses `way`, or is about to. None: the way with which it began."""
        iterator = self._iterator_of(target)
        if iterator is None:
            return False
        wanted = iterator.base if way is None else way
        if wanted is not iterator.way and iterator._then is not wanted:
            if way is not None and id(way) in self._broken:
                return False
            if wanted.order is not iterator.order:  # of an earlier pass
                if not _is_free(wanted):
                    return False
                _drain(wanted)
                wanted.attach(iterator.order)
            iterator.turn_to(wanted)
        return iterator.way is wanted

    def _turn_of_loader(self, target: _Target, way: Way | None, changed: bool) -> Generator[None, None, float]:
        """Seconds of a mean step."""
        counted: list[float] = []
        seconds, steps, running = 0.0, 0, None
        while True:
            ready = self._turn(target, way if changed else None)
            yield
            iterator = self._iterator_of(target)
            same = ready and iterator is not None and id(iterator) == running
            running = id(iterator) if iterator is not None else None
            del iterator
            if changed and id(way) in self._broken:
                return float("inf")
            if not same:  # a pass begins, or the way before still has batches in work
                continue
            steps += 1
            seconds += self._step_time
            counted.append(self._step_time)
            if _is_enough(steps, seconds):
                return _mean_of(counted)

    # changes of an optimizer

    def _try_optimizer(self, tried: Tried, change: OptimizerChange, optimizer: Any) -> Steady:
        tried.source, tried.kind = attribute_of(optimizer, SOURCE), type(optimizer).__name__
        if not has_kernel(optimizer, change.kernel):
            tried.reason = "not tried: torch lacks it for this optimizer"
            return
        if "numerics" not in self._allowed and not updates_alike(optimizer, change.kernel):
            tried.reason = "not measured: weights are rounded otherwise; --allow numerics"
            return
        former = [(group.get("foreach"), group.get("fused")) for group in optimizer.param_groups]
        yield from self._switch_on(
            tried, lambda changed: set_kernel(optimizer, change.kernel if changed else former)
        )

    def _try_threads(self, tried: Tried, change: ThreadsChange) -> Steady:
        tried.source = _main_script()
        if "numerics" not in self._allowed:
            tried.reason = "not measured: sums are rounded otherwise; --allow numerics"
            return
        former = torch.get_num_threads()
        yield from self._switch_on(tried, lambda changed: torch.set_num_threads(change.threads if changed else former))

    def _switch_on(self, tried: Tried, switch: Callable[[bool], None]) -> Steady:
        """Measures what is switched on and off between steps, and leaves it on where it pays."""

        def turn(changed: bool) -> Generator[None, None, float]:
            switch(changed)
            counted: list[float] = []
            while not _is_enough(len(counted), sum(counted)):
                yield
                counted.append(self._step_time)
            return _mean_of(counted)

        yield from self._measure(tried, turn)
        switch(tried.kept)

    def _measure(self, tried: Tried, turn: Callable[[bool], Generator[None, None, float]]) -> Steady:
        trial = Trial()
        while not trial.is_over:
            without = yield from turn(False)
            within = yield from turn(True)
            if within == float("inf"):
                tried.reason = "taken back: it failed"
                return
            trial.add(without, within)
        tried.gain = trial.gain()
        tried.kept = tried.gain.is_clear
        if not tried.kept:
            tried.reason = "taken back: slower" if tried.gain.high < 1 else "taken back: no clear gain"


def _note(iterator: SwitchIterator, change: LoaderChange | None) -> None:
    """The facts of the loader, as it runs with the change."""
    note = LoaderNote(iterator.loader)
    if change is not None:
        note.workers, note.persistent = change.settings.get("num_workers", iterator.way.workers), True
        note.prefetch_factor = change.settings.get("prefetch_factor", note.prefetch_factor or 2)
        if change.samples is not None:
            note.name, note.prefetch_factor = "stoker.Loader", None
    setattr(iterator, LOADER, note)


def _is_free(way: Way) -> bool:
    """Whether no pass that still runs loads by it, such as the outer one of two loops over a loader."""
    switch = way.order.user()
    return switch is None or not switch.uses(way)


def _main_script() -> tuple[str, int] | None:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return (file, 0) if isinstance(file, str) else None


def _is_enough(steps: int, seconds: float) -> bool:
    least, most = _TURN_STEPS
    return (steps >= least and (seconds >= _TURN or steps >= most)) or (steps >= 2 and seconds >= 2 * _TURN)


def _mean_of(seconds: list[float]) -> float:
    counted = seconds[max(_COLD, len(seconds) // 4) :]
    return sum(counted) / len(counted)


def _drain(way: Way) -> None:
    """Takes what a pass that was left early has still in work."""
    way.close()
    while way.pending > 0:
        try:
            way.next()
        except Exception:  # of the program's data set, for a batch that nobody wants
            if way.pending > 0 and way.inner is not None and getattr(way.inner, "_shutdown", False):
                break


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[-1] if text else ''}"
