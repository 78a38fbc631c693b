"""Hooks into PyTorch that keep the account. They call what they replace with the same arguments and return its result.

Each hook costs a microsecond or less, and nothing waits for the device that did not wait before.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from time import perf_counter_ns
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
from stoker.watch.fetch_clock import Patches
from stoker.watch.places import find_line, place_name
from stoker.watch.steps import EVALUATION, Steps

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


class Seen:
    """What the hooks have seen of the program; facts are made of it."""

    def __init__(self) -> None:
        self.loader: Any = None  # the training loader
        self.eval_loader: Any = None
        self.sample_bytes: int | None = None  # of a sample in the first batch
        self.batch_length: int | None = None
        self.model: Any = None  # the outermost module with the most parameters
        self.optimizer: Any = None
        self.autocast: torch.dtype | None = None
        self.device: torch.device | None = None
        self.parallel = False  # DataParallel


class Hooks:
    def __init__(self, account: Account, steps: Steps, seen: Seen, syncs: Callable[[], dict[str, list[int]]]) -> None:
        self._account = account
        self._steps = steps
        self._seen = seen
        self._syncs = syncs
        self._thread = _thread_id()
        self._patches = Patches()
        self._handles: list[Any] = []
        self._reading = False  # within a copy or a read: subclasses of Tensor call the hooks again
        self._inside = False  # an outermost module's forward pass
        self._base = UNMEASURED  # the phase around forward and backward: that of the optimizer within a closure
        self._module_uses: dict[int, bool] = {}  # id -> has parameters that train
        self.loader_start: Callable[[int], None] = lambda nanoseconds: None
        self.after_step: Callable[[], None] | None = None

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
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._patches.undo()

    def here(self) -> bool:
        return _thread_id() == self._thread

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            self._patches.replace(owner, name, functools.wraps(original)(make(original)))

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
                if _thread_id() != thread:
                    return original(loader)
                steps.before_iterator()
                before = account.enter(WAIT)
                start = perf_counter_ns()
                try:
                    iterator = original(loader)
                finally:
                    account.enter(before)
                    if loader.num_workers > 0:
                        self.loader_start(perf_counter_ns() - start)
                if isinstance(iterator, _BaseDataLoaderIter):
                    iterator.__dict__["_stoker_loader"] = loader
                    steps.loader_started(iterator)
                return iterator

            return begin

        def make_next(original: Any) -> Any:
            def following(iterator: Any) -> Any:
                if _thread_id() != thread:
                    return original(iterator)
                steps.asks(iterator)
                account.enter(WAIT)
                start = account.since
                ready = _ready_batches(iterator)
                try:
                    batch = original(iterator)
                except StopIteration:
                    steps.ended()
                    if iterator._num_workers > 0 and not iterator._persistent_workers:
                        self.loader_start(perf_counter_ns() - start)
                    raise
                finally:
                    account.enter(self._base)
                steps.got(_batch_length(batch), ready)
                if seen.sample_bytes is None:
                    seen.sample_bytes, seen.batch_length = _sample_bytes(batch), _batch_length(batch)
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
            if self._inside or _thread_id() != self._thread:
                return original(module, *args, **options)
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]
            kind: Any = type(module)
            try:
                if kind not in hooked:
                    hooked.add(kind)
                    self._replace(kind, "__call__", self._outermost)
                return self._outermost(original)(module, *args, **options)
            finally:
                if self._discovers:
                    torch.nn.Module.__call__ = discover  # type: ignore[method-assign]

        self._discovers = True
        self._patches.replace(torch.nn.Module, "__call__", discover)
        self._module_call = original

    def end_discovery(self) -> None:
        self._discovers = False
        torch.nn.Module.__call__ = self._module_call  # type: ignore[method-assign]

    def _outermost(self, original: Any) -> Any:
        account, steps, thread, seen = self._account, self._steps, self._thread, self._seen
        uses = self._module_uses
        grad_enabled = torch.is_grad_enabled

        def call(module: Any, *args: Any, **options: Any) -> Any:
            if self._inside or _thread_id() != thread:
                return original(module, *args, **options)
            key = id(module)
            trains = uses.get(key)
            if trains is None:
                trains = self._note_module(module)
            learning = module.training and grad_enabled()
            if trains:
                if learning:
                    steps.trains(key)
                else:
                    steps.predicts(key, not module.training)
            before = account.enter(FORWARD)
            self._inside = True
            try:
                return original(module, *args, **options)
            finally:
                self._inside = False
                if not learning:  # else the loss follows, and the backward pass
                    account.enter(before)
                    steps.passed()
                    if seen.eval_loader is None and steps.use == EVALUATION and steps.iterator is not None:
                        seen.eval_loader = steps.iterator.__dict__.get("_stoker_loader")

        return call

    def _note_module(self, module: Any) -> bool:
        size = sum(int(parameter.numel()) for parameter in module.parameters())
        self._module_uses[id(module)] = size > 0
        known = self._seen.model
        if size > 0 and (known is None or size > sum(p.numel() for p in known.parameters())):
            self._seen.model = module
            self._seen.device = next(module.parameters()).device
        if isinstance(module, torch.nn.DataParallel):
            self._seen.parallel = True
        return size > 0

    def _hook_backward(self) -> None:
        account, steps, thread = self._account, self._steps, self._thread

        def make(original: Any) -> Any:
            def backward(*args: Any, **options: Any) -> Any:
                if _thread_id() != thread:
                    return original(*args, **options)
                steps.trains()
                steps.backwards += 1
                account.enter(BACKWARD)
                try:
                    return original(*args, **options)
                finally:
                    account.enter(self._base)

            return backward

        self._replace(torch.autograd, "backward", make)
        self._replace(torch.autograd, "grad", make)

    def _hook_optimizers(self) -> None:
        account, steps, thread, seen = self._account, self._steps, self._thread, self._seen

        def begin(optimizer: Optimizer, args: Any, options: Any) -> None:
            if _thread_id() == thread:
                self._base = OPTIMIZER
                account.enter(OPTIMIZER)

        def end(optimizer: Optimizer, args: Any, options: Any) -> None:
            if _thread_id() == thread:
                self._base = UNMEASURED
                account.enter(UNMEASURED)
                seen.optimizer = optimizer
                if seen.loader is None and steps.iterator is not None:
                    seen.loader = steps.iterator.__dict__.get("_stoker_loader")
                steps.stepped(optimizer)
                if self.after_step is not None:
                    self.after_step()

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
                if moved is not tensor and moved.is_cpu != tensor.is_cpu:
                    end = perf_counter_ns()
                    if moved.is_cpu:
                        self._add_sync(start, end, sys._getframe(1))
                    else:
                        account.charge(COPY, end - start)
                        steps.copied += tensor.numel() * tensor.element_size()
                return moved

            return move

        self._replace(torch.Tensor, "to", make)
        self._replace(torch.Tensor, "cuda", make)

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
            self._replace(torch.Tensor, name, make)

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
            original = getattr(torch.distributed, name, None)
            self._hook_phase(torch.distributed, name, COMMUNICATION)
            inner = torch.distributed.distributed_c10d
            if original is not None and getattr(inner, name, None) is original:
                self._patches.replace(inner, name, getattr(torch.distributed, name))
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


def _ready_batches(iterator: Any) -> int | None:
    """Batches that workers have finished; None without workers, or where queues cannot be counted."""
    queue = getattr(iterator, "_data_queue", None)
    if queue is None:
        return None
    try:
        return int(queue.qsize())
    except NotImplementedError:
        return None


def _first_tensor(batch: Any) -> torch.Tensor | None:
    for _ in range(4):
        if isinstance(batch, torch.Tensor):
            return batch
        if isinstance(batch, dict):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        else:
            break
    return None


def _batch_length(batch: Any) -> int:
    """Samples of a batch: the first size of its first tensor."""
    tensor = _first_tensor(batch)
    return 0 if tensor is None else int(tensor.shape[0]) if tensor.dim() > 0 else 1


def _sample_bytes(batch: Any) -> int:
    tensor = _first_tensor(batch)
    return 0 if tensor is None else tensor.numel() * tensor.element_size() // max(1, _batch_length(batch))
