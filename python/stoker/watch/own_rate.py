"""What stoker.Loader gives of the images that the program has loaded: measured after its end, on the same machine."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any

_SECONDS = 2.0
_MOST_IMAGES = 20_000
_MOST_FILES = 200_000  # of a folder, which is listed first


@dataclass(frozen=True)
class ImageSource:
    """A folder of images as torchvision's ImageFolder reads it. The transform is kept alive until the watch ends."""

    root: str
    transform: Any
    batch_size: int
    images: int


def image_source(note: Any) -> ImageSource | None:
    """Of a DataLoader over an ImageFolder that stoker.Loader may replace; None of any other data set, a part of one, or
    with a program's own code: a sampler, a collate function, a choice of files."""
    dataset, batch_size = note.dataset, note.batch_size
    kind = type(dataset)
    transform = getattr(dataset, "transform", None)
    if (kind.__module__, kind.__name__) != ("torchvision.datasets.folder", "ImageFolder") or not batch_size:
        return None
    if note.shuffled is None or not note.default_collate or not dataset.extensions or len(dataset.samples) > _MOST_FILES:
        return None
    known_loader = getattr(dataset.loader, "__module__", "") == "torchvision.datasets.folder"
    if not known_loader or dataset.target_transform is not None:
        return None
    if transform is not None and not type(transform).__module__.startswith("torchvision.transforms"):
        return None
    return ImageSource(str(dataset.root), transform, int(batch_size), len(dataset.samples))


def measure(source: ImageSource) -> float | None:
    """Images a second, with as many workers as there are cores. Takes about two seconds.

    None where a part of the transform stays in Python, where stoker.Loader cannot read the folder, or where the program
    has other images of it.
    """
    from stoker.errors import Error
    from stoker.loader import Loader
    from stoker.transforms import InPython, from_torchvision

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has not asked for this loader yet
        ops = from_torchvision(source.transform)
        if any(isinstance(op, InPython) for op in ops):
            return None
        try:
            loader = Loader(source.root, source.batch_size, ops=ops, bad_samples="100%", jpeg_index=False)
            return _rate(loader) if len(loader.dataset) == source.images else None
        except Error:  # such as images of different sizes
            return None


def _rate(loader: Any) -> float | None:
    images, start = 0, 0.0
    for batch in loader:
        now = perf_counter()
        if start == 0:  # the first batch comes when the workers have started
            start = now
            continue
        images += len(batch["label"])
        if now - start >= _SECONDS or images >= _MOST_IMAGES:
            break
    elapsed = perf_counter() - start
    return images / elapsed if images and elapsed > 0 else None
