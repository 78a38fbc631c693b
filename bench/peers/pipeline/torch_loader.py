"""PyTorch's DataLoader over a folder of JPEGs, in four ways: Pillow (torchvision's ImageFolder as it comes), OpenCV,
and the decoders of torchvision and torchcodec with v2 transforms. One endless epoch, so that no gap between epochs
counts."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

from protocol import MEAN, RATIO, SCALE, STD, Opened, Task, images_of, serve


class Photos(Dataset[tuple[Tensor, int]]):
    """Calls `load` on a path."""

    def __init__(self, task: Task, load) -> None:
        self.paths, self.labels = images_of(task.data)
        self.load = load

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.load(self.paths[index]), self.labels[index]


def pillow(task: Task) -> Dataset:
    steps = [
        transforms.RandomResizedCrop(task.size, SCALE, RATIO, antialias=True),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD, inplace=True),
    ]
    return ImageFolder(str(task.data), transforms.Compose(steps))


def opencv(task: Task) -> Dataset:
    from opencv_ops import load_file

    return Photos(task, lambda path: torch.from_numpy(load_file(path, task.size)))


def v2_steps(task: Task) -> v2.Compose:
    return v2.Compose([
        v2.RandomResizedCrop(task.size, SCALE, RATIO, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN.tolist(), STD.tolist(), inplace=True),
    ])


def torchvision(task: Task) -> Dataset:
    steps = v2_steps(task)
    return Photos(task, lambda path: steps(decode_jpeg(read_file(path), ImageReadMode.RGB)))


def torchcodec(task: Task) -> Dataset:
    from torchcodec.decoders import decode_jpeg as decode

    steps = v2_steps(task)
    return Photos(task, lambda path: steps(decode(path)))


def prepare(task: Task) -> Opened:
    ways = {"pillow": pillow, "opencv": opencv, "torchvision": torchvision, "torchcodec": torchcodec}
    return Opened(task.data, ways[task.variant](task))


def batches(task: Task, data: Dataset) -> Iterator[Tensor]:
    loader = DataLoader(
        data,
        batch_size=task.batch,
        sampler=RandomSampler(data, num_samples=len(data) * 10_000),  # one permutation after the other
        num_workers=task.workers,
        drop_last=True,
    )
    for images, _ in loader:
        yield images


serve(prepare, batches)
