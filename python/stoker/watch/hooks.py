"""Hooks into PyTorch that keep the account. They call what they replace with the same arguments and return its result.

Nothing waits for the device that did not wait before. An error of the watch itself ends the watch, and not the program.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable
from threading import get_ident
from time import thread_time_ns
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker.watch.account import BACKWARD, CHECKPOINT, COMMUNICATION, OPTIMIZER, UNMEASURED, WAIT
from stoker.watch.batches import note_batch, ready_batches
from stoker.watch.fetch_clock import FetchClock
from stoker.watch.made import MadeHooks
from stoker.watch.modules import ModuleHooks
from stoker.watch.own_loader import OwnLoaderHook
from stoker.watch.places import find_frames, place_of
from stoker.watch.seen import LoaderNote
from stoker.watch.state import HookState
from stoker.watch.steps import LOADER
from stoker.watch.transfers import TransferHooks

_COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
)

_SHORT = 200_000  # nanoseconds: the CPU time of shorter fetches is not read
_CLOSURES = (types.FunctionType, types.MethodType, functools.partial)


class _AllOptimizers:
    """Stands for the optimizers, one for each parameter, that make their steps within the backward pass."""


class Hooks:
    def __init__(
        self,
        state: HookState,
        clock: FetchClock,  # of batches that the training thread fetches
        syncs: Callable[[], dict[str, list[int]]],
    ) -> None:
        self._state = state
        self._clock = clock
        self._modules = ModuleHooks(state)
        self._transfers = TransferHooks(state, syncs)
        self._made = MadeHooks(state)
        self._own_loader = OwnLoaderHook(state, clock)
        self._handles: list[Any] = []
        self._optimizer_noted = False
        self._loader_noted = False
        self._all_optimizers = _AllOptimizers()
        self.after_step: Callable[[], None] | None = None  # called after each step that counts
        self.begin_pass: Callable[[Any, Any], Any] = lambda loader, original: original(loader)

    def install(self) -> None:
        state = self._state
        self._hook_loader()
        self._own_loader.install()
        self._modules.install()
        self._hook_backward()
        self._hook_optimizers()
        self._transfers.install()
        self._made.install()
        self._hook_save()
        self._hook_distributed()
        self._hook_autocast()

    def rest(self) -> None:
        """Nothing is noted any more. May be called within a hook."""
        self._state.end()
        self._modules.end_discovery()
        self._own_loader.remove()
        self._state.patches.undo()

    def remove(self) -> None:
        """Not within a hook: PyTorch goes through its hooks while it calls them."""
        self.rest()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def note_loader_again(self) -> None:
        """In the next step: its settings have changed."""
        self._loader_noted = False

    def end_discovery(self) -> None:
        self._modules.end_discovery()

    def _hook_loader(self) -> None:
        state, account, steps = self._state, self._state.account, self._state.steps

        def make_iter(original: Any) -> Any:
            def begin(loader: Any) -> Any:
                if get_ident() != state.thread or account.phase == WAIT:  # a data set may have another loader
                    return original(loader)
                try:
                    state.loop_begins()
                    steps.before_iterator()
                except Exception as error:
                    state.fail(error)
                before = account.enter(WAIT)
                start = account.since
                try:
                    iterator = self.begin_pass(loader, original)
                finally:
                    account.enter(before)
                if isinstance(iterator, _BaseDataLoaderIter):
                    try:
                        steps.loader_started(iterator, account.since - start if loader.num_workers > 0 else 0)
                    except Exception as error:
                        state.fail(error)
                return iterator

            return begin

        state.replace(DataLoader, "__iter__", make_iter)
        state.replace(_BaseDataLoaderIter, "__init__", self._noting)
        state.replace(_BaseDataLoaderIter, "__next__", self._next)

    def _next(self, original: Any) -> Any:
        """Waiting for a batch."""
        state, account, steps, clock = self._state, self._state.account, self._state.steps, self._clock
        measures = True  # the last batch took long enough to read the CPU time of the next one

        def following(iterator: Any) -> Any:
            nonlocal measures
            if is_compiling() or account.phase == WAIT or get_ident() != state.thread:
                return original(iterator)
            alone, ready = False, None
            try:
                alone = iterator._num_workers == 0
                if state.base != UNMEASURED:
                    state.settle_base()
                if not alone:
                    ready = ready_batches(iterator)
                steps.asks(iterator)
            except Exception as error:
                state.fail(error)
            account.enter(WAIT)
            start = account.since
            core = thread_time_ns() if alone and measures else 0
            ended = False
            try:
                batch = original(iterator)
            except StopIteration:
                ended = True
                raise
            finally:
                if core:
                    core = thread_time_ns() - core
                account.enter(state.base)
                wall = account.since - start
                if ended:
                    self._batches_ended(iterator, wall)
            try:
                samples = note_batch(steps.loader, batch)
                steps.got(samples, ready)
                if alone:
                    clock.add(samples, wall, core)
                    measures = wall > _SHORT
            except Exception as error:
                state.fail(error)
            return batch

        return following

    def _noting(self, original: Any) -> Any:
        """Also notes an iterator that a library makes, as fastai's loader does."""
        state = self._state

        def init(iterator: Any, loader: Any, *args: Any, **options: Any) -> None:
            original(iterator, loader, *args, **options)
            if state.here():
                try:
                    note = LoaderNote(loader)
                    if note.unbatched and note.kind in state.seen.single:
                        note.per_batch = 1
                    setattr(iterator, LOADER, note)
                except Exception as error:
                    state.fail(error)

        return init

    def _batches_ended(self, iterator: Any, nanoseconds: int) -> None:
        try:
            stops = iterator._num_workers > 0 and not iterator._persistent_workers
            self._state.steps.ended(iterator, nanoseconds if stops else 0)
        except Exception as error:
            self._state.fail(error)

    def _hook_backward(self) -> None:
        self._state.replace(torch.autograd, "backward", functools.partial(self._backward, True))
        self._state.replace(torch.autograd, "grad", functools.partial(self._backward, False))

    def _backward(self, whole: bool, original: Any) -> Any:
        state, account, steps = self._state, self._state.account, self._state.steps

        def backward(*args: Any, **options: Any) -> Any:
            if is_compiling() or account.phase == BACKWARD or get_ident() != state.thread:
                return original(*args, **options)
            inside = state.inside  # a model may compute gradients, such as forces, in its forward pass
            if not inside:
                try:
                    steps.trains()
                except Exception as error:
                    state.fail(error)
            steps.backwards += whole
            before = account.enter(BACKWARD)
            try:
                return original(*args, **options)
            finally:
                account.enter(before if inside else state.base)
                if state.stepped_in_backward:
                    state.stepped_in_backward = False
                    self._step_done(self._all_optimizers)

        return backward

    def _hook_optimizers(self) -> None:
        state, account = self._state, self._state.account

        def begin(optimizer: Any, args: Any, options: Any) -> Any:
            if get_ident() != state.thread:
                return None
            before = account.enter(OPTIMIZER)
            if before != OPTIMIZER:  # else it belongs to another optimizer
                state.in_backward = before == BACKWARD
            if not state.in_backward:
                state.base = OPTIMIZER
            state.begun = True
            return self._with_closure(args, options) if len(args) > 1 or options else None

        def end(optimizer: Any, args: Any, options: Any) -> None:
            self._stepped(optimizer)

        for hook in (begin, end):
            setattr(hook, "_torchdynamo_disable", True)  # torch.compile calls it and does not trace it
        self._handles.append(register_optimizer_step_pre_hook(begin))
        self._handles.append(register_optimizer_step_post_hook(end))
        state.replace_phase(Optimizer, "zero_grad", OPTIMIZER)

    def _with_closure(self, args: Any, options: Any) -> Any:
        """The arguments of an optimizer's step. Its closure, which may be the whole training step, is no part of it."""
        state, account = self._state, self._state.account
        given = options.get("closure", args[1] if len(args) > 1 else None)
        if not isinstance(given, _CLOSURES):  # what has methods or counts its calls would not be the same
            return None

        @functools.wraps(given)
        def closure(*more: Any, **others: Any) -> Any:
            if not state.here():
                return given(*more, **others)
            base, state.base = state.base, UNMEASURED
            before = account.enter(UNMEASURED)
            try:
                return given(*more, **others)
            finally:
                state.base = base
                account.enter(before)

        if "closure" in options:
            return args, {**options, "closure": closure}
        return (args[0], closure, *args[2:]), options

    def _stepped(self, optimizer: Any) -> None:
        """An optimizer has made a step, here or in another thread."""
        state, account = self._state, self._state.account
        if get_ident() != state.thread:
            if account.phase == BACKWARD and state.thread and _is_of_autograd():
                state.stepped_in_backward = True
            return
        if not state.begun:
            return  # a class calls the step of its base, which has its own hooks and was counted
        state.begun = False
        if not self._optimizer_noted:
            self._note_optimizer(optimizer)
        if state.in_backward:  # the step ends with the backward pass
            account.enter(BACKWARD)
            state.stepped_in_backward = True
        else:
            state.base = UNMEASURED
            self._step_done(optimizer)

    def _note_optimizer(self, optimizer: Any) -> None:
        self._optimizer_noted = True
        try:
            with torch._C.DisableTorchFunction():
                self._state.seen.note_optimizer(optimizer)
        except Exception as error:
            self._state.fail(error)

    def _step_done(self, optimizer: Any) -> None:
        """optimizer: the one that has made it."""
        state = self._state
        try:
            if not self._loader_noted:
                self._note_loader()
            state.steps.stepped(optimizer)
            if self.after_step is not None:
                with torch._C.DisableTorchFunction():  # the program's do not see our questions
                    self.after_step()
        except Exception as error:
            state.fail(error)

    def _note_loader(self) -> None:
        note = self._state.steps.loader
        if note is not None:
            self._loader_noted = True
            with torch._C.DisableTorchFunction():
                self._state.seen.note_loader(note)

    def _hook_distributed(self) -> None:
        if not torch.distributed.is_available():
            return
        for name in _COLLECTIVES:
            self._state.replace_phase(torch.distributed, name, COMMUNICATION)
        self._state.replace_phase(torch.nn.parallel.DistributedDataParallel, "_sync_buffers", COMMUNICATION)

    def _hook_save(self) -> None:
        state, seen = self._state, self._state.seen
        state.replace_phase(torch, "save", CHECKPOINT)

        def make(original: Any) -> Any:
            def save(*args: Any, **options: Any) -> Any:
                if is_compiling():
                    return original(*args, **options)
                if not seen.checkpoint_place and state.here() and state.steps.rows.steps > 0:
                    try:
                        seen.checkpoint_place = place_of(*find_frames(sys._getframe(1)))
                    except Exception as error:
                        state.fail(error)
                return original(*args, **options)

            return save

        state.replace(torch, "save", make)

    def _hook_autocast(self) -> None:
        state, seen = self._state, self._state.seen

        def make(original: Any) -> Any:
            def enter(context: Any) -> Any:
                if context._enabled and torch.is_grad_enabled() and state.here():
                    seen.autocast = context.fast_dtype
                return original(context)

            return enter

        state.replace(torch.autocast, "__enter__", make)


def _is_of_autograd() -> bool:
    """Whether this thread is one of PyTorch's own, which run the backward pass of a device, and none of Python's."""
    own = get_ident()
    known = (thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread))
    return all(thread.ident != own for thread in known)
