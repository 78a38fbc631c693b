"""What stands in the place of PyTorch's functions while a watch runs, and what stood there before.

What the program has put in the place of ours stays there when the watch ends. It may call ours, which then passes on.
"""

from __future__ import annotations

from typing import Any

from torch.jit import _builtins

_script: Any = _builtins  # operators of TorchScript by the ids of functions


class Patches:
    """Attributes that were replaced, to put them back."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any, bool]] = []  # owner, name, ours, the former, whether its own
        self._scripted: list[int] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        own = name in vars(owner)
        self._replaced.append((owner, name, value, vars(owner)[name] if own else None, own))
        setattr(owner, name, value)

    def replace_operator(self, owner: Any, name: str, value: Any) -> None:
        """As `replace`, for what TorchScript may know: it finds operators by the ids of functions."""
        original = getattr(owner, name)
        operator = _script._find_builtin(
            getattr(original, "op", original)
        )  # of a function, or of an entry of torch.ops
        self.replace(owner, name, value)
        if operator is not None:
            _script._register_builtin(value, operator)
            self._scripted.append(id(value))

    def undo(self) -> None:
        while self._scripted:  # another function may get the id
            _script._get_builtin_table().pop(self._scripted.pop(), None)
        while self._replaced:
            owner, name, ours, before, own = self._replaced.pop()
            if vars(owner).get(name) is not ours:
                continue  # the program has put something else there
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)
