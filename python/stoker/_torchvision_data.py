"""torchvision's data sets of images whose files stoker.open reads: the same samples in the same order, in C++."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.dataset import Dataset
from stoker.dataset import open as open_dataset
from stoker.errors import Error, InvalidArgument
from stoker.transforms.base import InPython, Transform
from stoker.transforms.torchvision import dtype_of_images, from_torchvision

_FOLDERS = {("torchvision.datasets.folder", "ImageFolder"), ("torchvision.datasets.imagenet", "ImageNet")}
_ARRAYS = {("torchvision.datasets.cifar", "CIFAR10"), ("torchvision.datasets.cifar", "CIFAR100")}
_ARRAYS |= {("torchvision.datasets.mnist", name) for name in ("MNIST", "FashionMNIST", "KMNIST")}


class ReadInCpp(UserWarning):
    """A data set of torchvision is read without its Python code: faster, with the same samples in the same order."""


class InCpp(NamedTuple):
    """A data set of stoker.open, and the arguments of a loader that reads a data set of torchvision with it."""

    dataset: Dataset
    ops: Sequence[Any]
    dtype: str | None  # of the transform's images; None: the loader's argument holds


def in_cpp(source: Any, ops: Sequence[Any]) -> InCpp | None:
    """None for other data sets, among them subclasses, and where a part of the transform has to run in Python.

    `ops`: the loader's argument, for a data set without a transform. Raises InvalidArgument where both are given.
    """
    chosen: list[int] | None = None
    while _kind(source) == ("torch.utils.data.dataset", "Subset"):
        indices = [int(index) for index in source.indices]
        chosen = indices if chosen is None else [indices[index] for index in chosen]
        source = source.dataset
    if _kind(source) not in _FOLDERS | _ARRAYS or source.target_transform is not None:
        return None
    transform = source.transform
    own = [ops] if isinstance(ops, Transform) else list(ops)
    if own and transform is not None:
        raise InvalidArgument(f"[ops] expected none for {type(source).__name__} with a transform, got {ops}")
    if transform is None and not own:
        return None  # samples are PIL images
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = own if transform is None else from_torchvision(transform)
        if any(isinstance(op, InPython) for op in given):
            return None
        try:
            dataset = _opened(source)
        except Error:
            return None
    if dataset is None:
        return None
    warnings.warn(
        f"[source] {type(source).__name__}({os.fspath(source.root)!r}) is read in C++, with its samples in the same order; "
        "random ops draw from `seed`",
        ReadInCpp,
        stacklevel=4,
    )
    dtype = None if transform is None else dtype_of_images(transform)
    return InCpp(dataset if chosen is None else dataset[chosen], given, dtype)


def _kind(source: Any) -> tuple[str, str]:
    return type(source).__module__, type(source).__name__


def _opened(source: Any) -> Dataset | None:
    """None where stoker.open sees other samples, such as files that it leaves out."""
    if _kind(source) in _FOLDERS:
        if getattr(source.loader, "__module__", "") != "torchvision.datasets.folder" or not source.extensions:
            return None
        root = os.path.join(source.root, source.split) if hasattr(source, "split_folder") else source.root
        dataset = open_dataset(root)
        keys = [os.path.relpath(path, root).replace(os.sep, "/") for path, _ in source.samples]
        targets = source.targets
        if keys != [dataset.key(index) for index in range(len(dataset))]:
            return None
    else:
        folder = source.raw_folder if hasattr(source, "raw_folder") else os.path.join(source.root, source.base_folder)
        dataset = open_dataset(folder, split="train" if source.train else "test")
        targets = [int(target) for target in source.targets]
    same = len(dataset) == len(targets) and all(dataset.label(at) == target for at, target in enumerate(targets))
    return dataset if same else None
