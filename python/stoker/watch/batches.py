"""How large the batches of a loader are, and how many wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from stoker.watch.seen import LoaderNote, Seen
from stoker.watch.steps import Steps

_unseen = torch._C.DisableTorchFunction
_CHANNELS = 4  # the most that an image has as its first size


def ready_batches(iterator: Any) -> int | None:
    """Batches that workers have finished; None where queues cannot be counted."""
    try:
        return int(iterator._data_queue.qsize())
    except (AttributeError, NotImplementedError):
        return None


def _first_tensor(batch: Any) -> torch.Tensor | PackedSequence | None:
    for _ in range(4):
        if isinstance(batch, (torch.Tensor, PackedSequence)):
            return batch
        if isinstance(batch, (list, tuple)):
            batch = batch[0] if batch else None
        elif isinstance(batch, Mapping):
            batch = next(iter(batch.values()), None)
        else:
            break
    return None


def _are_stacked(parts: Any) -> bool:
    """Whether parts of samples, which are mappings or lists of tensors, have one batch in common."""
    if not all(isinstance(part, (Mapping, list, tuple)) for part in parts):
        return False
    values = [value for part in parts for value in (part.values() if isinstance(part, Mapping) else part)]
    if not values or not all(isinstance(value, torch.Tensor) for value in values):
        return False
    with _unseen():
        sizes = {value.size(0) if value.dim() > 0 else 0 for value in values}
    return len(sizes) == 1 and sizes.pop() > _CHANNELS


def _listed_samples(batch: Any) -> int:
    """Samples of a batch that is not stacked, as detection has them; 0 for others.

    They are a list of samples, or (images, targets), each a list with one entry for each sample.
    """
    if not isinstance(batch, (list, tuple)) or not batch:
        return 0
    first = batch[0]
    if isinstance(first, (torch.Tensor, PackedSequence)) or _are_stacked(batch):
        return 0
    if isinstance(first, Mapping):
        return len(batch) if isinstance(batch, list) and all(isinstance(sample, Mapping) for sample in batch) else 0
    parts = [part for part in batch if isinstance(part, (list, tuple))]
    if len(parts) != len(batch) or any(len(part) != len(first) for part in parts):
        return 0
    tensors = [part for part in first if isinstance(part, torch.Tensor)]
    if not tensors:
        return 0
    with _unseen():
        alike = len(tensors) == len(first) and all(tensor.dim() == tensors[0].dim() for tensor in tensors)
    return len(first) if alike and len(batch) > 1 else len(batch)


def _stacked_samples(batch: Any) -> int:
    """The first size of the first tensor; 0 without one."""
    tensor = _first_tensor(batch)
    if isinstance(tensor, PackedSequence):
        return int(tensor.batch_sizes[0])
    if tensor is None:
        return 0
    with _unseen():
        return tensor.size(0) if tensor.dim() > 0 else 1


def batch_length(batch: Any) -> int:
    """Samples of a batch: the entries of its lists, or the first size of its first tensor.

    No `__torch_function__` of the program is asked.
    """
    return _listed_samples(batch) or _stacked_samples(batch)


def note_batch(note: LoaderNote | None, batch: Any) -> int:
    """Samples of a batch. At a loader's first batch it is noted whether sizes of tensors tell them. Where they do not,
    as with the time first, a batch has the loader's batch_size."""
    if note is None or note.per_batch == 0:
        return batch_length(batch)
    if note.per_batch > 0:
        return note.per_batch
    samples = measured = batch_length(batch)
    if isinstance(note.batch_size, int) and measured != note.batch_size:
        with _unseen():
            samples = note.expected()
    note.per_batch = 0 if measured == samples else note.batch_size
    listed = measured == samples and measured == _listed_samples(batch)
    note.sample_bytes = _sample_bytes(batch, 1 if listed else samples)
    return samples


class InputNote:
    """The samples that the model gets in its first training calls: the batch of a program without a loader, and whether
    a loader with batch_size=None gives single samples."""

    def __init__(self, steps: Steps, seen: Seen) -> None:
        self._steps = steps
        self._seen = seen
        self._model = 0  # its id: the first outermost module with parameters that learns
        self._before = (0, 0)  # batches and samples at the last call
        self._calls: list[tuple[int, int, int]] = []  # samples; batches since the call before, and their samples
        self.wanted = True

    def add(self, model: int, inputs: list[Any]) -> None:
        self._model = self._model or model
        if model != self._model:
            return
        rows = self._steps.rows
        now = rows.batches + self._steps.batches, rows.samples + self._steps.samples
        self._calls.append((_input_samples(inputs), now[0] - self._before[0], now[1] - self._before[1]))
        self._before = now
        if len(self._calls) == 4:  # the first may come before or after more batches than one
            self._decide()

    def _decide(self) -> None:
        self.wanted = False
        samples, batches, measured = self._calls[-1]
        note = self._steps.loader
        if note is None:
            self._seen.fed = samples
        elif note.unbatched and len(set(self._calls[1:])) == 1 and samples == batches != measured:
            self._seen.fed = samples
            self._seen.single.add(note.kind)
            note.per_batch = 1
            if note.sample_bytes is not None:  # of a share of a sample
                note.sample_bytes = note.sample_bytes * measured // batches
                self._seen.sample_bytes = note.sample_bytes


def _input_samples(inputs: list[Any]) -> int:
    """Samples of a model's inputs: the first size of the first tensor; of a list of images its length. A single row of
    floats is one sample."""
    first = inputs[0] if inputs else None
    with _unseen():
        if isinstance(first, (list, tuple)) and first and all(isinstance(one, torch.Tensor) for one in first):
            if all(one.dim() == 3 and one.size(0) <= _CHANNELS for one in first):
                return len(first)
        tensor = _first_tensor(inputs)
        if isinstance(tensor, torch.Tensor) and tensor.dim() < 2 and tensor.is_floating_point():
            return 1
    return _stacked_samples(inputs)


def _sample_bytes(batch: Any, samples: int) -> int | None:
    tensor = _first_tensor(batch)
    if not isinstance(tensor, torch.Tensor):
        return None
    with _unseen():
        return tensor.numel() * tensor.element_size() // max(1, samples)
