"""FFCV from its own files: variant "jpg" stores JPEGs of quality 90 at full size, "raw" pixels of at most 500 a
side. All operations are FFCV's own compiled ones, as its examples have them: the batches stay channels-last in memory,
because the change to planes would cost it a third of its speed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from PIL import Image
from torch import Tensor

from protocol import MEAN, RATIO, SCALE, STD, Opened, Task, images_of, serve


class Photos:
    def __init__(self, task: Task) -> None:
        self.paths, self.labels = images_of(task.data)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.open(self.paths[index]).convert("RGB"), self.labels[index]


def prepare(task: Task) -> Opened:
    path = task.work / f"{task.variant}.beton"
    if not path.exists():
        field = {"jpg": RGBImageField("jpg", jpeg_quality=90), "raw": RGBImageField("raw", max_resolution=500)}
        DatasetWriter(str(path), {"image": field[task.variant], "label": IntField()}, num_workers=2).from_indexed_dataset(
            Photos(task)
        )
    return Opened(path, path)


def batches(task: Task, path: Path) -> Iterator[Tensor]:
    image = [
        RandomResizedCropRGBImageDecoder((task.size, task.size), SCALE, RATIO),
        RandomHorizontalFlip(),
        NormalizeImage(255 * MEAN, 255 * STD, np.float32),
        ToTensor(),
        ToTorchImage(),
    ]
    samples = len(images_of(task.data)[0])
    loader = Loader(
        str(path),
        batch_size=task.batch,
        num_workers=task.workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=True,
        indices=np.tile(np.arange(samples, dtype=np.uint64), 2000),  # one long epoch: no gaps
        pipelines={"image": image, "label": [IntDecoder(), ToTensor()]},
    )
    for images, _ in loader:
        yield images


serve(prepare, batches, channels_last=True)
