"""Begins the watch of a program when the program has loaded PyTorch, and not before: what it sets until then counts, as
OMP_NUM_THREADS and TORCH_LOGS do, which PyTorch reads once.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stoker.watch.verdict import say

if TYPE_CHECKING:
    from stoker.watch.run import Watch


class DelayedWatch:
    """Watches the main thread of this process. It is one of Python's finders of modules until torch is loaded.

    name: "watch" or "bottleneck". paths: as for Watch. An error is a line on stderr: the program goes on.
    """

    def __init__(self, name: str, paths: Sequence[Path | None], fix: dict[str, Any] | None = None) -> None:
        self._name = name
        self._fix = fix  # arguments of FixOptions
        self._paths = paths
        self._pid = os.getpid()
        self._begun = False
        self._watch: Watch | None = None

    def wait(self) -> None:
        if "torch" in sys.modules:  # Python has loaded it already
            self._begin()
        else:
            sys.meta_path.insert(0, self)

    def finish(self, status: int | None) -> None:
        """Prints the verdict, or that there is none. status: of the program; None after Ctrl-C."""
        if os.getpid() != self._pid:  # a child that the program has forked
            return
        self._leave()
        if self._watch is not None:
            self._watch.finish(failed=status != 0)
        elif not self._begun:
            say(f"stoker {self._name}: the program did not import torch, so nothing was watched")

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """The spec that others find. A program may also ask where torch is without loading it."""
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    _tell(spec.loader, self._loaded)
                return spec
        return None

    def _loaded(self) -> None:
        self._leave()
        if os.getpid() == self._pid and not self._begun:
            self._begin()

    def _leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _begin(self) -> None:
        self._begun = True
        try:
            from stoker.watch.run import Watch

            fix = None
            if self._fix is not None:
                from stoker.watch.fix.report import FixOptions

                fix = FixOptions(**self._fix)
            watch = Watch(*self._paths, profiled=self._name == "bottleneck", thread=threading.main_thread(), fix=fix)
            watch.start()
            self._watch = watch
        except Exception as error:
            say(f"stoker {self._name}: nothing is watched: {str(error) or type(error).__name__}")


def _tell(loader: Any, loaded: Callable[[], None]) -> None:
    """Makes the loader of one module call `loaded` when that has been executed. It is a loader as any other before."""
    execute = loader.exec_module

    def execute_and_tell(module: ModuleType) -> None:
        del loader.exec_module  # that of its class is there again
        execute(module)
        loaded()

    loader.exec_module = execute_and_tell
