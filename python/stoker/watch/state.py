"""Shared by all hooks: the account, the steps, the thread that is watched, and the objects that replace PyTorch's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType, MethodType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim import Optimizer

from stoker.watch.account import UNMEASURED, Account
from stoker.watch.patches import Patches
from stoker.watch.seen import Seen
from stoker.watch.steps import Steps

_STEP: Any = Optimizer.profile_hook_step(lambda: None).__code__  # of the frame in which an optimizer makes its step


class HookState:
    def __init__(self, account: Account, steps: Steps, seen: Seen) -> None:
        self.account = account
        self.steps = steps
        self.seen = seen
        self.patches = Patches()
        self.thread = get_ident()  # that is watched; 0 after the end, when hooks pass everything on
        self.base = UNMEASURED  # the phase after a batch or a backward pass; within an optimizer's closure its own
        self.inside = False  # an outermost module runs
        self.begun = False  # a step of an optimizer that is not counted yet
        self.in_backward = False  # the running step of an optimizer lies within a backward pass
        self.stepped_in_backward = False  # an optimizer has made its step within the running backward pass
        self.around: Callable[[Any, bool], None] | None = None  # before and after an outermost module that learns
        self.fault: Exception | None = None  # of the watch, which then ended
        self.on_fault: Callable[[], None] = lambda: None
        self.loop_begins: Callable[[], None] = lambda: None  # called before each loop over a loader

    def here(self) -> bool:
        return get_ident() == self.thread

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within it, hooks pass everything on: work of the watch itself."""
        thread, self.thread = self.thread, 0
        try:
            yield
        finally:
            self.thread = thread

    def fail(self, error: Exception) -> None:
        # Tracebacks hold frames of the program, and those its tensors.
        error.__traceback__ = error.__context__ = error.__cause__ = None
        self.fault = self.fault or error
        self.on_fault()

    def settle_base(self) -> None:
        """A step of an optimizer that has raised left its phase behind. In a closure, its step runs."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is _STEP:
                return
            frame = frame.f_back
        self.base = UNMEASURED

    def end(self) -> None:
        """A hook may stay below one of the program's, and then passes everything on."""
        self.thread = 0

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Puts `make(what is there)` in its place, also where pickle looks for it."""
        original = getattr(owner, name, None)
        if original is None:
            return
        hook = functools.wraps(original)(make(original))
        home = sys.modules.get(getattr(original, "__module__", None) or "")
        if home is not owner and getattr(home, name, None) is original:
            self.patches.replace(home, name, hook)
        self.patches.replace_operator(owner, name, hook)

    def replace_method(self, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        """As `replace`, for a method of Tensor."""
        original = getattr(torch.Tensor, name)
        self.patches.replace(torch.Tensor, name, MethodHook(original, make(original)))

    def replace_phase(self, owner: Any, name: str, phase: int) -> None:
        """A function whose whole time belongs to `phase`."""
        account = self.account

        def make(original: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                if is_compiling() or account.phase == phase or get_ident() != self.thread:
                    return original(*args, **options)
                before = account.enter(phase)
                try:
                    return original(*args, **options)
                finally:
                    account.enter(before)

            return call

        self.replace(owner, name, make)


class MethodHook:
    # Stands for a method of Tensor and is equal to it: programs look methods up in sets and tables, and torch.compile
    # tells them by their class and by where they are from.

    # Python looks these up in the class before it asks `__getattr__`.
    __class__ = property(lambda self: type(self._original))  # type: ignore[assignment]
    __module__ = property(lambda self: self._original.__module__)  # type: ignore[assignment]
    __doc__ = property(lambda self: self._original.__doc__)  # type: ignore[assignment]

    def __init__(self, original: Any, call: Callable[..., Any]) -> None:
        self._original = original
        self._call = functools.wraps(original)(call)

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        return self if tensor is None else MethodType(self._call, tensor)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._original == other)

    def __hash__(self) -> int:
        return hash(self._original)

    def __reduce__(self) -> Any:
        return getattr, (torch.Tensor, self._original.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
