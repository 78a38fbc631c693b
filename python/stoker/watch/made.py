"""The lines on which the program makes loaders and optimizers: each gets its line as text, to keep nothing alive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any
from weakref import WeakValueDictionary

from torch.compiler import is_compiling
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from stoker.watch.places import find_frames, place_of
from stoker.watch.seen import PLACE, SOURCE, attribute_of, place_on
from stoker.watch.state import HookState


class MadeHooks:
    """Costs microseconds for each object, and nothing in a step."""

    def __init__(self, state: HookState) -> None:
        self._state = state
        self._loaders: WeakValueDictionary[int, Any] = WeakValueDictionary()  # that the program makes itself, by id

    def install(self) -> None:
        for kind in (DataLoader, Optimizer):
            self._state.replace(kind, "__init__", self._noting)

    def _noting(self, original: Any) -> Any:
        state = self._state

        def init(made: Any, /, *args: Any, **options: Any) -> Any:
            done = original(made, *args, **options)
            if not is_compiling() and state.here():
                try:
                    self._note(made, _maker(made, sys._getframe(1)))
                except Exception as error:
                    state.fail(error)
            return done

        return init

    def _note(self, made: Any, frame: FrameType | None) -> None:
        own, package = find_frames(frame)
        place = place_of(own, package)
        source = None if own is None or package is not None else (own.f_code.co_filename, own.f_lineno)
        if isinstance(made, DataLoader):
            if package is None:
                self._loaders[id(made)] = made
            else:
                place, source = self._first_place(attribute_of(made, "dataset")) or (place, source)
        object.__setattr__(made, PLACE, place)  # past methods of its class, which may count attributes
        object.__setattr__(made, SOURCE, source)

    def _first_place(self, data: Any) -> tuple[str, Any] | None:
        """Lightning and Accelerate make a loader anew: the line to change is that of the program's own over its data.

        None where several lines have made one.
        """
        loaders = [own for own in list(self._loaders.values()) if attribute_of(own, "dataset") is data]
        places = {(place_on(own), attribute_of(own, SOURCE)) for own in loaders}
        return places.pop() if len(places) == 1 else None


def _maker(made: Any, frame: FrameType | None) -> FrameType | None:
    """The frame that makes an object, past the constructors of its class, some of them perhaps the program's."""
    constructors = set(_constructors(type(made)))
    while frame is not None and frame.f_code in constructors:
        frame = frame.f_back
    return frame


def _constructors(kind: type) -> Iterator[CodeType]:
    """With those that others have wrapped, as Lightning does for a while."""
    for owner in kind.__mro__:
        function: Any = vars(owner).get("__init__")
        while function is not None:
            if hasattr(function, "__code__"):
                yield function.__code__
            function = getattr(function, "__wrapped__", None)
