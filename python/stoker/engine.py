"""Batches of the C++ loader, whose worker threads fill them: its memory as tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import _stoker
from stoker.dataset import Dataset

BadTuples = list[tuple[int, str, str, int | None]]


class EngineSource:
    """The same interface as the sources of stoker.processes."""

    def __init__(
        self,
        dataset: Dataset,
        arguments: dict[str, Any],
        names: tuple[str, ...] | None,
        to_tensor: Callable[[Any], Any],
    ) -> None:
        self._handle = _stoker.Loader(dataset._handle, **arguments)
        self._names = names
        self._to_tensor = to_tensor
        self._byte_fields = {field.name for field in dataset.fields if field.kind == "bytes"}
        self.fields = tuple(self._handle.fields())
        self.workers = self._handle.workers
        self.batches = self._handle.batches
        self.state = self._handle.state
        self.restore = self._handle.restore
        self.close = self.collected = self._handle.close

    def next(self) -> tuple[Any, BadTuples] | None:
        """The batch as a dict of the wanted fields, and its bad samples; None once at the end of an epoch."""
        taken = self._handle.next(self._names)
        if taken is None:
            return None
        fields, bad = taken
        return {name: self._value(name, value) for name, value in fields.items()}, bad

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, list):  # the keys
            return value
        if not isinstance(value, tuple):
            return self._to_tensor(value)
        values, offsets = value  # of any length
        ranges = zip(offsets, offsets[1:])
        if name in self._byte_fields:
            memory = memoryview(values)
            return [memory[begin:end].tobytes() for begin, end in ranges]
        tensor = self._to_tensor(values)
        return [tensor[begin:end] for begin, end in ranges]


def late_normalize(
    dataset: Dataset, arguments: dict[str, Any], names: tuple[str, ...] | None, device: Any
) -> Callable[[Any], Any] | None:
    """Lets a GPU normalise: `arguments` become those of bytes, which are a quarter of the floats to copy.

    Returns what makes the images of a batch there, or None where the loader normalises.
    """
    dtype, norms = arguments["dtype"], _norms(dataset, arguments)
    if device is None or norms is None or dtype not in ("float32", "float16", "bfloat16"):
        return None
    from stoker.torch import LateNormalize, require_device

    if require_device(device).type != "cuda":
        return None
    arguments["dtype"] = "uint8"
    if names is None:
        return LateNormalize(dtype, norms)
    return LateNormalize(dtype, {place: norms[name] for place, name in enumerate(names) if name in norms})


def _norms(dataset: Dataset, arguments: dict[str, Any]) -> dict[str, tuple[Any, Any]] | None:
    """Mean and std of each image of a batch. None without images, and for a preset, which only the engine knows."""
    ops, views = arguments["settings"]["ops"], int(arguments["settings"]["views"])
    tables = {"image": ops} if dataset.has_image else {}
    tables |= {f"image_{view}": ops for view in range(2, views + 1)}
    for field in dataset.fields:
        if field.kind == "image":
            tables[field.name] = arguments["field_ops"].get(field.name, ops)
    last = {name: own[-1] if own and own[-1]["op"] == "normalize" else {} for name, own in tables.items()}
    if not last or any("preset" in options for options in last.values()):
        return None
    return {name: (options.get("mean", 0.0), options.get("std", 1.0)) for name, options in last.items()}
