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


def batch_length(batch: Any) -> int:
    """Samples of a batch: the first size of its first tensor. No `__torch_function__` of the program is asked."""
    tensor = _first_tensor(batch)
    if tensor is None:
        return 0
    with _unseen():
        return tensor.size(0) if tensor.dim() > 0 else 1


def sample_bytes(batch: Any) -> int:
    tensor = _first_tensor(batch)
    if tensor is None:
        return 0
    with _unseen():
        return tensor.numel() * tensor.element_size() // max(1, batch_length(batch))
