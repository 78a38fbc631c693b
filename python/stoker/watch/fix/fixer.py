"""Tries the changes that the findings of a running program ask for: one at a time, measured in turns of steps, kept or
taken back.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from stoker.watch.account import CHECKPOINT
from stoker.watch.fix.changes import Change, LoaderChange, OptimizerChange, ThreadsChange, changes_of
from stoker.watch.fix.findings import Question
from stoker.watch.fix.kernels import has_kernel, kernels_of, set_kernel
from stoker.watch.fix.passes import Passes, Target, is_free, note
from stoker.watch.fix.same import kept_random_state
from stoker.watch.fix.switch import Check, Sameness
from stoker.watch.fix.trials import Gain, Trial
from stoker.watch.fix.ways import Way, settings_of, why_not_ahead
from stoker.watch.recorder import RecordWriter
from stoker.watch.seen import SOURCE, attribute_of
from stoker.watch.steps import Steps

_FIRST_LOOK = 2.0  # seconds of training before the findings are asked for
_FIRST_STEPS = 8
_TURN = 0.4  # seconds
_TURN_STEPS = (4, 200)
_IDLE = 500  # steps without a pass of the loader that a change is of
_RANDOM = "not measured: random ops would draw other numbers; --allow random"
_SETTLING = 10  # steps after a change that are not recorded
_COLD = 1  # steps of a turn that are not counted, or a quarter of them

Steady = Generator[None, None, Any]  # runs from step to step


class _LoopOver(Exception):
    """The loader of a change gives no batches any more."""


@dataclass
class Tried:
    """A change, and what became of it. gain: None where it was not measured."""

    change: Change
    kept: bool = False
    gain: Gain | None = None
    reason: str = ""  # why it was not kept, or not tried
    source: tuple[str, int] | None = None  # file and line of the call that it changes
    kind: str = "DataLoader"  # the class that this call makes


class Fixer:
    """`passes` is called by the hooks for each loop over a DataLoader, `stepped` after each step."""

    def __init__(
        self, folder: Path, program: Path, steps: Steps, writer: RecordWriter, allowed: frozenset[str]
    ) -> None:
        self.tried: list[Tried] = []
        self.passes = Passes(steps, self._taken_back)
        self._rows = steps.rows
        self._writer = writer
        self._allowed = allowed
        self._question = Question(program, folder)
        self._optimizer: weakref.ref[Any] | None = None
        self._plan: Generator[None, None, None] = self._try_all()
        self._step_time = 0.0
        self._draws = False  # the data set draws random numbers in this process
        self._usual_step = 0.0  # seconds
        self.restarted: Callable[[], None] = lambda: None  # the program runs otherwise from now on

    def stepped(self, optimizer: Any) -> None:
        times = self._rows.last
        self._step_time = (sum(times) - times[CHECKPOINT]) / 1e9
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)
        running = self.passes.running()
        self._draws = self._draws or (running is not None and running.draws)
        del running
        self.passes.stop_unused()
        next(self._plan, None)

    def finish(self) -> None:
        """Ends the workers of changes, and a trial that runs. Optimizers and threads keep a change that was kept."""
        self._plan.close()
        for tried in self.tried:
            if not tried.kept and not tried.reason:
                tried.reason = "the program ended before it was measured"
        self.passes.stop()

    def _taken_back(self, change: LoaderChange, error: Exception) -> None:
        for tried in self.tried:
            if tried.change is change:
                tried.kept, tried.reason = False, f"taken back: {_first_line(error)}"

    def _try_all(self) -> Generator[None, None, None]:
        names: set[str] = set()
        wait = _FIRST_LOOK
        while True:
            yield from self._train_for(wait)
            self._question.ask()
            while not self._question.is_answered:
                yield
            iterator = self.passes.running()
            optimizer = None if self._optimizer is None else self._optimizer()
            loader = None if iterator is None else iterator.loader
            now = {} if loader is None else settings_of(loader)
            kept = None if loader is None else self.passes.kept_of(loader)
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
        iterator = self.passes.running()
        if iterator is None:
            tried.reason = "not tried: the loop was over"
            return
        loader = iterator.loader
        target = Target(loader)
        tried.source = attribute_of(loader, SOURCE)
        tried.reason = why_not_ahead(loader)
        if self._draws and "random" not in self._allowed:
            tried.reason = _RANDOM
        if tried.reason:
            return
        try:
            with kept_random_state():
                way = change.way(loader, iterator.order)
        except Exception as error:
            tried.reason = f"not tried: {_first_line(error)}"
            return
        del iterator
        try:
            yield from self._try_way(tried, change, target, loader, way)
        except _LoopOver:
            tried.reason = "not measured: its loop did not come again"
        finally:
            self.passes.finish(way)

    def _try_way(self, tried: Tried, change: LoaderChange, target: Target, loader: Any, way: Way) -> Steady:
        found = yield from self._checked(change, way, target)
        if change.samples is not None:
            change.predicted = change.predicted_with(self._usual_step, found.seconds)
        tried.reason = self._refusal(change, found)
        if not tried.reason:
            yield from self._measure(tried, lambda changed: self._turn_of_loader(target, way, changed))
        if self.passes.is_broken(way):
            tried.kept = False
        if tried.kept:
            self.passes.keep(target, loader, change, way)
            self._turn(target, way)
            if (running := self.passes.running(target)) is not None:
                note(running, change)
        else:
            self._turn(target, None)

    def _checked(self, change: LoaderChange, way: Way, target: Target) -> Generator[None, None, Check]:
        """The comparison of the next batches, when it is over. A pass may end meanwhile."""
        check: Check | None = None
        checked: Any = None
        idle = 0
        while check is None or not check.is_over:
            iterator = self.passes.running(target)
            idle = 0 if iterator is not None else idle + 1
            if idle > _IDLE:
                raise _LoopOver
            if iterator is not None and iterator is not checked and is_free(way):
                checked = iterator
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
            return _RANDOM
        pixels = check.found == Sameness.CLOSE or (change.samples is not None and check.found == Sameness.RANDOM)
        if pixels and "numerics" not in self._allowed:
            return "not measured: pixels are rounded otherwise; --allow numerics"
        return ""

    def _turn(self, target: Target, way: Way | None) -> bool:
        """Whether the pass that runs uses `way`, or is about to. None: the way with which it began."""
        iterator = self.passes.running(target)
        if iterator is None:
            return False
        wanted = iterator.base if way is None else way
        if wanted is not iterator.way and iterator._then is not wanted:
            if way is not None and self.passes.is_broken(way):
                return False
            if wanted.order is not iterator.order:  # of an earlier pass
                if not is_free(wanted):
                    return False
                wanted.attach(iterator.order)
            iterator.turn_to(wanted)
        return iterator.way is wanted

    def _turn_of_loader(self, target: Target, way: Way | None, changed: bool) -> Generator[None, None, float]:
        """Seconds of a mean step."""
        counted: list[float] = []
        seconds, steps, running, idle = 0.0, 0, None, 0
        while True:
            ready = self._turn(target, way if changed else None)
            yield
            if self._draws and "random" not in self._allowed:
                return float("nan")
            iterator = self.passes.running(target)
            idle = 0 if iterator is not None else idle + 1
            if idle > _IDLE:
                raise _LoopOver
            same = ready and iterator is not None and id(iterator) == running
            running = id(iterator) if iterator is not None else None
            del iterator
            if changed and way is not None and self.passes.is_broken(way):
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
        if "numerics" not in self._allowed:
            tried.reason = "not measured: weights are rounded otherwise; --allow numerics"
            return
        former = kernels_of(optimizer)
        yield from self._switch_on(tried, lambda changed: set_kernel(optimizer, change.kernel if changed else former))

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

        try:
            yield from self._measure(tried, turn)
        finally:
            switch(tried.kept)

    def _measure(self, tried: Tried, turn: Callable[[bool], Generator[None, None, float]]) -> Steady:
        trial = Trial()
        while not trial.is_over:
            without = yield from turn(False)
            within = yield from turn(True)
            if math.isnan(without) or math.isnan(within):
                tried.reason = _RANDOM
                return
            if within == float("inf"):
                tried.reason = "taken back: it failed"
                return
            trial.add(without, within)
        tried.gain = trial.gain()
        tried.kept = tried.gain.is_clear
        if not tried.kept:
            tried.reason = "taken back: slower" if tried.gain.high < 1 else "taken back: no clear gain"


def _main_script() -> tuple[str, int] | None:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return (file, 0) if isinstance(file, str) else None


def _is_enough(steps: int, seconds: float) -> bool:
    least, most = _TURN_STEPS
    return (steps >= least and (seconds >= _TURN or steps >= most)) or (steps >= 2 and seconds >= 2 * _TURN)


def _mean_of(seconds: list[float]) -> float:
    counted = seconds[max(_COLD, len(seconds) // 4) :]
    return sum(counted) / len(counted)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[-1] if text else ''}"
