"""What all hooks share: the account, the steps, the thread that is watched, and what stands in PyTorch's place."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch

from stoker.watch.account import UNMEASURED, Account
from stoker.watch.patches import Method, Patches
from stoker.watch.seen import Seen
from stoker.watch.steps import Steps


class HookState:
    def __init__(self, account: Account, steps: Steps, seen: Seen) -> None:
        self.account = account
        self.steps = steps
        self.seen = seen
        self.patches = Patches()
        # None when the watch has ended: a hook may stay below one of the program's, and then passes everything on.
        self.thread: int | None = get_ident()
        self.inside = False  # an outermost module runs
        self.base = UNMEASURED  # the phase after a batch or a backward pass; within an optimizer's closure its own
        self.in_backward = False  # the running step of an optimizer lies within a backward pass
        self.stepped_in_backward = False  # an optimizer has made its step within the running backward pass
        self.fault: Exception | None = None  # of the watch, which then ended
        self.on_fault: Callable[[], None] = lambda: None

    def here(self) -> bool:
        return get_ident() == self.thread

    def fail(self, error: Exception) -> None:
        self.fault = self.fault or error
        self.on_fault()

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Puts `make(what is there)` in its place, also where pickle looks for it."""
        original = getattr(owner, name, None)
        if original is None:
            return
        hook = functools.wraps(original)(make(original))
        home = sys.modules.get(getattr(original, "__module__", None) or "")
        if home is not owner and getattr(home, name, None) is original:
            self.patches.replace(home, name, hook)
        self.patches.replace(owner, name, hook)

    def replace_method(self, name: str, make: Callable[[Any], Any]) -> None:
        """As `replace`, for a method of Tensor."""
        original = getattr(torch.Tensor, name)
        self.patches.replace(torch.Tensor, name, Method(torch.Tensor, name, original, make(original)))

    def replace_phase(self, owner: Any, name: str, phase: int) -> None:
        """A function whose whole time belongs to `phase`."""
        account = self.account

        def make(original: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                if account.phase == phase or get_ident() != self.thread:
                    return original(*args, **options)
                before = account.enter(phase)
                try:
                    return original(*args, **options)
                finally:
                    account.enter(before)

            return call

        self.replace(owner, name, make)
