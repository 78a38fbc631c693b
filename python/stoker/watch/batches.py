"""How large the batches of a loader are, and how many wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_unseen = torch._C.DisableTorchFunction


def ready_batches(iterator: Any) -> int | None:
    """Batches that workers have finished; None where queues cannot be counted."""
    try:
        return int(iterator._data_queue.qsize())
    except (AttributeError, NotImplementedError):
        return None


def _first_tensor(batch: Any) -> torch.Tensor | None:
    for _ in range(4):
        if isinstance(batch, torch.Tensor):
            return batch
        if isinstance(batch, (list, tuple)):
            batch = batch[0] if batch else None
        elif isinstance(batch, Mapping):
            batch = next(iter(batch.values()), None)
        else:
            break
    return None


def _listed_samples(batch: Any) -> int:
    """Samples of a batch that is not stacked, as detection has them; 0 for others.

    They are a list of samples, or (images, targets), each a list with one entry for each sample.
    """
    if not isinstance(batch, (list, tuple)) or not batch:
        return 0
    first = batch[0]
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


def batch_length(batch: Any) -> int:
    """Samples of a batch: the first size of its first tensor, or the entries of its lists.

    No `__torch_function__` of the program is asked.
    """
    listed = _listed_samples(batch)
    if listed > 0:
        return listed
    tensor = _first_tensor(batch)
    if tensor is None:
        return 0
    with _unseen():
        return tensor.size(0) if tensor.dim() > 0 else 1


def sample_bytes(batch: Any) -> int:
    tensor = _first_tensor(batch)
    if tensor is None:
        return 0
    samples = 1 if _listed_samples(batch) > 0 else max(1, batch_length(batch))
    with _unseen():
        return tensor.numel() * tensor.element_size() // samples
