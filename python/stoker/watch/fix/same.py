"""Whether two ways give the same batch, and whether they do from the same random state."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


def is_same(one: Any, other: Any) -> bool:
    """Bit for bit: tensors and arrays of the same type and shape, in the same structure."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return _is_same_tensor(one, other)
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:  # objects of the program that cannot be compared
        return False


def _is_same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or one.layout != other.layout:
        return False
    if one.layout is not torch.strided or one.is_quantized:
        return bool(torch.equal(one, other))
    one, other = one.detach().contiguous(), other.detach().contiguous()
    return bool(torch.equal(one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)))


def difference(one: Any, other: Any) -> float:
    """The largest difference of two batches of the same structure; infinite where structure or integers differ."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            return float("inf")
        if not one.is_floating_point():
            return 0.0 if torch.equal(one, other) else float("inf")
        return float((one - other).abs().max()) if one.numel() else 0.0
    if isinstance(one, Mapping) and isinstance(other, Mapping) and list(one) == list(other):
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return max(map(difference, one, other), default=0.0)
    return 0.0 if is_same(one, other) else float("inf")


@dataclass(frozen=True, eq=False)
class RandomState:
    """The global generators of `random`, NumPy and torch."""

    python: Any
    torch: torch.Tensor
    numpy: Any  # None: the program has not loaded it

    @staticmethod
    def now() -> RandomState:
        numpy: Any = sys.modules.get("numpy.random")
        return RandomState(random.getstate(), torch.get_rng_state(), None if numpy is None else numpy.get_state())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RandomState):
            return NotImplemented
        return self.python == other.python and is_same((self.torch, self.numpy), (other.torch, other.numpy))

    def restore(self) -> None:
        random.setstate(self.python)
        torch.set_rng_state(self.torch)
        if self.numpy is not None:
            sys.modules["numpy.random"].set_state(self.numpy)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """The generators are afterwards as they were."""
    state = RandomState.now()
    try:
        yield
    finally:
        state.restore()


def file_offsets(of: dict[str, str] | None = None) -> dict[str, str]:
    """The positions in the regular files that this process has open, or in those of `of`, by their descriptors."""
    offsets = {}
    for number in os.listdir("/proc/self/fd") if of is None else of:
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.isfile(f"/proc/self/fd/{number}"):
                with open(f"/proc/self/fdinfo/{number}") as info:
                    offsets[number] = info.readline()
    return offsets


class Replayed:
    """The indices of a batch that a worker loads from a given random state, and then puts back its own."""

    def __init__(self, index: Any, state: RandomState) -> None:
        self.index = index
        self.state = state

    def load(self, fetch: Callable[[Any], Any]) -> Any:
        with kept_random_state():
            self.state.restore()
            return fetch(self.index)
