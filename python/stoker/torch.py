"""What needs torch: batches on their way to a device."""

from __future__ import annotations

from collections import UserDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from stoker._mappings import with_items, with_parts
from stoker.errors import InvalidArgument


class DevicePrefetcher:
    """Copies the batches of any loader to a device, one ahead of their use.

        for batch in stoker.torch.DevicePrefetcher(loader, "cuda"):
            ...

    On a CUDA device the copies run on a stream of their own beside the training step, which waits for the copy and not
    for the loader. The device's memory is not reused before the step has read it. The loader's memory is held until
    the copy has ended; a loader that writes again to pinned memory that it has handed out must wait for the copy
    itself. On the CPU batches pass through as they are. An error of the loader is raised after the batches before it
    were handed out.

    loader: yields tensors, objects with a method `to`, or dicts, lists and tuples of them; other values pass through.
        Its `set_epoch`, `state_dict` and `load_state_dict` are called by those here; a state is that of the batch that
        was handed out last.
    device: default: the current CUDA device, where there is one, otherwise the CPU.
    """

    def __init__(self, loader: Iterable[Any], device: torch.device | str | int | None = None) -> None:
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.loader = loader
        self.device = require_device(device)
        self._state: Any = None  # of the loader at the batch that was handed out last, while the loader is ahead
        self._copier: _Copier | None = None  # with a stream, for which the device keeps memory: one for all passes

    def __len__(self) -> int:
        length: int = len(self.loader)  # type: ignore[arg-type]
        return length

    def __iter__(self) -> Iterator[Any]:
        """The batches of one pass of the loader. One iterator at a time."""
        self._state = None
        if self.device.type == "cpu":
            return iter(self.loader)
        if self._copier is None:
            self._copier = (_CudaCopier if self.device.type == "cuda" else _Copier)(self.device)
        return self._ahead(self._copier)

    def set_epoch(self, epoch: int) -> None:
        self._state = None
        self.loader.set_epoch(epoch)  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_copier": None}

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._state if self._state is not None else self._loader_state()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._state = None
        self.loader.load_state_dict(state)  # type: ignore[attr-defined]

    def forget_state(self) -> None:
        """The loader was given another position."""
        self._state = None

    def _loader_state(self) -> Any:
        return self.loader.state_dict()  # type: ignore[attr-defined]

    def _ahead(self, copier: _Copier) -> Iterator[Any]:
        """Begins the copy of the next batch before it hands out the one before."""
        batches = iter(self.loader)
        states = _States(self.loader)
        self._state = states.first()
        copies: deque[tuple[Any, Any]] = deque()  # with the loader's state after the batch
        error = None
        try:
            while error is None:
                try:
                    batch = next(batches)
                except StopIteration:
                    break
                except Exception as raised:
                    error = raised
                    break
                copies.append((copier.begin(batch), states.now()))
                if len(copies) == 2:
                    copy, self._state = copies.popleft()
                    yield copier.finish(copy)
            while copies:
                copy, self._state = copies.popleft()
                yield copier.finish(copy)
            self._state = None
            if error is not None:
                raise error
        finally:
            copier.end()
            del error, batches  # the error's traceback has this frame: a cycle would keep the loader


class _States:
    """States of a loader, which may have the method and not what it needs, as Accelerate's: then it has none, and the
    program's own call of `state_dict` says so."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._has = hasattr(loader, "state_dict")
        self._worked = False

    def first(self) -> Any:
        """The state before the first batch, which a loader may not have yet."""
        try:
            state = self._loader.state_dict() if self._has else None
            self._worked = True
            return state
        except Exception:
            return None

    def now(self) -> Any:
        try:
            state = self._loader.state_dict() if self._has else None
        except (AttributeError, NotImplementedError, TypeError):
            if self._worked:
                raise
            self._has = False
            return None
        self._worked = True
        return state


class LateNormalize:
    """Makes the images of batches that lie on a device as bytes: (x / 255 - mean) / std, with the loader's own bits.

    dtype: "float32", "float16" or "bfloat16". norms: mean and std of each image, by its key in a batch.
    """

    def __init__(self, dtype: str, norms: Mapping[Any, tuple[Any, Any]]) -> None:
        self._dtype: torch.dtype = getattr(torch, dtype)
        self._norms = norms
        self._factors: dict[Any, torch.Tensor] = {}  # of the images, by their device

    def __call__(self, batch: Any) -> Any:
        """The same dict or tuple with other images."""
        made = {key: self._image(key, batch[key]) for key in self._norms}
        if isinstance(batch, tuple):
            return tuple(made.get(place, value) for place, value in enumerate(batch))
        return {**batch, **made}

    def _image(self, key: Any, pixels: torch.Tensor) -> torch.Tensor:
        if key not in self._factors:
            self._factors[key] = _factors(*self._norms[key]).to(pixels.device)
        scale, bias = self._factors[key]
        scaled = pixels * scale
        made = scaled if scaled.dtype is self._dtype else torch.empty_like(scaled, dtype=self._dtype)
        return torch.add(scaled, bias, out=made)


def _factors(mean: Any, std: Any) -> torch.Tensor:
    """(2, C, 1, 1): x * scale + bias is (x / 255 - mean) / std, as in src/stoker/ops/normalize.cpp."""
    given = (torch.tensor(value, dtype=torch.float64).float().double() for value in (mean, std))
    mean, std = torch.broadcast_tensors(*given)
    return torch.stack([1 / (255 * std), -mean / std]).float().view(2, -1, 1, 1)


class _Copier:
    """Copies at once, for devices without streams of ours."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def begin(self, batch: Any) -> Any:
        return map_tensors(lambda tensor: tensor.to(self.device), batch, self._move)

    def finish(self, copy: Any) -> Any:
        return copy

    def end(self) -> None:
        """A pass is over, or was left."""

    def _move(self, value: Any) -> Any:
        """An object that moves its tensors itself, such as a PackedSequence or a batch of graphs."""
        return value.to(self.device) if callable(getattr(type(value), "to", None)) else value


class _CudaCopier(_Copier):
    """Copies on a separate stream."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._stream = torch.cuda.Stream(device)
        self._sources: deque[tuple[torch.cuda.Event, Any]] = deque()  # host memory that copies may still read

    def begin(self, batch: Any) -> Any:
        while self._sources and self._sources[0][0].query():
            self._sources.popleft()
        done = torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            copy = map_tensors(self._begun, batch)
            done.record(self._stream)
        self._sources.append((done, batch))
        return done, copy

    def _begun(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, non_blocking=True) if _is_dense(tensor) else tensor

    def finish(self, copy: Any) -> Any:
        done, batch = copy
        current = torch.cuda.current_stream(self.device)
        current.wait_event(done)

        def used_here(tensor: torch.Tensor) -> torch.Tensor:
            if not _is_dense(tensor):  # no stream can be recorded for these
                return tensor.to(self.device)
            tensor.record_stream(current)  # its memory was allocated for the stream of copies
            return tensor

        # Objects move their tensors on the stream of the step, because nothing else keeps that memory for it.
        return map_tensors(used_here, batch, self._move)

    def end(self) -> None:
        for done, _ in self._sources:
            done.synchronize()
        self._sources.clear()


def require_device(device: torch.device | str | int) -> torch.device:
    """Raises InvalidArgument for anything but a device, and for a CUDA device if there is none."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidArgument(f"[device] expected a device such as \"cuda\" or \"cpu\", got {device!r}") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument(f"[device] expected a device of this machine, got {found}, which torch cannot use here")
    count = torch.cuda.device_count() if found.type == "cuda" and found.index is not None else 0
    if found.index is not None and 0 < count <= found.index:
        raise InvalidArgument(f"[device] expected a device of this machine, which has {count} GPUs, got {found}")
    return found


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested


def to_pinned(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in pinned memory, of which torch keeps track while it is copied to a device. The tensor itself without
    CUDA, and where it cannot be pinned: on another device, sparse, or nested."""
    can_be = torch.cuda.is_available() and tensor.device.type == "cpu" and _is_dense(tensor)
    return tensor.pin_memory() if can_be else tensor


def object_to_pinned(value: Any) -> Any:
    """As `to_pinned`, for an object that pins its tensors itself."""
    pins = callable(getattr(type(value), "pin_memory", None)) and torch.cuda.is_available()
    return value.pin_memory() if pins else value


def map_tensors(
    function: Callable[[torch.Tensor], torch.Tensor],
    value: Any,
    of_objects: Callable[[Any], Any] = lambda value: value,
) -> Any:
    """`value` with `function` of each tensor in it, in mappings, lists, tuples and named tuples, and `of_objects` of
    what is none of these."""
    if isinstance(value, torch.Tensor):
        return function(value)
    moves_itself = callable(getattr(type(value), "to", None))  # such as a PackedSequence or a TensorDict
    if isinstance(value, (dict, UserDict)) or (isinstance(value, Mapping) and not moves_itself):
        return with_items(value, {name: map_tensors(function, inner, of_objects) for name, inner in value.items()})
    if isinstance(value, (list, tuple)) and not moves_itself:
        return with_parts(value, (map_tensors(function, inner, of_objects) for inner in value))
    return of_objects(value)
