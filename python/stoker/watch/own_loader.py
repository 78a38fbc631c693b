"""Hook of stoker.Loader: waiting for its batches, and their samples, as with a DataLoader. Imports no part of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from stoker import _waiting
from stoker.watch.account import UNMEASURED, WAIT
from stoker.watch.batches import note_batch
from stoker.watch.fetch_clock import FetchClock
from stoker.watch.seen import LoaderNote
from stoker.watch.state import HookState
from stoker.watch.steps import LOADER


class _Pass:
    """One loop over a loader; the steps note on it what it is used for."""

    def __init__(self, loader: Any) -> None:
        self.number = loader._passes
        setattr(self, LOADER, LoaderNote.of_stoker(loader))


class OwnLoaderHook:
    def __init__(self, state: HookState, clock: FetchClock) -> None:
        self._state = state
        self._clock = clock
        self._passes: weakref.WeakKeyDictionary[Any, _Pass] = weakref.WeakKeyDictionary()  # the newest of each loader

    def install(self) -> None:
        _waiting.around = self._wait

    def remove(self) -> None:
        if _waiting.around == self._wait:
            _waiting.around = None

    def _wait(self, loader: Any, take: Callable[[], Any]) -> Any:
        state, account, steps = self._state, self._state.account, self._state.steps
        if account.phase == WAIT or get_ident() != state.thread:
            return take()
        try:
            if state.base != UNMEASURED:
                state.settle_base()
            self._ask(loader)
        except Exception as error:
            state.fail(error)
        account.enter(WAIT)
        start = account.since
        try:
            taken = take()
        finally:
            account.enter(state.base)
        try:
            if taken is None:
                steps.ended(self._passes.get(loader))
            else:
                self._got(loader, taken[0], account.since - start)
        except Exception as error:
            state.fail(error)
        return taken

    def _ask(self, loader: Any) -> None:
        steps, running = self._state.steps, self._passes.get(loader)
        if running is None or running.number != loader._passes:
            self._state.loop_begins()
            steps.before_iterator()
            running = self._passes[loader] = _Pass(loader)
            steps.loader_started(running)
        steps.asks(running)

    def _got(self, loader: Any, batch: Any, wall: int) -> None:
        steps = self._state.steps
        samples = note_batch(steps.loader, batch)
        steps.got(samples, None)
        if loader.workers == 0:  # the batch was made within the wait
            self._clock.add(samples, wall, 0)
