"""stoker.Loader in the Trainer of transformers, which resumes by leaving out the first batches of a DataLoader."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, Sampler

from stoker.loader import Loader


class TrainerLoader(DataLoader[Any]):
    """What get_train_dataloader of a Trainer returns for a stoker.Loader.

    In the epoch of a checkpoint the Trainer leaves out the batches before it. Here these are numbers, so no sample of
    them is read, and the Trainer counts them as trained: the weights are those of a run without the interruption, also
    where the last step of an epoch accumulates the gradients of fewer batches.

    loader: of data with a length; with `rank` and `world_size` in several processes.
    """

    def __init__(self, loader: Loader) -> None:
        batches = _Batches(loader)
        super().__init__(batches, batch_sampler=_Numbers(batches), collate_fn=operator.itemgetter(0))
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return iter(self.loader)

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)


class _Batches(Dataset[Any]):
    """Gives the batches from a number on, in order."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.rest: Iterator[Any] | None = None

    def __len__(self) -> int:
        """The Trainer reports the number of samples."""
        return len(self.loader.dataset)

    def __getitem__(self, number: int) -> Any:
        if self.rest is None:
            self.loader.load_state_dict({**self.loader.state_dict(), "batch": number, "bad_samples": 0})
            self.rest = iter(self.loader)
        return next(self.rest)


class _Numbers(Sampler[list[int]]):
    """The numbers of an epoch's batches, from which accelerate.skip_first_batches takes the first ones away."""

    def __init__(self, batches: _Batches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches.loader)

    def __iter__(self) -> Iterator[list[int]]:
        self._batches.rest = None
        return ([number] for number in range(len(self)))

    def set_epoch(self, epoch: int) -> None:
        """The Trainer calls it where batches are left out."""
        self._batches.loader.set_epoch(epoch)
