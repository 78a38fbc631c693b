"""What stands in the place of PyTorch's functions while a watch runs, and what stood there before.

What the program has put in the place of ours stays there when the watch ends. It may call ours, which then passes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any


class Patches:
    """Attributes that were replaced, to put them back."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any, bool]] = []  # owner, name, ours, what was there, whether its own

    def replace(self, owner: Any, name: str, value: Any) -> None:
        own = name in vars(owner)
        self._replaced.append((owner, name, value, vars(owner)[name] if own else None, own))
        setattr(owner, name, value)

    def undo(self) -> None:
        while self._replaced:
            owner, name, ours, before, own = self._replaced.pop()
            if vars(owner).get(name) is not ours:
                continue  # the program has put something else there
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)


class Method:
    """In the place of a method of Tensor. Equal to it, because programs look methods up in sets and tables of their own."""

    def __init__(self, owner: type, name: str, original: Any, call: Callable[..., Any]) -> None:
        functools.update_wrapper(self, original)
        functools.update_wrapper(call, original)  # bound methods, and pickle, have the name from there
        self._place = (owner, name)
        self._original = original
        self._call = call

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self._call, instance)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._original

    def __hash__(self) -> int:
        return hash(self._original)

    def __reduce__(self) -> Any:
        return getattr, self._place
