"""Hooks of copies between host and device, and of reads, which make the host wait for the device.

Each has the time that no other hook within it has. Whether a tensor is on the CPU is asked past `__torch_function__`,
so that modes and subclasses of the program see the calls that they saw before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling

from stoker.watch.account import COPY, SYNC
from stoker.watch.places import find_frames, place_of
from stoker.watch.state import HookState
from stoker.watch.steps import EVALUATION

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_unseen = torch._C.DisableTorchFunction

# Methods that wait for the device if the tensor is not on the CPU.
_READS = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")


def _is_plain(tensor: Any) -> bool:
    """A plain tensor on the CPU has its values; subclasses may stand for other devices."""
    if type(tensor) not in _PLAIN:
        return False
    with _unseen():
        return bool(tensor.is_cpu)


class TransferHooks:
    """syncs: the reads noted, as place -> [count, nanoseconds]."""

    def __init__(self, state: HookState, syncs: Callable[[], dict[str, list[int]]]) -> None:
        self._state = state
        self._syncs = syncs
        self._reading = False  # a read of a tensor runs, which may be made of others
        self._moving = False

    def install(self) -> None:
        state = self._state
        for name in ("to", "cuda"):
            state.replace_method(name, self._move)
        for name in _READS:
            state.replace_method(name, self._read)
        state.replace(torch.cuda, "synchronize", self._wait)

    def _move(self, original: Any) -> Any:
        state, account = self._state, self._state.account

        def move(tensor: Any, *args: Any, **options: Any) -> Any:
            if self._moving or self._reading or get_ident() != state.thread:
                return original(tensor, *args, **options)
            self._moving = True
            start = account.running()
            try:
                moved = original(tensor, *args, **options)
            finally:
                self._moving = False
            if moved is not tensor:
                self._moved(tensor, moved, account.running() - start)
            return moved

        return move

    def _read(self, original: Any) -> Any:
        state = self._state

        def read(tensor: Any, *args: Any, **options: Any) -> Any:
            if self._reading or get_ident() != state.thread or _is_plain(tensor) or is_compiling():
                return original(tensor, *args, **options)
            return self._timed(original, tensor, *args, **options)

        return read

    def _wait(self, original: Any) -> Any:
        state = self._state

        def wait(*args: Any, **options: Any) -> Any:
            if is_compiling() or self._reading or get_ident() != state.thread:
                return original(*args, **options)
            return self._timed(original, *args, **options)

        return wait

    def _timed(self, original: Any, *args: Any, **options: Any) -> Any:
        account = self._state.account
        self._reading = True
        start = account.running()
        try:
            return original(*args, **options)
        finally:
            self._reading = False
            self._waited(account.running() - start)

    def _moved(self, tensor: Any, moved: Any, nanoseconds: int) -> None:
        """`moved` is another tensor, and both may be anywhere."""
        try:
            with _unseen():
                if not isinstance(moved, torch.Tensor) or moved.is_cpu == tensor.is_cpu:
                    return
                to_host, size = moved.is_cpu, tensor.numel() * tensor.element_size()
            if to_host:
                self._add(nanoseconds, sys._getframe(1))
            else:
                self._state.account.charge(COPY, nanoseconds)
                self._state.steps.copied += size
        except Exception as error:
            self._state.fail(error)

    def _waited(self, nanoseconds: int) -> None:
        try:
            self._add(nanoseconds, sys._getframe(1))
        except Exception as error:
            self._state.fail(error)

    def _add(self, nanoseconds: int, frame: FrameType) -> None:
        self._state.account.charge(SYNC, nanoseconds)
        if self._state.steps.use == EVALUATION:
            return
        entry = self._syncs().setdefault(place_of(*find_frames(frame)) or "unknown", [0, 0])
        entry[0] += 1
        entry[1] += nanoseconds
