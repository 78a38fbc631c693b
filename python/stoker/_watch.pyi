# The extension module (python/src/watch) with the hooks that run in every step. stoker/watch is its only user.
from collections.abc import Callable
from typing import Any
from weakref import ref

PHASES: tuple[str, ...]
SUMS: tuple[str, ...]  # of a FetchClock, at the beginning

def learn(
    tensor: type, parameter: type, module: type, modes: Callable[[], int], with_grad: Callable[[], bool], /
) -> None: ...

class Account:
    @property
    def phase(self) -> int: ...
    @property
    def since(self) -> int: ...
    @property
    def times(self) -> list[int]: ...
    def enter(self, phase: int, /) -> int: ...
    def charge(self, phase: int, nanoseconds: int, /) -> None: ...
    def take(self, phase: int = ..., /) -> list[int]: ...

class StepRows:
    @property
    def steps(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def samples(self) -> int: ...
    until: int
    due: Callable[[], None] | None
    paused: bool
    def take_lines(self, rank: int, /) -> tuple[str, list[int]]: ...

class StepState:
    @property
    def rows(self) -> StepRows: ...
    training: bool  # it is decided: a proof of training changes nothing
    in_parts: bool  # some of the step's time has been settled
    asked: ref[Any] | None  # the iterator of the last batch, while its next one changes nothing
    optimizer: ref[Any] | None  # the one that counts
    @property
    def trained(self) -> set[int]: ...  # ids of modules
    per_batch: int  # samples in a batch of the loader: 0 where each is measured; -1 before its first one
    batches: int  # that are in no step and no evaluation yet
    samples: int  # likewise
    ready: int  # batches that workers had finished; -1 where that is not known
    copied: int  # bytes to the device since the last boundary
    others: int  # steps of other optimizers since the one that counts has made one
    epoch: int
    backwards: int
    def __init__(self, account: Account, rows: StepRows, /) -> None: ...
    def close(self, parts: list[int] | None, /) -> None: ...

class HookFlags:
    thread: int  # that is watched; 0 after the end
    base: int  # the phase after a batch or a backward pass; within an optimizer's closure its own
    inside: bool  # an outermost module runs
    in_backward: bool  # the running step of an optimizer lies within a backward pass
    stepped_in_backward: bool  # an optimizer has made its step within the running backward pass
    around: Callable[[Any, bool], None] | None  # before (True) and after an outermost module that learns
    steady: bool  # nothing is to be done after a step but to write it down
    def __init__(self, account: Account, steps: StepState, fail: Callable[[Exception], None], /) -> None: ...

class Hook:
    def __init__(
        self,
        kind: str,
        flags: HookFlags,
        original: Any,
        *,
        calls: tuple[Callable[..., Any], ...] = ...,
        number: int = ...,
        sums: Any = None,
        place: tuple[type, str] | None = None,
        owner: type | None = None,
    ) -> None: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...
