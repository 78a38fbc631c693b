"""Hooks of the forward pass: of outermost modules only, because hooks of inner ones would cost more than they tell.

Compiled code sees no hook: while torch.compile or torch.export traces, a hook is what it replaces.
"""

from __future__ import annotations

import functools
import operator
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling

from stoker.watch.account import BACKWARD, FORWARD, WAIT
from stoker.watch.batches import InputNote
from stoker.watch.places import find_frames, place_of
from stoker.watch.seen import Facts, length_of
from stoker.watch.state import HookState
from stoker.watch.steps import EVALUATION

_Module: Any = torch.nn.Module
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DeepSpeedEngine")


def _names_in(module: Any) -> dict[str, Any]:
    """The names in a module of Python. One that waits for its first use (importlib.util.LazyLoader) still waits."""
    try:
        names = object.__getattribute__(module, "__dict__")
    except AttributeError:  # a program may put anything into sys.modules
        return {}
    return names if isinstance(names, dict) else {}


def _is_loading(module: Any) -> bool:
    """Whether a module of Python is being executed: a watch begins while the program imports torch."""
    return bool(getattr(_names_in(module).get("__spec__"), "_initializing", False))


def _inherited_by(kind: Any) -> Callable[..., Any]:
    """The call that a class inherits. Within a class of ours, `super` would refer to that one, and pickle to both."""

    def inherited(module: Any, *args: Any, **options: Any) -> Any:
        return super(kind, module).__call__(*args, **options)

    return inherited


def _wrapped(module: Any) -> list[Any]:
    """The modules that a wrapper of PyTorch, or one like it, calls: programs often evaluate those without it."""
    found: list[Any] = []
    while len(found) < 4:
        parts = _names_in(module).get("_modules")
        if not isinstance(parts, dict):  # of a module of TorchScript
            break
        inner = parts.get("_orig_mod")  # of torch.compile
        if inner is None and type(module).__name__ in _WRAPPERS:
            inner = parts.get("module", parts.get("_fsdp_wrapped_module"))
        if not isinstance(inner, _Module):
            break
        found.append(inner)
        module = inner
    return found


def _leads_to_no_loss(result: Any) -> bool:
    """Whether it is a plain tensor without gradients, such as a loss that is only printed."""
    return type(result) is torch.Tensor and not torch._C._len_torch_function_stack() and not result.requires_grad


class ModuleHooks:
    """The classes of modules that are called first get a hook of their own, and inner modules none.

    nn.Module itself is hooked in the first steps only, and not while a module runs.
    """

    def __init__(self, state: HookState) -> None:
        self._state = state
        self._original: Callable[..., Any] = _Module.__call__
        self._hooked: set[type] = set()
        self._discovers = False
        self._known: set[str] = set()  # modules of Python that were loaded before ours stood in nn.Module
        self._input = InputNote(state.steps, state.seen)
        self.uses: dict[int, bool] = {}  # of outermost modules by id: whether they have parameters
        self._references: dict[int, weakref.ref[Any]] = {}

    def install(self) -> None:
        state, original = self._state, self._original

        def discover(module: Any, *args: Any, **options: Any) -> Any:
            known = state.inside or not self._discovers or state.account.phase == BACKWARD
            if is_compiling() or known or not state.here():
                return original(module, *args, **options)
            own = vars(_Module)["__call__"] is discover  # else it is the program's, and calls ours
            if own:
                _Module.__call__ = original
            try:
                self._discovered(module)
                return self._outermost(original)(module, *args, **options)
            finally:
                if own and self._discovers and vars(_Module)["__call__"] is original:
                    _Module.__call__ = discover

        self._discovers = True
        self._known = {name for name, module in list(sys.modules.items()) if not _is_loading(module)}
        self._discover = discover
        state.patches.replace(_Module, "__call__", discover)

    def end_discovery(self) -> None:
        if self._discovers:
            self._discovers = False
            if vars(_Module)["__call__"] is self._discover:
                _Module.__call__ = self._original
            self._free_references()

    def _free_references(self) -> None:
        """Modules such as torch._dynamo.utils and torch.fx keep nn.Module.__call__ when they are loaded: not ours."""
        loaded = set(sys.modules)
        for name in loaded - self._known:
            names = _names_in(sys.modules.get(name))
            for key in [key for key, value in list(names.items()) if value is self._discover]:
                names[key] = self._original
        self._known = loaded

    def _discovered(self, module: Any) -> None:
        try:
            self._free_references()
            for kind in map(type, (module, *_wrapped(module))):
                if kind not in self._hooked:
                    self._hooked.add(kind)
                    self._hook_class(kind)
        except Exception as error:  # of its metaclass
            self._state.fail(error)

    def _hook_class(self, kind: Any) -> None:
        if "__call__" in vars(kind):
            self._state.replace(kind, "__call__", self._outermost)
            return
        hook = functools.wraps(self._original)(self._outermost(_inherited_by(kind)))
        self._state.patches.replace(kind, "__call__", hook)

    def _outermost(self, original: Any) -> Any:
        forward = Hook(self, original)

        def call(module: Any, *args: Any, **options: Any) -> Any:  # torch.compile looks into functions of Python
            if is_compiling():
                return original(module, *args, **options)
            return forward(module, *args, **options)

        return call

    def forward(self, original: Any, module: Any, args: Any, options: Any) -> Any:
        state, account = self._state, self._state.account
        # A forward pass within the backward pass computes again what checkpointing has dropped. A module that is called
        # while the loop waits for a batch, such as a transform of torchvision, belongs to the loader.
        if state.inside or account.phase in (BACKWARD, WAIT) or get_ident() != state.thread:
            return original(module, *args, **options)
        learning = self._called(module)
        if learning and self._input.wanted and self.uses.get(id(module)):
            self._note_input(id(module), [*args, *options.values()])
        before = account.enter(FORWARD)
        stays = False  # in this phase: the loss follows, and the backward pass
        looks = learning and state.around is not None
        try:
            if looks:
                state.around(module, True)
            state.inside = True
            result = original(module, *args, **options)
            stays = learning and not _leads_to_no_loss(result)
            return result
        finally:
            state.inside = False
            if looks and state.around is not None:
                state.around(module, False)
            if not stays:
                account.enter(before)
            if not learning:
                self._passed()

    def _note_input(self, model: int, inputs: list[Any]) -> None:
        try:
            self._input.add(model, inputs)
        except Exception as error:
            self._state.fail(error)

    def _called(self, module: Any) -> bool:
        """An outermost module is called: whether it learns. Only a call that trains, after others that did, changes
        nothing."""
        steps, key = self._state.steps, id(module)
        learning = False
        try:
            learning = bool(module.training) and torch.is_grad_enabled()
            if learning and steps.training and key in steps.trained:
                return True
            trains = self.uses.get(key)
            if trains is None:
                trains = self._note(module)
            if trains and learning:
                steps.trains(key)
                for inner in _wrapped(module):
                    steps.trains(self._follow(inner))
            elif trains:
                steps.predicts(key, not module.training)
        except Exception as error:
            self._state.fail(error)
        return learning

    def _passed(self) -> None:
        steps = self._state.steps
        try:
            steps.passed()
            if steps.use == EVALUATION and "val_samples" not in steps.evaluation:
                self._note_evaluation(steps.evaluation, sys._getframe(1))
        except Exception as error:
            self._state.fail(error)

    def _note_evaluation(self, facts: Facts, frame: FrameType) -> None:
        if "evaluation_place" not in facts:
            facts["evaluation_place"] = place_of(*find_frames(frame))
        note = self._state.steps.loader
        if note is not None:
            facts |= {"val_samples": length_of(note.dataset), "val_workers": note.workers, "val_loader_place": note.place}

    def _note(self, module: Any) -> bool:
        key = self._follow(module)
        with torch._C.DisableTorchFunction():  # the program's do not see our questions
            self.uses[key] = self._state.seen.note_module(module)
        return self.uses[key]

    def _follow(self, module: Any) -> int:
        """Its id, which is forgotten when it is gone."""
        key = id(module)
        if key in self._references:
            return key

        def forget(reference: Any) -> None:  # another object may get its id
            for known in (self.uses, self._references):
                known.pop(key, None)
            self._state.steps.forget(key)

        self._references[key] = weakref.ref(module, forget)
        return key


class Hook:
    """Calls an outermost module. A class that is pickled by value keeps the original instead."""

    __slots__ = ("_hooks", "_original")

    def __init__(self, hooks: ModuleHooks, original: Any) -> None:
        self._hooks = hooks
        self._original = original

    def __call__(self, module: Any, *args: Any, **options: Any) -> Any:
        return self._hooks.forward(self._original, module, args, options)

    def __reduce__(self) -> Any:
        return operator.getitem, ((self._original,), 0)
