"""TurboLoader: its fused `train_aug` path from a tar of JPEGs, variant "tar", and "antialiased"; variant "tbl" serves
pixels that it has scaled to 256 a side before. Its C++ pool has a thread for each core of the process, so the process
gets as many cores as there are workers."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import turboloader

from protocol import Opened, Task, images_of, serve

COPIES = 4  # of each photograph in the archive: an epoch ends with a gap
STORED_SIZE = 256


def write_tar(task: Task) -> Path:
    path = task.work / "turboloader.tar"
    if not path.exists():
        paths, _ = images_of(task.data)
        with tarfile.open(path, "w") as archive:
            for index in range(COPIES * len(paths)):
                archive.add(paths[index % len(paths)], f"{index:07}.jpg")
    return path


def prepare(task: Task) -> Opened:
    path = write_tar(task)
    if task.variant == "tbl":
        packed = task.work / "turboloader.tbl"
        if not packed.exists():
            turboloader.preprocess_to_tbl(str(path), str(packed), image_size=STORED_SIZE)
        path = packed
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task.workers])
    return Opened(path, path)


def batches(task: Task, path: Path) -> Iterator[np.ndarray]:
    loader = turboloader.DataLoader(
        str(path),
        batch_size=task.batch,
        num_workers=task.workers,
        output_format="pytorch",
        image_size=task.size,
        transform=turboloader.ImageNetNormalize(),
        train_aug=True,
        antialias=task.variant == "antialiased",
        shuffle=True,
        drop_last=True,
    )
    epoch = 0
    while True:
        loader.set_epoch(epoch)
        for images, _ in loader:
            yield np.asarray(images)
        epoch += 1


serve(prepare, batches)
