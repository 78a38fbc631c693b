"""What all hooks share: the account, the steps, the thread that is watched, and what stands in PyTorch's place."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim import Optimizer

from stoker._watch import Hook, HookFlags, learn
from stoker.watch.account import UNMEASURED, Account
from stoker.watch.patches import Patches
from stoker.watch.seen import Seen
from stoker.watch.steps import Steps

learn(torch.Tensor, torch.nn.Parameter, torch.nn.Module, torch._C._len_torch_function_stack, torch.is_grad_enabled)

_STEP: Any = Optimizer.profile_hook_step(lambda: None).__code__  # of the frame in which an optimizer makes its step


class HookState(HookFlags):
    account: Account
    steps: Steps

    def __init__(self, account: Account, steps: Steps, seen: Seen) -> None:
        super().__init__(account, steps, self.fail)
        self.seen = seen
        self.patches = Patches()
        self.fault: Exception | None = None  # of the watch, which then ended
        self.on_fault: Callable[[], None] = lambda: None
        self.loop_begins: Callable[[], None] = lambda: None  # called before each loop over a loader

    def here(self) -> bool:
        return get_ident() == self.thread

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

    def hook(self, kind: str, original: Any, *calls: Callable[..., Any], number: int = 0, sums: Any = None) -> Hook:
        return Hook(kind, self, original, calls=calls, number=number, sums=sums)

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

    def replace_function(self, owner: Any, name: str, make: Callable[[Any], Hook]) -> None:
        """As `replace`, for what torch.compile may trace: it looks into functions, and stops at a bare hook."""

        def make_function(original: Any) -> Any:
            hook = make(original)

            def call(*args: Any, **options: Any) -> Any:
                if is_compiling():
                    return original(*args, **options)
                return hook(*args, **options)

            return call

        self.replace(owner, name, make_function)

    def replace_method(self, name: str, kind: str, *calls: Callable[..., Any]) -> None:
        """As `replace`, for a method of Tensor, whose class torch.compile must find."""
        original = getattr(torch.Tensor, name)
        hook: Any = Hook(kind, self, original, calls=calls, place=(torch.Tensor, name))
        hook.__name__, hook.__qualname__, hook.__doc__ = original.__name__, original.__qualname__, original.__doc__
        self.patches.replace(torch.Tensor, name, hook)

    def replace_phase(self, owner: Any, name: str, phase: int) -> None:
        """A function whose whole time belongs to `phase`."""
        self.replace_function(owner, name, lambda original: self.hook("phase", original, number=phase))
