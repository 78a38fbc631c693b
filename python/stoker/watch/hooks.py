"""Hooks into PyTorch that keep the account. They call what they replace with the same arguments and return its result.

Each hook costs a microsecond or less, and nothing waits for the device that did not wait before. An error of the watch
itself ends the watch, and not the program.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker.watch.account import (
    BACKWARD,
    CHECKPOINT,
    COMMUNICATION,
    COPY,
    FORWARD,
    OPTIMIZER,
    SYNC,
    UNMEASURED,
    WAIT,
    Account,
)
from stoker.watch.batches import batch_length, ready_batches, sample_bytes
from stoker.watch.fetch_clock import SHORT, FetchClock
from stoker.watch.patches import Method, Patches
from stoker.watch.places import find_line, place_name
from stoker.watch.seen import LoaderNote, Seen, length_of
from stoker.watch.steps import EVALUATION, LOADER, TRAINING, Steps

_thread_id = threading.get_ident
_PLAIN = (torch.Tensor, torch.nn.Parameter)

# Methods that wait for the device if the tensor is not on the CPU.
_READS = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")
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
    "reduce",
    "reduce_scatter_tensor",
)


class Hooks:
    def __init__(
        self,
        account: Account,
        steps: Steps,
        seen: Seen,
        clock: FetchClock,  # of batches that the training thread fetches by itself
        syncs: Callable[[], dict[str, list[int]]],
    ) -> None:
        self._account = account
        self._steps = steps
        self._seen = seen
        self._clock = clock
        self._syncs = syncs
        self._thread = _thread_id()
        self._patches = Patches()
        self._handles: list[Any] = []
        self._reading = False  # within a copy or a read: subclasses of Tensor call the hooks again
        self._inside = False  # an outermost module's forward pass
        self._base = UNMEASURED  # the phase around forward and backward: that of the optimizer within a closure
        self._module_uses: dict[int, bool] = {}  # id -> has parameters that train
        self._module_refs: dict[int, weakref.ref[Any]] = {}
        self._discovers = False
        self.fault: Exception | None = None  # of the watch, which then ended
        self.loader_start: Callable[[int], None] = lambda nanoseconds: None
        self.after_step: Callable[[], None] | None = None
        self.on_fault: Callable[[], None] = self.remove

    def install(self) -> None:
        self._hook_loader()
        self._hook_modules()
        self._hook_backward()
        self._hook_optimizers()
        self._hook_copies()
        self._hook_reads()
        self._hook_phase(torch, "save", CHECKPOINT)
        self._hook_distributed()
        self._hook_autocast()

    def remove(self) -> None:
        self._discovers = False
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._patches.undo()

    def here(self) -> bool:
        return _thread_id() == self._thread

    def _fail(self, error: Exception) -> None:
        self.fault = self.fault or error
        self.on_fault()

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        hook = functools.wraps(original)(make(original))
        home = sys.modules.get(getattr(original, "__module__", None) or "")
        if home is not owner and getattr(home, name, None) is original:  # where pickle looks for it
            self._patches.replace(home, name, hook)
        self._patches.replace(owner, name, hook)

    def _replace_method(self, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(torch.Tensor, name)
        self._patches.replace(torch.Tensor, name, Method(torch.Tensor, name, original, make(original)))

    def _hook_phase(self, owner: Any, name: str, phase: int) -> None:
        account, thread = self._account, self._thread

        def make(original: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                if _thread_id() != thread or account.phase == phase:
                    return original(*args, **options)
                before = account.enter(phase)
                try:
                    return original(*args, **options)
                finally:
                    account.enter(before)

            return call

        self._replace(owner, name, make)

    def _hook_loader(self) -> None:
        account, steps, thread, seen = self._account, self._steps, self._thread, self._seen

        def make_iter(original: Any) -> Any:
            def begin(loader: Any) -> Any:
                if _thread_id() != thread or account.phase == WAIT:  # a data set may have a loader of its own
                    return original(loader)
                try:
                    steps.before_iterator()
                except Exception as error:
                    self._fail(error)
                before = account.enter(WAIT)
                start = account.since
                try:
                    iterator = original(loader)
                finally:
                    account.enter(before)
                    if loader.num_workers > 0:
                        self.loader_start(account.since - start)
                if isinstance(iterator, _BaseDataLoaderIter):
                    try:
                        iterator.__dict__[LOADER] = LoaderNote(loader)
                        steps.loader_started(iterator)
                    except Exception as error:
                        self._fail(error)
                return iterator

            return begin

        clock = self._clock
        measures = True  # the last batch took long enough to read the CPU time of the next one

        def make_next(original: Any) -> Any:
            def following(iterator: Any) -> Any:
                nonlocal measures
                if account.phase == WAIT or _thread_id() != thread:
                    return original(iterator)
                alone = iterator._num_workers == 0
                ready = None if alone else ready_batches(iterator)
                steps.asks(iterator)
                account.enter(WAIT)
                start = account.since
                core = thread_time_ns() if alone and measures else 0
                try:
                    batch = original(iterator)
                except StopIteration:
                    steps.ended()
                    if not alone and not iterator._persistent_workers:
                        self.loader_start(perf_counter_ns() - start)
                    raise
                finally:
                    used = thread_time_ns() - core if core else 0
                    account.enter(self._base)
                try:
                    samples = batch_length(batch)
                    steps.got(samples, ready)
                    if alone:
                        wall = account.since - start
                        clock.add(wall, used or wall, max(1, samples))
                        measures = wall > SHORT
                    if seen.sample_bytes is None:
                        seen.sample_bytes, seen.batch_length = sample_bytes(batch), samples
                except Exception as error:
                    self._fail(error)
                return batch

            return following

        self._replace(DataLoader, "__iter__", make_iter)
        self._replace(_BaseDataLoaderIter, "__next__", make_next)

    def _hook_modules(self) -> None:
        """Finds outermost modules: the classes that are called first get a hook of their own, and inner modules none.

        nn.Module itself is hooked in the first steps only, and not while a module runs, so that compiled code never
        sees a hook.
        """
        original: Callable[..., Any] = torch.nn.Module.__call__
        hooked: set[type] = set()

        def discover(module: Any, *args: Any, **options: Any) -> Any:
            if self._inside or self._account.phase == BACKWARD or _thread_id() != self._thread:
                return original(module, *args, **options)
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]
            kind: Any = type(module)
            try:
                if kind not in hooked:
                    hooked.add(kind)
                    self._hook_class(kind)
                return self._outermost(original)(module, *args, **options)
            finally:
                if self._discovers:
                    torch.nn.Module.__call__ = discover  # type: ignore[method-assign]

        self._discovers = True
        self._patches.replace(torch.nn.Module, "__call__", discover)
        self._module_call = original

    def _hook_class(self, kind: Any) -> None:
        try:
            self._replace(kind, "__call__", self._outermost)
        except Exception as error:  # of its metaclass
            self._fail(error)

    def end_discovery(self) -> None:
        self._discovers = False
        torch.nn.Module.__call__ = self._module_call  # type: ignore[method-assign]

    def _outermost(self, original: Any) -> Any:
        account, steps, thread, seen = self._account, self._steps, self._thread, self._seen
        uses, trained = self._module_uses, steps.trained
        grad_enabled = torch.is_grad_enabled

        def call(module: Any, *args: Any, **options: Any) -> Any:
            # A forward pass within the backward pass computes again what checkpointing has dropped.
            if self._inside or account.phase == BACKWARD or _thread_id() != thread:
                return original(module, *args, **options)
            key = id(module)
            learning = module.training and grad_enabled()
            try:
                trains = uses.get(key)
                if trains is None:
                    trains = self._note_module(module)
                if trains and learning:
                    if steps.undecided or steps.use != TRAINING or key not in trained:
                        steps.trains(key)
                elif trains:
                    steps.predicts(key, not module.training)
            except Exception as error:
                self._fail(error)
            before = account.enter(FORWARD)
            self._inside = True
            try:
                return original(module, *args, **options)
            finally:
                self._inside = False
                if not learning:  # else the loss follows, and the backward pass
                    account.enter(before)
                    steps.passed()
                    if seen.val_samples is None and steps.use == EVALUATION:
                        note = steps.loader
                        seen.val_samples = length_of(note.dataset) if note is not None else None

        return call

    def _note_module(self, module: Any) -> bool:
        key = id(module)

        def forget(reference: Any) -> None:  # another object may get its id
            for known in (self._module_uses, self._module_refs):
                known.pop(key, None)
            self._steps.forget(key)

        self._module_refs[key] = weakref.ref(module, forget)
        self._module_uses[key] = self._seen.note_module(module)
        return self._module_uses[key]

    def _hook_backward(self) -> None:
        account, steps, thread = self._account, self._steps, self._thread

        def make(original: Any, whole: bool) -> Any:
            def backward(*args: Any, **options: Any) -> Any:
                if account.phase == BACKWARD or _thread_id() != thread:
                    return original(*args, **options)
                inside = self._inside  # a model may compute gradients, such as forces, in its forward pass
                if not inside and (steps.undecided or steps.use != TRAINING):
                    try:
                        steps.trains()
                    except Exception as error:
                        self._fail(error)
                steps.backwards += whole
                before = account.enter(BACKWARD)
                try:
                    return original(*args, **options)
                finally:
                    account.enter(before if inside else self._base)

            return backward

        self._replace(torch.autograd, "backward", lambda original: make(original, True))
        self._replace(torch.autograd, "grad", lambda original: make(original, False))

    def _hook_optimizers(self) -> None:
        account, steps, thread, seen = self._account, self._steps, self._thread, self._seen

        def begin(optimizer: Optimizer, args: Any, options: Any) -> None:
            if _thread_id() == thread:
                self._base = OPTIMIZER
                account.enter(OPTIMIZER)

        def end(optimizer: Optimizer, args: Any, options: Any) -> None:
            if _thread_id() != thread:
                return
            self._base = UNMEASURED
            try:
                if not seen.optimizer:
                    seen.note_optimizer(optimizer)
                if not seen.data and steps.loader is not None:
                    seen.note_loader(steps.loader)
                steps.stepped(optimizer)
                if self.after_step is not None:
                    self.after_step()
            except Exception as error:
                self._fail(error)

        self._handles.append(register_optimizer_step_pre_hook(begin))
        self._handles.append(register_optimizer_step_post_hook(end))
        self._hook_phase(Optimizer, "zero_grad", OPTIMIZER)

    def _hook_copies(self) -> None:
        account, steps, thread = self._account, self._steps, self._thread

        def make(original: Any) -> Any:
            def move(tensor: Any, *args: Any, **options: Any) -> Any:
                if self._reading or _thread_id() != thread:
                    return original(tensor, *args, **options)
                self._reading = True
                start = perf_counter_ns()
                try:
                    moved = original(tensor, *args, **options)
                finally:
                    self._reading = False
                if moved is not tensor and isinstance(moved, torch.Tensor) and moved.is_cpu != tensor.is_cpu:
                    end = perf_counter_ns()
                    if moved.is_cpu:
                        self._add_sync(start, end, sys._getframe(1))
                    else:
                        account.charge(COPY, end - start)
                        steps.copied += tensor.numel() * tensor.element_size()
                return moved

            return move

        self._replace_method("to", make)
        self._replace_method("cuda", make)

    def _add_sync(self, start: int, end: int, frame: Any) -> None:
        self._account.charge(SYNC, end - start)
        if self._steps.use == EVALUATION:
            return
        place = place_name(find_line(frame))
        entry = self._syncs().setdefault(place, [0, 0])
        entry[0] += 1
        entry[1] += end - start

    def _hook_reads(self) -> None:
        thread = self._thread

        def make(original: Any) -> Any:
            def read(tensor: Any, *args: Any, **options: Any) -> Any:
                # A plain tensor on the CPU has its values; subclasses may stand for other devices.
                if (type(tensor) in _PLAIN and tensor.is_cpu) or _thread_id() != thread or self._reading:
                    return original(tensor, *args, **options)
                self._reading = True
                start = perf_counter_ns()
                try:
                    return original(tensor, *args, **options)
                finally:
                    self._reading = False
                    self._add_sync(start, perf_counter_ns(), sys._getframe(1))

            return read

        for name in _READS:
            self._replace_method(name, make)

        def make_wait(original: Any) -> Any:
            def wait(*args: Any, **options: Any) -> Any:
                if _thread_id() != thread:
                    return original(*args, **options)
                start = perf_counter_ns()
                try:
                    return original(*args, **options)
                finally:
                    self._add_sync(start, perf_counter_ns(), sys._getframe(1))

            return wait

        self._replace(torch.cuda, "synchronize", make_wait)

    def _hook_distributed(self) -> None:
        if not torch.distributed.is_available():
            return
        for name in _COLLECTIVES:
            self._hook_phase(torch.distributed, name, COMMUNICATION)
        self._hook_phase(torch.nn.parallel.DistributedDataParallel, "_sync_buffers", COMMUNICATION)

    def _hook_autocast(self) -> None:
        seen = self._seen

        def make(original: Any) -> Any:
            def enter(context: Any) -> Any:
                if context._enabled and torch.is_grad_enabled():
                    seen.autocast = context.fast_dtype
                return original(context)

            return enter

        self._replace(torch.autocast, "__enter__", make)
