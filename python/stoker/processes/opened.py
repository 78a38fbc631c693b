"""Samples of stoker.open whose last ops are Python's: read, decoded and augmented by the C++ code, then by those."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from stoker import _stoker
from stoker.dataset import Dataset, _numpy
from stoker.errors import Unsupported


class OpenedSamples:
    """The ops of `settings` run in C++ with the loader's random numbers; `parts` get a PIL image, as from torchvision's
    ImageFolder."""

    def __init__(self, dataset: Dataset, settings: dict[str, Any], parts: Sequence[Callable[[Any], Any]]) -> None:
        moving = [field.name for field in dataset.fields if field.kind in ("image", "mask", "boxes")]
        if moving or not dataset.has_image:
            raise Unsupported(
                "[ops] expected an image alone for ops that run in Python, "
                f"got {'the fields ' + ', '.join(moving) if moving else 'none'}; a Dataset of your own can change them all"
            )
        self._arguments = (dataset, settings, parts)
        self._dataset = dataset
        self._parts = parts
        self._process = os.getpid()
        self._reader: _stoker.SampleReader | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenedSamples, self._arguments

    def __len__(self) -> int:
        return len(self._dataset)

    def read(self, index: int, seed: int, epoch: int, drawn: int, occurrence: int) -> dict[str, Any]:
        """The sample `index` with the random numbers of the sample `drawn`."""
        if self._reader is None or self._process != os.getpid():
            self._open()
        assert self._reader is not None
        sample = self._reader.read(index, seed, epoch, drawn, occurrence)
        fields = {name: _numpy(value) for name, value in sample.items()}
        pixels = fields["image"]
        image = importlib.import_module("PIL.Image").fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        for part in self._parts:
            image = part(image)
        return {**fields, "image": image}

    def _open(self) -> None:
        """A forked child opens the data again: threads and locks of the parent's data set are not there."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._dataset = pickle.loads(pickle.dumps(self._dataset))
        self._reader = _stoker.SampleReader(self._dataset._handle, self._arguments[1])
