"""torch's DataLoader with data sets of torchvision read in C++, in torch's own order: stoker.DataLoader."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker._torchvision_data import InCpp, in_cpp
from stoker.errors import InvalidArgument
from stoker.loader import Loader
from stoker.transforms.base import op_tables

_FIXED = {"resize", "center_crop", "grayscale", "to_float", "window", "normalize", "normalize_range"}


class CppSamples:
    """A data set of torchvision that C++ reads, with its transform."""

    def __init__(self, found: InCpp) -> None:
        self.found = found
        tables = op_tables(list(found.ops))
        self.draws = any(table["op"] not in _FIXED for table in tables)  # random numbers
        norms = [table for table in tables if table["op"] == "normalize"]
        std: Any = norms[-1].get("std", 0.2) if norms else 1.0  # of a preset: about that
        smallest = min(std) if isinstance(std, (list, tuple)) else float(std)
        self.level = 1.001 / 255 / smallest  # of a pixel, in the batch

    @staticmethod
    def of(loader: Any) -> CppSamples | None:
        """None where the data set or its transform has to run in Python, or the loader makes batches otherwise."""
        if loader.batch_sampler is None or loader.collate_fn is not default_collate or loader.worker_init_fn is not None:
            return None
        found = in_cpp(loader.dataset, ())
        return None if found is None else CppSamples(found)


class CppBatches:
    """Batches of the samples with these indices.

    batches: all but the last of one size. workers: threads. seed: of the random ops. Raises InvalidArgument for batches
    of several sizes, and DataError for a sample that cannot be decoded.
    """

    def __init__(
        self, samples: CppSamples, batches: Iterable[Sequence[int]], workers: int, pin_memory: bool, seed: int
    ) -> None:
        self.left = deque(list(batch) for batch in batches)
        self._batches: Any = iter(())
        if not self.left:
            return
        size = len(self.left[0])
        if any(len(batch) != size for batch in list(self.left)[:-1]) or len(self.left[-1]) > size:
            raise InvalidArgument("[batch_sampler] expected batches of one size, got several; use torch's DataLoader")
        found = self.found = samples.found
        indices = [int(index) for batch in self.left for index in batch]
        loader = Loader(
            found.dataset[indices], size, seed=seed % (1 << 63), workers=workers, bad_samples=0, shuffle=False,
            ops=found.ops, dtype=found.dtype or "float32", as_tuple=True, framework="torch", pin_memory=pin_memory,
        )  # fmt: skip
        self._batches = iter(loader)

    def next(self) -> Any:
        """[images, labels], as the default collate function makes them. Raises StopIteration at the end."""
        batch = list(next(self._batches))
        self.left.popleft()
        return batch


class DataLoader(torch.utils.data.DataLoader[Any]):
    """torch's DataLoader: its arguments, its batches and its order. Data sets of torchvision that Stoker knows are read,
    decoded and transformed by threads of C++.

        loader = stoker.DataLoader(ImageFolder("train", transform), batch_size=64, shuffle=True)

    Known are ImageFolder, ImageNet, MNIST, FashionMNIST, KMNIST, CIFAR10 and CIFAR100, and subsets of them, with a
    transform that stoker.transforms.from_torchvision translates as a whole, and torch's default collate function. Every
    other data set is loaded by torch. Sampler and batch sampler are the program's, and are asked for the whole pass when
    it begins. Random ops draw from a seed of `generator` for each pass, and not from torch's global generator.

    num_workers: threads; 0: as many as this process has cores.
    """

    def _get_iterator(self) -> Any:
        samples = CppSamples.of(self)
        return super()._get_iterator() if samples is None else _Iterator(self, samples)


class _Iterator(_BaseDataLoaderIter):
    def __init__(self, loader: DataLoader, samples: CppSamples) -> None:
        super().__init__(loader)
        self._num_workers = loader.num_workers or useful_threads()
        self._samples = samples
        self._begin()

    def _begin(self) -> None:
        seed = int(self._base_seed)
        self._batches = CppBatches(self._samples, self._sampler_iter, self._num_workers, self._pin_memory, seed)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """A further pass with persistent_workers=True, for which torch draws no seed."""
        super()._reset(loader, first_iter)
        self._base_seed += 1
        self._begin()

    def _next_data(self) -> Any:
        return self._batches.next()


def useful_threads() -> int:
    return len(os.sched_getaffinity(0))
