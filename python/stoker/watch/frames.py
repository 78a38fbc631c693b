"""torch.compile leaves the watch's own frames alone: within a compiled function that calls our hooks where its graph
breaks, it would compile them, and warn of what it cannot trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

_TRACED = ("call", "discover", "inherited")  # around a module: compiled code begins with them


def hide_frames() -> None:
    """Marks all functions of this package."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:  # a release of PyTorch before 2.7
        return
    strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.DEFAULT)
    package = __name__.rpartition(".")[0] + "."
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            for code in _codes(vars(module), name):
                if code.co_name not in _TRACED:
                    set_code_exec_strategy(code, strategy)


def _codes(names: dict[str, Any], module: str) -> Iterator[CodeType]:
    """The functions and methods that a module defines, and the functions within them."""
    classes = [vars(value) for value in names.values() if type(value) is type]
    for value in (value for space in (names, *classes) for value in space.values()):
        function = value.fget if isinstance(value, property) else value
        if isinstance(function, FunctionType) and function.__module__ == module:
            yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
